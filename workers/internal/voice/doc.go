// Package voice serves the voice sessions that ingresses open over the bus. It detects speech in
// the incoming audio, has it transcribed, and has growing answers synthesized.
//
//	audio ─► tape ─► activity ─► started, stopped ─► utterance ─► Transcriber ─► transcript
//	say ─► sentence ─► segments ─► Synthesizer, one ahead ─► pace ─► audio, segment, said
//
// One goroutine owns a session and does everything except the calls of the speech backends. A
// session has at most one synthesis, one transcription and one early transcription at a time. Its
// goroutine waits for none of them, so it reports speech immediately and stops an answer
// immediately. A voice session stores neither runs nor chat sessions: if its worker is lost, the
// ingress still has all state and reopens the session on another worker.
package voice
