// Package webhookin reads deliveries of webhook sources: it verifies the signature, determines the
// id and the event, and turns the payload into the message of a run. It contains no HTTP server and
// accesses no database.
//
//	headers and raw body ──► Verify ──► Read: id, event, payload ──► Rules: filter, message, key
//
// Templates are text with {{paths}}, without code, loops or functions. Values of a payload are
// enclosed in ⟦ and ⟧ in the message. These two characters are removed from the values, so a sender
// cannot end the enclosure. Package httpapi/hook uses this package to verify deliveries, to check
// the settings of hooks and to sign test deliveries. Package intake applies the rules. Package
// httpapi/notification uses this package to generate secrets.
package webhookin
