package pdf_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"parley/shared/testkit/pdf"
)

// TestPopplerReadsIt checks that poppler, an independent program, can read a generated PDF.
func TestPopplerReadsIt(t *testing.T) {
	t.Parallel()
	reader, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), reader, "-", "-")
	cmd.Stdin = bytes.NewReader(pdf.Write(
		pdf.Page{Heading: "First", Paragraphs: []string{strings.Repeat("word ", 100), `back\slash (and brackets)`}},
		pdf.Page{Paragraphs: []string{"Second page."}},
	))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pages := strings.Split(string(out), "\f")
	if len(pages) != 3 || !strings.HasPrefix(pages[0], "First") || strings.Count(pages[0], "word") != 100 ||
		!strings.Contains(pages[0], `back\slash (and brackets)`) || strings.TrimSpace(pages[1]) != "Second page." {
		t.Errorf("%q", pages)
	}
}
