package speech

import "context"

// Unavailable is a Transcriber and a Synthesizer whose calls fail. Why states the reason to
// callers.
type Unavailable struct{ Why string }

// Transcribe fails.
func (u Unavailable) Transcribe(context.Context, Utterance) (string, error) {
	return "", &Error{Code: CodeTranscription, Message: "Speech recognition is unavailable: " + u.Why + "."}
}

// Synthesize fails.
func (u Unavailable) Synthesize(context.Context, Line, func([]byte) error) error {
	return &Error{Code: CodeSpeech, Message: "Speech synthesis is unavailable: " + u.Why + "."}
}
