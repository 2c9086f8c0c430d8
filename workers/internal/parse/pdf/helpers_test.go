package pdf

import (
	"context"
	"strings"
	"testing"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// extracted is the content that was read from a document.
type extracted struct {
	info   document.Info
	blocks []document.Block
	events []document.Event
	pages  int
}

// page returns the text of the page with the given number.
func (d extracted) page(n int) string {
	var parts []string
	for _, b := range d.blocks {
		if b.Page == n {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func readFile(ctx context.Context, c Config) (d extracted, err error) {
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

func mustRead(t *testing.T, path string) extracted {
	t.Helper()
	d, err := readFile(t.Context(), Config{Path: path, NoOCR: true})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}
