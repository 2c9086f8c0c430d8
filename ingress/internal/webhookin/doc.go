// Package webhookin reads deliveries of webhook sources: it verifies the signature, determines the
// id and the event, and turns the payload into the message of a run. It contains no HTTP server and
// accesses no database.
//
//	headers and raw body ──► Verify ──► Read: id, event, payload ──► Rules: filter, message, key
//
// Templates are text with {{paths}}, without code, loops or functions. Values of a payload are
// enclosed in ⟦ and ⟧ in the message. These two characters are removed from the values, so a sender
// cannot end the enclosure. Package httpapi/hook verifies deliveries with it, checks the settings
// of hooks and signs test deliveries. Package intake applies the rules. Package
// httpapi/notification uses it for generated secrets.
package webhookin
