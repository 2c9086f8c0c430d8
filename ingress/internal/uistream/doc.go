// Package uistream encodes the events of a run in protocols for user interface libraries: the UI
// message stream of the AI SDK, and AG-UI. The encoding is pure: events go in, and server-sent
// events come out.
//
//	domain.Event ──► Encoder ──► pieces: text, tool call, source, end ──► dialect ──► frames
//	                 (digest.go)                                          (aisdk.go, agui.go)
//
// Neither protocol has an event for a void attempt. When an attempt starts over, the encoder sends
// only the text after the part already sent (stream.SentText). If the new text differs from that
// part, the stream ends with an error.
package uistream
