package llm_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/workers/internal/llm"
)

// FuzzCleanJSON checks that the result is valid and can be stored, and that CleanJSON does not
// change it further.
func FuzzCleanJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"\u0000\ud800\udc00\ud800"}`, `[1e5,1E-0005,"\\u0000"]`, "\"\xff\"", `"\`, `"\u12`, `tru`, `1e99999`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		clean, err := llm.CleanJSON(json.RawMessage(raw))
		if err != nil {
			return
		}
		if !json.Valid(clean) || !utf8.Valid(clean) {
			t.Fatalf("%q became %q", raw, clean)
		}
		var text string
		if json.Unmarshal(clean, &text) == nil && strings.ContainsRune(text, 0) {
			t.Fatalf("%q kept its NUL", raw)
		}
		again, err := llm.CleanJSON(clean)
		if err != nil || string(again) != string(clean) {
			t.Fatalf("%q became %q, then %q (%v)", raw, clean, again, err)
		}
	})
}
