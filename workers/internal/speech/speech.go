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

// Rate is the number of samples per second. BytesPerSecond is the number of bytes per second.
const (
	Rate           = 24_000
	BytesPerSecond = 2 * Rate
)

// MaxText is the maximum length of a Line's text in characters. Sentences are much shorter.
const MaxText = 2_000

// CallTime is the time limit for a call to any backend, however long the utterance is. It does not
// include the time for which the call waits for its turn.
const CallTime = 5 * time.Minute

// MaxUtterance is the maximum size of an utterance in bytes, which is 120 seconds of audio.
const MaxUtterance = 120 * BytesPerSecond

// Minimum and maximum of a Line's speed. A speed of 0 means 1.
const (
	MinSpeed = 0.25
	MaxSpeed = 4.0
)

// Utterance is audio with speech to be transcribed.
type Utterance struct {
	Organization string // organization that makes the call; organizations take turns
	PCM          []byte
	Language     string // ISO 639-1 code of the utterance's language; "" if unknown
	Prompt       string // words that the speech may contain; may be ""
	Begun        func() // called when the call has waited for its turn and begins; may be nil
}

// Line is a text to be spoken.
type Line struct {
	Organization string // organization that makes the call; organizations take turns
	Text         string
	Voice        string  // "": the backend's default
	Language     string  // ISO 639-1 code of the text's language; "": unknown
	Speed        float64 // 0 means 1
	Begun        func()  // called when the call has waited for its turn and begins; may be nil
}

// Begin calls begun unless it is nil.
func Begin(begun func()) {
	if begun != nil {
		begun()
	}
}

// Transcriber converts utterances to text. Any number of calls may be made simultaneously. A call
// fails with CodeOverloaded if too many calls are waiting.
type Transcriber interface {
	// Transcribe returns the text, or "" if no words were recognized. The error is ctx's error or
	// an *Error.
	Transcribe(ctx context.Context, u Utterance) (text string, err error)
}

// Synthesizer converts lines to audio. Any number of calls may be made simultaneously, but a call
// fails with CodeOverloaded if too many calls are waiting.
type Synthesizer interface {
	// Synthesize passes the audio to the function out as it arrives, in pieces of whole samples.
	// The function out must not retain a piece. An error of out ends the call. A text without
	// letters, digits or symbols produces no audio. The error is ctx's error, out's error, or an
	// *Error.
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
// program or server, so only logs may show it. Callers get Cause only through errors.Unwrap.
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

// Is reports whether target is an Error with the same code. So errors.Is recognizes sentinels such
// as ErrUnknownVoice.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Sentinels for errors.Is. The errors of backends have the same codes, but other messages.
var (
	ErrUnknownVoice    error = &Error{Code: CodeUnknownVoice, Message: "Unknown voice."}
	ErrUnknownLanguage error = &Error{Code: CodeUnknownLanguage, Message: "The language is not supported."}
	ErrOverloaded      error = &Error{Code: CodeOverloaded, Message: "Too many simultaneous speech requests.", Retryable: true}
)

// CheckUtterance returns an error if an utterance is invalid for every backend.
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

// CleanLine checks a line and returns it with a cleaned text, which has single spaces and no
// control characters. The text is "" if it contains no letter, digit or symbol, because then there
// is nothing to speak.
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

	// Some backends fail for a text that contains only punctuation.
	if !strings.ContainsFunc(line.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) }) {
		line.Text = ""
	}
	return line, nil
}

// CleanText replaces control characters with spaces and removes other invisible characters, because
// programs interpret some of them as commands.
func CleanText(text string) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		// Format characters and private characters are not spoken.
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(shown), " ")
}
