// Package voice serves voice lines that ingresses open over the bus: it finds speech in what comes and has it transcribed,
// and has answers said as they grow.
//
//	audio ─► tape ─► activity ─► started, stopped ─► utterance ─► Transcriber ─► transcript
//	say ─► sentence ─► segments ─► Synthesizer, one ahead ─► pace ─► audio, segment, said
//
// One goroutine owns a line and does all of that but the backends' calls, of which a line has one of each kind at a time. It
// waits for neither, so that speech is told of at once, and an answer that is stopped says nothing more. A line knows neither
// runs nor sessions: what is lost with it the ingress has, and sends to another worker.
package voice
