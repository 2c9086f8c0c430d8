// Package voice serves voice sessions, which ingresses open over the bus. It detects speech in the
// incoming audio, transcribes it, and synthesizes answers while their text arrives. It implements
// the worker role "voice".
//
//	audio ─► tape ─► activity ─► started, stopped ─► utterance ─► Transcriber ─► transcript
//	say ─► sentence ─► segments ─► Synthesizer, one ahead ─► pace ─► audio, segment, said
//
// One goroutine owns a session and does everything except the calls of the speech backends. A
// session has at most one synthesis, one transcription and one early transcription at a time. The
// session's goroutine waits for none of these calls, so it reports speech immediately and can stop
// an answer immediately.
//
// A voice session stores neither runs nor chat sessions. If its worker is lost, the ingress still
// has the whole state and opens the session again on another worker.
//
// Positions are numbers of samples since the beginning of the voice session, and do not change when
// the session moves. Audio is in the format of contract.VoiceRate. Audio and texts are never stored
// or logged.
package voice
