// Package webhookin reads what sources send to hooks: it checks who signed a delivery, names it, and makes of its payload
// the message of a run. It is pure: it knows neither HTTP servers nor stores.
//
//	headers and raw body ──► Verify ──► Read: id, event, payload ──► Rules: filter, message, key
//
// Templates are text with {{paths}}, and nothing more: no code, no loops, no functions. What a payload brings stands between
// ⟦ and ⟧ in the message, and these two characters are taken out of it, so that nobody outside can end the marks.
package webhookin
