package pdf

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"parley/shared/testkit/pdf"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// BenchmarkLayout measures the steps from the output of pdftotext to the written blocks. It uses
// the file named by the environment variable PDF, or 36 generated pages.
func BenchmarkLayout(b *testing.B) {
	path := os.Getenv("PDF")
	if path == "" {
		path = b.TempDir() + "/document.pdf"
		if err := os.WriteFile(path, pdf.Write(make([]pdf.Page, 36)...), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	printed, err := exec.CommandContext(b.Context(), "pdftotext", "-tsv", path, "-").Output()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(printed)))
	for b.Loop() {
		lines := json.NewEncoder(io.Discard)
		out := parse.NewWriter(parse.Limits{}, func(e document.Event) error { return lines.Encode(e) })
		r := &documentReader{out: out, images: newImages(Config{NoOCR: true}), sizes: sizes{}, ranges: newRangeReader(path)}
		part := newRange(1, 0)
		go func() {
			defer close(part.pages)
			part.err = part.scan(b.Context(), newScanner(bytes.NewReader(printed), 1, 1), &r.ranges.spare)
		}()
		if err := r.follow(b.Context(), part); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}
