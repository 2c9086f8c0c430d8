package stream_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"parley/ingress/internal/stream"
)

// restartMark is an entry of a log that marks the start of another attempt.
const restartMark = "\n"

func TestSentText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		log  []string
		full string
		want string // text that the reader must have received
		ok   bool
	}{
		"nothing":                     {nil, "", "", true},
		"one attempt":                 {[]string{"a", "b"}, "ab", "ab", true},
		"sent only at the end":        {nil, "ab", "ab", true},
		"the end says more":           {[]string{"a"}, "ab", "ab", true},
		"the end says less":           {[]string{"ab"}, "a", "ab", false},
		"the end says something else": {[]string{"ab"}, "xb", "ab", false},
		"the same again":              {[]string{"ab", "c", restartMark, "a", "bc", "d"}, "abcd", "abcd", true},
		"again, never caught up":      {[]string{"abc", restartMark, "a"}, "abcd", "abcd", true},
		"again and again":             {[]string{"abc", restartMark, "ab", restartMark, restartMark, "abcd", restartMark, "abc", "de"}, "abcde", "abcde", true},
		"again, shorter":              {[]string{"abc", restartMark, "ab"}, "ab", "abc", false},
		"something else":              {[]string{"abc", restartMark, "ax"}, "ax", "abc", false},
		"something else immediately":  {[]string{"abc", restartMark, "xyz", "more"}, "xyzmore", "abc", false},
		"something else, then again":  {[]string{"abc", restartMark, "x", restartMark, "abc"}, "abc", "abc", false},
		"beyond, then something else": {[]string{"a", restartMark, "ab", restartMark, "ac"}, "ac", "ab", false},
		"before the first text":       {[]string{restartMark, "ab"}, "ab", "ab", true},
		"characters of many bytes":    {[]string{"é€", restartMark, "é", "€😀"}, "é€😀", "é€😀", true},
		"empty pieces":                {[]string{"", "a", "", restartMark, "", "a"}, "a", "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent stream.SentText
			got, ok := "", true
			for _, text := range tt.log {
				if text == restartMark {
					sent.Restarted()
					continue
				}
				fresh, fits := sent.Delta(text)
				got, ok = got+fresh, ok && fits
			}
			rest, fits := sent.Rest(tt.full)
			got, ok = got+rest, ok && fits
			if got != tt.want || ok != tt.ok {
				t.Errorf("got %q, %v; want %q, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// The reader receives every character once, however an answer is split and however often it is
// restarted.
func TestSentTextDeliversEveryCharacterOnce(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("One answer, of many pieces: äöü €😀. ", 20)
	runes := []rune(answer)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var sent stream.SentText
		var got strings.Builder
		for attempt := range 1 + random.IntN(5) {
			if attempt > 0 {
				sent.Restarted()
			}
			upTo := random.IntN(len(runes) + 1)
			for at := 0; at < upTo; {
				next := min(upTo, at+1+random.IntN(9))
				fresh, ok := sent.Delta(string(runes[at:next]))
				if !ok {
					t.Fatalf("seed %d: the same text was treated as different", seed)
				}
				got.WriteString(fresh)
				at = next
			}
		}
		rest, ok := sent.Rest(answer)
		got.WriteString(rest)
		if !ok || got.String() != answer {
			t.Fatalf("seed %d: %v, received %q", seed, ok, got.String())
		}
	}
}
