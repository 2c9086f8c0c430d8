package truncate_test

import (
	"testing"

	"parley/shared/truncate"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		function func(string, int) string
		text     string
		limit    int
		want     string
	}{
		"bytes that fit":                  {truncate.Bytes, "abc", 3, "abc"},
		"bytes":                           {truncate.Bytes, "abcd", 3, "abc"},
		"bytes within a character":        {truncate.Bytes, "aé", 2, "a"},
		"bytes within the first":          {truncate.Bytes, "é", 1, ""},
		"no bytes":                        {truncate.Bytes, "abc", 0, ""},
		"fewer than no bytes":             {truncate.Bytes, "abc", -1, ""},
		"invalid bytes":                   {truncate.Bytes, "\xff\xff\xff", 2, "\xff\xff"},
		"characters that fit":             {truncate.Runes, "éé", 2, "éé"},
		"characters":                      {truncate.Runes, "ééé", 2, "éé"},
		"no characters":                   {truncate.Runes, "é", 0, ""},
		"fewer than no characters":        {truncate.Runes, "é", -1, ""},
		"nothing":                         {truncate.Runes, "", 2, ""},
		"ellipsis of a text that fits":    {truncate.Ellipsis, "ééé", 3, "ééé"},
		"ellipsis":                        {truncate.Ellipsis, "éééé", 3, "éé…"},
		"ellipsis of a single character":  {truncate.Ellipsis, "éé", 1, "…"},
		"ellipsis of a text without room": {truncate.Ellipsis, "abc", 0, "…"},
	} {
		if got := test.function(test.text, test.limit); got != test.want {
			t.Errorf("%s: %q to %d became %q, want %q", name, test.text, test.limit, got, test.want)
		}
	}
}
