package speech

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Rate is how many samples a second of sound has; BytesPerSecond follows from it.
const (
	Rate           = 24_000
	BytesPerSecond = 2 * Rate
)

// MaxText is how many characters a Line's text has at most; no sentence is nearly as long.
const MaxText = 2_000

// CallTime is how long a call may take once it has begun, whatever the backend and however long the utterance.
const CallTime = 5 * time.Minute

// MaxUtterance is how many bytes an utterance has at most: 120 seconds.
const MaxUtterance = 120 * BytesPerSecond

// Speeds that a Line may be said with; 0 stands for 1.
const (
	MinSpeed = 0.25
	MaxSpeed = 4.0
)

// Utterance is what was said.
type Utterance struct {
	Organization string // whose it is: they take turns
	PCM          []byte
	Language     string // ISO 639-1 in which it was said, or "": unknown
	Prompt       string // words that it may hold, or ""
	Begun        func() // is told that the call waits for its turn no more; nil: nobody wants to know
}

// Line is what is to be said.
type Line struct {
	Organization string // whose it is: they take turns
	Text         string
	Voice        string  // "": the backend's own choice
	Language     string  // ISO 639-1 in which it is written, or "": unknown
	Speed        float64 // 0: 1
	Begun        func()  // is told that the call waits for its turn no more; nil: nobody wants to know
}

// Begin tells whoever wants to know that a call has begun.
func Begin(begun func()) {
	if begun != nil {
		begun()
	}
}

// Transcriber makes text of utterances. Any number of calls may be made at once; those that are too many are refused
// with CodeOverloaded.
type Transcriber interface {
	// Transcribe gives what was said, "" where nothing was understood. Its errors are the context's, or an *Error.
	Transcribe(ctx context.Context, u Utterance) (text string, err error)
}

// Synthesizer makes sound of lines, as a Transcriber does of utterances.
type Synthesizer interface {
	// Synthesize gives the sound in pieces of whole samples as they come; out may keep none of them, and ends
	// the call with its error. A text with nothing to say gives no sound. Errors are the context's, out's, or an *Error.
	Synthesize(ctx context.Context, line Line, out func(pcm []byte) error) error
}

// Codes of errors, as contract.VoiceFailure has them.
const (
	CodeTranscription   = "transcription_failed"
	CodeSpeech          = "speech_failed"
	CodeUnknownVoice    = "unknown_voice"
	CodeUnknownLanguage = "unknown_language"
	CodeOverloaded      = "overloaded"
)

// Error is why there is no text, or no sound. Its text is made for callers; the cause, which may hold what a program or a
// server said, is reached by errors.Unwrap only and belongs in logs at most.
type Error struct {
	Code      string
	Message   string
	Retryable bool
	Cause     error
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is of the same code, so that errors.Is finds ErrUnknownVoice and its siblings.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// What errors.Is asks for; backends give errors of the same code and a message of their own.
var (
	ErrUnknownVoice    error = &Error{Code: CodeUnknownVoice, Message: "Unknown voice."}
	ErrUnknownLanguage error = &Error{Code: CodeUnknownLanguage, Message: "The language is not supported."}
	ErrOverloaded      error = &Error{Code: CodeOverloaded, Message: "Too many simultaneous speech requests.", Retryable: true}
)

// CheckUtterance refuses what no backend is to see.
func CheckUtterance(u Utterance) error {
	switch {
	case len(u.PCM)%2 != 0:
		return &Error{Code: CodeTranscription, Message: "The audio ends in the middle of a sample."}
	case len(u.PCM) > MaxUtterance:
		return &Error{Code: CodeTranscription, Message: "The audio is longer than 120 seconds."}
	}
	return nil
}

// CleanLine checks a line and gives it with the text that is to be said: no control characters, white space made single spaces.
// The text is "" when no letter, digit or symbol is in it: there is nothing to say.
func CleanLine(line Line) (Line, error) {
	line.Text = CleanText(line.Text)
	if utf8.RuneCountInString(line.Text) > MaxText {
		return line, &Error{Code: CodeSpeech, Message: fmt.Sprintf("The text is longer than %d characters.", MaxText)}
	}
	if line.Speed == 0 {
		line.Speed = 1
	}
	if math.IsNaN(line.Speed) || line.Speed < MinSpeed || line.Speed > MaxSpeed {
		return line, &Error{Code: CodeSpeech, Message: fmt.Sprintf("The speed must be from %g to %g.", MinSpeed, MaxSpeed)}
	}
	if !strings.ContainsFunc(line.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) }) {
		line.Text = ""
	}
	return line, nil
}

// CleanText puts a space for everything that is not shown: processes read commands in some of it.
func CleanText(text string) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(shown), " ")
}
