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

// Rate is the number of samples per second. BytesPerSecond is the resulting number of bytes.
const (
	Rate           = 24_000
	BytesPerSecond = 2 * Rate
)

// MaxText is the maximum number of characters of a Line's text. No sentence is nearly as long.
const MaxText = 2_000

// CallTime is the time limit of a call of any backend, however long the utterance. The time that a
// call waits for its turn does not count.
const CallTime = 5 * time.Minute

// MaxUtterance is the maximum number of bytes of an utterance: 120 seconds.
const MaxUtterance = 120 * BytesPerSecond

// The range of a Line's speed; 0 means 1.
const (
	MinSpeed = 0.25
	MaxSpeed = 4.0
)

// Utterance is audio that contains speech to transcribe.
type Utterance struct {
	Organization string // the organization that owns it; organizations take turns
	PCM          []byte
	Language     string // ISO 639-1 code of its language; "" if unknown
	Prompt       string // words that the speech may contain; may be ""
	Begun        func() // called when the call has waited for its turn and begins; may be nil
}

// Line is a text to speak.
type Line struct {
	Organization string // the organization that owns it; organizations take turns
	Text         string
	Voice        string  // "": the backend's default
	Language     string  // ISO 639-1 code of the text's language; "": unknown
	Speed        float64 // 0 means 1
	Begun        func()  // called when the call no longer waits for its turn; may be nil
}

// Begin calls begun unless it is nil.
func Begin(begun func()) {
	if begun != nil {
		begun()
	}
}

// Transcriber converts utterances to text. Any number of calls may be made at the same time. If too
// many calls are waiting, a call fails with CodeOverloaded.
type Transcriber interface {
	// Transcribe returns the text, or "" if no words were recognized. Its error is ctx's error or
	// an *Error.
	Transcribe(ctx context.Context, u Utterance) (text string, err error)
}

// Synthesizer converts lines to audio. As for a Transcriber, any number of calls may be made at the
// same time.
type Synthesizer interface {
	// Synthesize calls out with the audio, in pieces of whole samples, as it arrives. out must not
	// keep a piece. An error of out ends the call. A text without letters, digits or symbols yields
	// no audio. The error is ctx's error, out's error, or an *Error.
	Synthesize(ctx context.Context, line Line, out func(pcm []byte) error) error
}

// Error codes, as in contract.VoiceFailure.
const (
	CodeTranscription   = "transcription_failed"
	CodeSpeech          = "speech_failed"
	CodeUnknownVoice    = "unknown_voice"
	CodeUnknownLanguage = "unknown_language"
	CodeOverloaded      = "overloaded"
)

// Error is the failure of a call. Its text may be shown to callers. Cause may contain output of a
// program or server, so it may appear only in logs. It is reachable only through errors.Unwrap.
type Error struct {
	Code      string
	Message   string
	Retryable bool
	Cause     error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target has the same code, so that errors.Is matches ErrUnknownVoice and the
// other sentinels.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Sentinels for errors.Is. Backends return errors with the same code and their own messages.
var (
	ErrUnknownVoice    error = &Error{Code: CodeUnknownVoice, Message: "Unknown voice."}
	ErrUnknownLanguage error = &Error{Code: CodeUnknownLanguage, Message: "The language is not supported."}
	ErrOverloaded      error = &Error{Code: CodeOverloaded, Message: "Too many simultaneous speech requests.", Retryable: true}
)

// CheckUtterance returns an error if an utterance is invalid, whatever the backend.
func CheckUtterance(u Utterance) error {
	switch {
	// A sample has two bytes.
	case len(u.PCM)%2 != 0:
		return &Error{Code: CodeTranscription, Message: "The audio ends in the middle of a sample."}
	case len(u.PCM) > MaxUtterance:
		return &Error{Code: CodeTranscription, Message: "The audio is longer than 120 seconds."}
	}
	return nil
}

// CleanLine checks a line and returns it with a cleaned text: no control characters, and single
// spaces. The text is "" if it contains no letter, digit or symbol, because there is nothing to
// say.
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

	// Some backends fail for a text of punctuation only.
	if !strings.ContainsFunc(line.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) }) {
		line.Text = ""
	}
	return line, nil
}

// CleanText replaces invisible characters, because programs interpret some of them as commands.
func CleanText(text string) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		// Format and private characters are not spoken.
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(shown), " ")
}
