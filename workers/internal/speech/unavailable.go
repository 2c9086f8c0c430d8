package speech

import "context"

// Unavailable is a Transcriber and Synthesizer whose calls always fail. Why is the reason that
// callers receive.
type Unavailable struct{ Why string }

// Transcribe always fails.
func (u Unavailable) Transcribe(context.Context, Utterance) (string, error) {
	return "", &Error{Code: CodeTranscription, Message: "Speech recognition is unavailable: " + u.Why + "."}
}

// Synthesize always fails.
func (u Unavailable) Synthesize(context.Context, Line, func([]byte) error) error {
	return &Error{Code: CodeSpeech, Message: "Speech synthesis is unavailable: " + u.Why + "."}
}
