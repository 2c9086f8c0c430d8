package agentloop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"parley/shared/domain"
)

// TestCitedValuesStandInTheirSource checks generated answers whose values have citations. Some
// values occur in their source, in several notations. Others occur only within other words or
// numbers, or only in other sources. A citation must be kept only if its source contains its value.
// Each removed citation must be counted.
func TestCitedValuesStandInTheirSource(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kept, removed := 0, 0
	for i := range 2_000 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		texts := []string{"", "", ""}
		data, right := map[string]any{}, map[string]int{}
		var cited []valueCitation
		for n := range 1 + r.IntN(20) {
			key, source := "k"+strconv.Itoa(n), r.IntN(3)
			value, written, stands := citedValue(r, i*100+n)
			data[key] = value
			texts[source] += " The value is " + written + " here. "
			cited = append(cited, valueCitation{"/" + key, source + 1}, valueCitation{"/" + key, source + 1})
			if stands {
				right["/"+key+" "+strconv.Itoa(source+1)] = 1
			}
			if r.IntN(3) == 0 {
				cited = append(cited, valueCitation{"/" + key, 4 + r.IntN(3)}, valueCitation{"/none" + key, source + 1})
			}
		}
		sources := passages{}
		for n, text := range texts {
			sources[n+1] = &passage{source: domain.Citation{ID: n + 1, CitedText: text}}
		}
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}

		valid, gone := sources.valueCitations(string(raw), cited)
		distinct := map[valueCitation]bool{}
		for _, c := range cited {
			distinct[c] = true
		}
		if len(valid)+gone != len(distinct) {
			t.Fatalf("seed %d, answer %d: %d valid and %d removed of %d", seed, i, len(valid), gone, len(distinct))
		}
		for _, c := range valid {
			if right[c.Path+" "+strconv.Itoa(c.ID)] == 0 || !strings.Contains(texts[c.ID-1], c.CitedText) || c.CitedText == "" {
				t.Fatalf("seed %d, answer %d: %s cites %q of %q", seed, i, c.Path, c.CitedText, texts[c.ID-1])
			}
			var shown any
			if err := json.Unmarshal([]byte(string([]rune(string(raw))[c.StartIndex:c.EndIndex])), &shown); err != nil || fmt.Sprint(shown) != fmt.Sprint(data[c.Path[1:]]) {
				t.Fatalf("seed %d, answer %d: %s cuts out %v, %v", seed, i, c.Path, shown, err)
			}
		}
		if len(valid) != len(right) {
			t.Fatalf("seed %d, answer %d: %d citations are valid, want %d", seed, i, len(valid), len(right))
		}
		kept, removed = kept+len(valid), removed+gone
	}
	t.Logf("%d citations kept, %d removed", kept, removed)
}

// citedValue returns a value, a text of a source, and whether the text contains the value. n makes
// the value unique.
func citedValue(r *rand.Rand, n int) (value any, written string, stands bool) {
	word := "wört" + strings.Map(func(d rune) rune { return d - '0' + 'a' }, strconv.Itoa(n)) + "é"
	amount := float64(1_000_000 + n)
	switch r.IntN(9) {
	case 0:
		return word, word, true
	case 1:
		return word, word + "x", false
	case 2:
		return word + " ‘q’", word + "\u00a0 'q'", true
	case 3:
		return strings.ToUpper(word), word, false
	case 4:
		return amount, fmt.Sprintf("%.0f kg", amount), true
	case 5:
		return amount, fmt.Sprintf("1,%03d,%03d", n/1000, n%1000), n < 1_000_000
	case 6:
		return amount, fmt.Sprintf("9%.0f", amount), false
	case 7:
		return amount + 0.5, fmt.Sprintf("%.0f,5 €", amount), true
	default:
		return -amount, fmt.Sprintf("%.0f", amount), false
	}
}
