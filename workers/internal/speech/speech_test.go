package speech_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"parley/workers/internal/speech"
)

func TestLinesAreCleaned(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"hello":                      "hello",
		"  hello \r\n\t there ":      "hello there",
		"a\x00b\x1b[0m\u200bc\ufeff": "a b [0mc",
		"a\u202eb\xffc":              "abc",
		"…, -!":                      "",
		"42":                         "42",
		"☃ + =":                      "☃ + =",
		"你好":                         "你好",
	} {
		if got, err := speech.CleanLine(speech.Line{Text: text}); got.Text != want || got.Speed != 1 || err != nil {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
	for _, line := range []speech.Line{
		{Text: strings.Repeat("ä", speech.MaxText+1)},
		{Text: "a", Speed: math.NaN()},
		{Text: "a", Speed: math.Inf(1)},
		{Text: "a", Speed: -1},
	} {
		_, err := speech.CleanLine(line)
		if e, is := errors.AsType[*speech.Error](err); !is || e.Code != speech.CodeSpeech || e.Retryable {
			t.Errorf("%.20q at %g: %v", line.Text, line.Speed, err)
		}
	}
	if _, err := speech.CleanLine(speech.Line{Text: strings.Repeat("ä", speech.MaxText) + " \x00"}); err != nil {
		t.Errorf("a line of the maximum length: %v", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("hunter2")
	err := fmt.Errorf("saying: %w", &speech.Error{Code: speech.CodeUnknownVoice, Message: "No such voice.", Cause: cause})
	if !errors.Is(err, speech.ErrUnknownVoice) || errors.Is(err, speech.ErrUnknownLanguage) || !errors.Is(err, cause) {
		t.Errorf("errors.Is does not recognize the code or the cause of %v", err)
	}
	if err.Error() != "saying: No such voice." {
		t.Errorf("the message for callers is %q", err)
	}
}
