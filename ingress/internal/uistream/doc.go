// Package uistream tells the events of a run in the protocols that libraries for user interfaces read: the UI message
// stream of the AI SDK, and AG-UI. It is pure: events go in, server-sent events come out.
//
//	domain.Event ──► Encoder ──► pieces: text, tool call, source, end ──► dialect ──► frames
//	                 (digest.go)                                          (aisdk.go, agui.go)
//
// Both protocols have no word for a void attempt. Of a run that begins anew only what goes beyond what was told is told
// (stream.Told), and when that contradicts it, the stream ends with an error.
package uistream
