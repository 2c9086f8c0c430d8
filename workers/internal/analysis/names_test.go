package analysis_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"parley/workers/internal/analysis"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"What is the capital of Mongolia?":                    "mongolia",
		"Capital letters begin a sentence. Here too":          "",
		"What does ERR-4021 mean?":                            "4021 err",
		"Was 1998 a good year for São Paulo?":                 "1998 paulo sao",
		"Wie lange gilt die Garantie der Lampe in der Küche?": "",
		"Quelle est la capitale de la Mongolie ?":             "mongolie",
		"Какая столица у Монголии?":                           "монголии",
		"保修期是多久？":                                             "",
		"":                                                    "",
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(analysis.Names(text))), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
