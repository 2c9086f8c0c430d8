// Package uistream encodes the events of a run in protocols for user interface libraries: the UI
// message stream of the AI SDK, and AG-UI. The package only converts events to server-sent events.
// It sends nothing.
//
//	domain.Event ──► Encoder ──► pieces: text, tool call, source, end ──► dialect ──► frames
//	                 (digest.go)                                          (aisdk.go, agui.go)
//
// Neither protocol can retract the text of an abandoned attempt. When an attempt starts over, the
// encoder sends only the text after the part already sent (stream.SentText). If the new text
// differs from that part, the stream ends with an error.
package uistream
