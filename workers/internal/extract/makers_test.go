//go:build linux

package extract

import (
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/shared/testkit"
	plainpdf "parley/shared/testkit/pdf"
	"parley/workers/internal/parse/pdf/pdftest"
)

// leastWords is a fraction of the words that pdftotext finds on a page. Parley must find at least
// this fraction.
const leastWords = 0.98

//go:embed testdata/scripts.html
var scriptsPage []byte

//go:embed testdata/plots.py
var plotsProgram []byte

// maker is a program that creates PDFs. The function make writes such a PDF to the path to, or
// returns what is missing on this machine.
type maker struct {
	name    string
	make    func(t *testing.T, to string) (missing string)
	phrases []string // phrases that the text must contain
}

var makers = []maker{
	{"pdfTeX", packaged("libtasn1-doc", "/usr/share/doc/libtasn1-doc/libtasn1.pdf"), []string{"Distinguished Encoding Rules"}},
	{"pdfTeX 1.40.14", packaged("bzip2", "/usr/share/doc/bzip2/manual.pdf.gz"), []string{"block-sorting"}},
	{"pdfTeX, two columns of an index", packaged("nettle-dev", "/usr/share/doc/nettle-dev/nettle.pdf.gz"), nil},
	{"xdvipdfmx, Arabic", packaged("fonts-hosny-amiri", "/usr/share/doc/fonts-hosny-amiri/Documentation-Arabic.pdf.gz"), []string{"الخط الأميري"}},
	{"Apache FOP", packaged("valgrind", "/usr/share/doc/valgrind/valgrind_manual.pdf.gz"), nil},
	{"MiKTeX, formulas", packaged("zlib1g-dev", "/usr/share/doc/zlib1g-dev/crc-doc.1.0.pdf.gz"), nil},
	{"Skia, two columns, a table, Arabic, Hebrew, Chinese", chromium, []string{
		"There are well-known houses near the water", "March | Lisbon and the south | 93 | 9.50", "سنة 1984 وما بعدها", "זהו טקסט בעברית, ובו מילים רבות",
		"每一個字都很重要", "二〇二六年",
	}},
	{"matplotlib", plots, []string{"barrels sold by month"}},
	{"cairo", cairo, []string{"a remark of no importance"}},
	{"ours", ours, []string{"a remark of no importance"}},
}

func TestPDFsOfManyMakersAreComplete(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the test examines a separate process; it runs in normal tests")
	}
	e := open(t, Config{NoOCR: true})
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "made.pdf")
			missing := m.make(t, path)
			if missing != "" {
				t.Skipf("NOT TESTED: PDFs of %s: %s", m.name, missing)
			}
			complete(t, e, path, m.phrases)
		})
	}
}

// complete checks, page by page, that Parley finds at least the fraction leastWords of the words
// that pdftotext finds in a file.
func complete(t *testing.T, e *Extractor, path string, phrases []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := read(t.Context(), e, content, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := pdftest.PlainPages(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if d.info.Pages != len(plain) || len(d.done) != len(plain) {
		t.Errorf("%d pages, %d done of %d", d.info.Pages, len(d.done), len(plain))
	}
	pages := make([]strings.Builder, len(plain))
	for _, b := range d.blocks {
		pages[b.Page-1].WriteString(b.Text + "\n\n")
	}
	words, seen, whole := 0, 0, ""
	for i := range plain {
		all, found, missing := pdftest.Compare(plain[i], pages[i].String())
		words, seen, whole = words+all, seen+found, whole+pages[i].String()
		if float64(found) < leastWords*float64(all)-1 {
			t.Errorf("page %d: %d of %d words; without %.20q", i+1, found, all, missing)
		}
	}
	if words == 0 || float64(seen) < leastWords*float64(words) {
		t.Errorf("%d of %d words", seen, words)
	}
	t.Logf("%d pages, %d of %d words (%.2f %%)", len(plain), seen, words, 100*float64(seen)/float64(words))
	for _, text := range phrases {
		if !strings.Contains(whole, text) {
			t.Errorf("%q is not there", text)
		}
	}
}

// packaged returns a function that copies a file of a Debian package to a path, uncompressed. If
// the file does not exist, the function returns the reason.
func packaged(name, path string) func(*testing.T, string) string {
	return func(t *testing.T, to string) string {
		t.Helper()
		file, err := os.Open(path)
		if err != nil {
			return "the package " + name + " is not installed, or has no " + path
		}
		defer func() { _ = file.Close() }() // ignore the error: the file was opened only for reading, so no data can be lost
		from := io.Reader(file)
		if strings.HasSuffix(path, ".gz") {
			if from, err = gzip.NewReader(file); err != nil {
				t.Fatal(err)
			}
		}
		content, err := io.ReadAll(from)
		if err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
}

// chromium prints a page with several scripts to a PDF.
func chromium(t *testing.T, to string) string {
	t.Helper()
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		program, err = exec.LookPath("chromium")
	}
	if err != nil {
		return "there is no chromium (install the package chromium-headless-shell)"
	}
	for _, font := range []string{"/usr/share/fonts/opentype/fonts-hosny-amiri", "/usr/share/fonts/truetype/wqy"} {
		if _, err := os.Stat(font); err != nil {
			return "there are no fonts for it (install fonts-hosny-amiri and fonts-wqy-microhei)"
		}
	}
	page := filepath.Join(filepath.Dir(to), "scripts.html")
	if err := os.WriteFile(page, scriptsPage, 0o600); err != nil {
		t.Fatal(err)
	}
	cached(t, to, program, scriptsPage, func() {
		c := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
			"--user-data-dir="+t.TempDir(), "--print-to-pdf="+to, "file://"+page)
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("printing: %v: %s", err, said)
		}
	})
	return ""
}

// cached writes a PDF to the path to. It calls makePDF only if the cache of the user has no PDF of
// the same program from the same input, because the programs need seconds of CPU time.
func cached(t *testing.T, to, program string, input []byte, makePDF func()) {
	t.Helper()
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := testkit.CacheDir()
	if err != nil {
		t.Fatal(err)
	}

	key := sha256.Sum256(fmt.Appendf(slices.Clone(input), "%s %d %s", program, info.Size(), info.ModTime().UTC()))
	path := filepath.Join(cache, "pdf-"+hex.EncodeToString(key[:8]))
	if content, err := os.ReadFile(path); err == nil {
		testkit.Used(path)
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}

	makePDF()
	content, err := os.ReadFile(to)
	draft := fmt.Sprintf("%s-%d", path, os.Getpid()) // renamed, so that the cache never has a part of a file
	if err == nil {
		err = os.WriteFile(draft, content, 0o600)
	}
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func plots(t *testing.T, to string) string {
	t.Helper()
	const python = "/usr/bin/python3"
	const find = "import importlib.util as u; print(u.find_spec('matplotlib').origin)"
	found, err := exec.CommandContext(t.Context(), python, "-c", find).Output()
	if err != nil {
		return "there is no matplotlib (install the package python3-matplotlib)"
	}
	cached(t, to, strings.TrimSpace(string(found)), plotsProgram, func() {
		c := exec.CommandContext(t.Context(), python, "-c", string(plotsProgram), to)
		c.Env = append(c.Environ(), "MPLCONFIGDIR="+t.TempDir(), "MPLBACKEND=Agg")
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("plotting: %v: %s", err, said)
		}
	})
	return ""
}

func ours(t *testing.T, to string) string {
	t.Helper()
	pages := make([]plainpdf.Page, 3)
	for i := range pages {
		pages[i] = plainpdf.Page{Heading: "A heading", Paragraphs: []string{
			strings.Repeat("It was a long day at the harbour, and a remark of no importance was made about it by those who were there. ", 6),
			strings.Repeat("Another paragraph begins here and tells of something else entirely, but at some length. ", 6),
		}}
	}
	if err := os.WriteFile(to, plainpdf.Write(pages...), 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

// cairo converts a PDF to another PDF, using poppler and cairo.
func cairo(t *testing.T, to string) string {
	t.Helper()
	from := to + ".ours"
	ours(t, from)
	if said, err := exec.CommandContext(t.Context(), "pdftocairo", "-pdf", from, to).CombinedOutput(); err != nil {
		t.Fatalf("drawing: %v: %s", err, said)
	}
	return ""
}
