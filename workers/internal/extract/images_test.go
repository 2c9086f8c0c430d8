//go:build linux

package extract

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pdf/pdftest"
)

const imaged = "The harbour master counted forty barrels"

// imagePage returns a page that consists of an image with the given lines of text.
func imagePage(t *testing.T, lines ...string) pdftest.Page {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "text.pdf")
	if err := os.WriteFile(path, pdftest.Pages(pdftest.Text(16, lines...)).Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	made := exec.CommandContext(t.Context(), "pdftoppm", "-r", "150", "-gray", "-singlefile", path, filepath.Join(dir, "image"))
	if said, err := made.CombinedOutput(); err != nil {
		t.Fatalf("drawing: %v: %s", err, said)
	}
	content, err := os.ReadFile(filepath.Join(dir, "image.pgm"))
	if err != nil {
		t.Fatal(err)
	}
	var p pdftest.Page
	var depth int
	if _, err := fmt.Sscanf(string(content[:30]), "P5\n%d %d\n%d\n", &p.Width, &p.Height, &depth); err != nil {
		t.Fatal(err)
	}
	p.Image = content[len(content)-p.Width*p.Height:]
	return p
}

func TestImagesWithoutTesseract(t *testing.T) {
	t.Parallel()
	e := open(t, Config{NoOCR: true})
	failure := fails(t, e, pdftest.Pages(imagePage(t, imaged), imagePage(t, imaged)).Bytes(), Limits{})
	if failure.Code != document.NoOCR || failure.Retry || !strings.Contains(failure.Message, "tesseract-ocr") {
		t.Errorf("got %+v", failure)
	}
	if failure := fails(t, e, pdftest.Pages(pdftest.Page{}, pdftest.Page{}).Bytes(), Limits{}); failure.Code != document.NoText {
		t.Errorf("blank pages: %+v", failure)
	}
	mixed := pdftest.Pages(pdftest.Text(12, "Some words stand here."), imagePage(t, imaged), pdftest.Page{}, imagePage(t, imaged), imagePage(t, imaged))
	d, err := read(t.Context(), e, mixed.Bytes(), Limits{})
	if err != nil || len(d.blocks) != 1 || len(d.done) != 5 {
		t.Fatalf("%+v, %v", d, err)
	}
	want := []string{"Page 3 has no text.", "Pages 2, 4 and 5 are images; without tesseract their text was not read."}
	if !slices.Equal(d.info.Notes, want) {
		t.Errorf("notes: %q", d.info.Notes)
	}
}

func needTesseract(t *testing.T) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "tesseract", "--list-langs").Output()
	if err != nil || !bytes.Contains(said, []byte("eng")) {
		t.Skip("NOT TESTED: reading images: there is no tesseract on this machine (install the packages tesseract-ocr and tesseract-ocr-eng)")
	}
}

func TestImagesWithTesseract(t *testing.T) {
	t.Parallel()
	needTesseract(t)
	e := open(t, Config{})
	mixed := pdftest.Pages(pdftest.Text(12, "Some words stand here."), imagePage(t, imaged, "and wrote the number down."), pdftest.Page{})
	d, err := read(t.Context(), e, mixed.Bytes(), Limits{})
	if err != nil || len(d.blocks) < 2 || len(d.done) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	b := d.blocks[1]
	if b.Page != 2 || b.Text != imaged+" and wrote the number down." {
		t.Errorf("recognized: %+v", b)
	}
	// The first line is 92 points from the top and 72 points from the left.
	if b.Box == nil || b.Box[0] < 65 || b.Box[0] > 80 || b.Box[1] < 70 || b.Box[1] > 95 || b.Box[3] > 125 {
		t.Errorf("box %v", b.Box)
	}
	want := []string{"Page 3 has no text.", "Page 2 is an image: its text was recognized and may contain errors."}
	if !slices.Equal(d.info.Notes, want) {
		t.Errorf("notes: %q", d.info.Notes)
	}
	only, err := read(t.Context(), e, pdftest.Pages(imagePage(t, imaged)).Bytes(), Limits{})
	if err != nil || len(only.blocks) != 1 || only.blocks[0].Text != imaged {
		t.Errorf("only an image: %+v, %v", only, err)
	}
	if failure := fails(t, e, pdftest.Pages(pdftest.Page{}).Bytes(), Limits{}); failure.Code != document.NoText {
		t.Errorf("a blank page: %+v", failure)
	}
	t.Logf("a page in %s", only.took)
}

func TestImagesForWhichThereIsNoTimeAreNoted(t *testing.T) {
	t.Parallel()
	needTesseract(t)
	pages := slices.Repeat([]pdftest.Page{imagePage(t, imaged, imaged, imaged)}, 20)
	d, err := read(t.Context(), open(t, Config{}), pdftest.Pages(pages...).Bytes(), Limits{CPU: 6 * time.Second})
	if err != nil || len(d.done) != 20 || len(d.blocks) == 0 || len(d.info.Notes) < 2 { // a page that was interrupted may add a third note
		t.Fatalf("%d pages, %+v, %v", len(d.done), d.info, err)
	}
	if !strings.Contains(d.info.Notes[0], "to 20 are images; there was no time to recognize their text.") {
		t.Errorf("notes: %q", d.info.Notes)
	}
}
