package pdf

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// told is what was read of a document.
type told struct {
	info   document.Info
	blocks []document.Block
	events []document.Event
	pages  int
}

// page is the text of a page.
func (d told) page(n int) string {
	var parts []string
	for _, b := range d.blocks {
		if b.Page == n {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func readFile(ctx context.Context, c Config) (d told, err error) {
	out := parse.NewWriter(parse.Limits{}, func(e document.Event) error {
		d.events = append(d.events, e)
		if e.Block != nil {
			d.blocks = append(d.blocks, *e.Block)
		}
		if e.Pages != nil {
			d.pages = *e.Pages
		}
		return nil
	})
	d.info, err = Reader(c)(ctx, parse.Input{}, out)
	return d, err
}

func mustRead(t *testing.T, path string) told {
	t.Helper()
	d, err := readFile(t.Context(), Config{Path: path, NoOCR: true})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

// plainPages is what pdftotext by itself says, page by page.
func plainPages(t *testing.T, path string) []string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "pdftotext", "-enc", "UTF-8", path, "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	pages := strings.Split(string(text), "\f")
	return pages[:len(pages)-1]
}

// wordsOf are the words of a text as they are compared: without marks of direction and of vowels, shapes of letters as the
// letters, each letter of a script without
// spaces by itself, and no punctuation: poppler turns that of Arabic to the wrong side.
func wordsOf(text string) map[string]int {
	words := map[string]int{}
	text = strings.Map(func(r rune) rune {
		if r >= 0x202A && r <= 0x202C { // poppler marks runs of the other direction with these, and has the space on either side of them
			return ' '
		}
		if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, norm.NFKC.String(text))
	for w := range strings.FieldsSeq(text) {
		rest := []rune{}
		for _, r := range w {
			if unspaced(r) {
				if unicode.IsLetter(r) {
					words[string(r)]++
				}
				continue
			}
			rest = append(rest, r)
		}
		if word := strings.TrimFunc(string(rest), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N) }); word != "" {
			words[word]++
		}
	}
	return words
}

// compare counts the words of plain text, and those of them that were found.
func compare(plain, ours string) (all, found int, missing []string) {
	have := wordsOf(ours)
	for w, n := range wordsOf(plain) {
		all += n
		found += min(n, have[w])
		if n > have[w] {
			missing = append(missing, w)
		}
	}
	return all, found, missing
}
