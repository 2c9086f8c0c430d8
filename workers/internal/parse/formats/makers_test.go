package formats_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"parley/workers/internal/parse"
)

// python is Debian's Python interpreter, which can import the Python libraries of Debian's
// packages.
const python = "/usr/bin/python3"

// texts contains the text of the documents that other programs write in this test: lines in several
// scripts, a list, and a table.
var texts = []string{
	"All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience (Article 1).",
	"Alle Menschen sind frei und gleich an Würde und Rechten geboren; „Größe“ – 1.234,50 €.",
	"Все люди рождаются свободными и равными в своём достоинстве и правах.",
	"人人生而自由，在尊严和权利上一律平等。",
	"すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
	"يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
	"כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
	"मनुष्य जन्म से स्वतंत्र हैं और गरिमा तथा अधिकारों में समान हैं।",
	"มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
	"Αλλά ο κωδικός ERR-4021 στην έκδοση v1.2 & <ετικέτα> παραμένει.",
}

// maker is a program that writes a document. It reads the lines of texts from standard input.
type maker struct{ library, file, program string }

var makers = []maker{
	{"docx", "python-docx.docx", `
d = docx.Document()
d.add_heading(lines[0], 1)
for l in lines[1:5]: d.add_paragraph(l)
for l in lines[5:7]: d.add_paragraph(l, style='List Bullet')
t = d.add_table(rows=2, cols=2)
for i, l in enumerate(lines[7:10] + ['end']): t.cell(i // 2, i % 2).text = l
d.save(out)`},
	{"openpyxl", "openpyxl.xlsx", `
w = openpyxl.Workbook()
for i, l in enumerate(lines): w.active.cell(i + 1, 1 + i % 3, l)
w.create_sheet('end')
w.save(out)`},
	{"xlsxwriter", "xlsxwriter.xlsx", `
w = xlsxwriter.Workbook(out)
s = w.add_worksheet('end')
for i, l in enumerate(lines): s.write(i, i % 3, l)
w.close()`},
	{"ebooklib", "ebooklib.epub", `
import html
from ebooklib import epub
b = epub.EpubBook()
b.set_title('end')
b.spine = []
for i, l in enumerate(lines):
    c = epub.EpubHtml(title='end', file_name='%d.xhtml' % i)
    c.content = '<h1>end</h1><p>' + html.escape(l) + '</p>'
    b.add_item(c)
    b.spine.append(c)
b.add_item(epub.EpubNcx())
b.add_item(epub.EpubNav())
epub.write_epub(out, b, {})`},
}

// TestMakers reads documents that other programs have written, if these programs are installed. The
// result must contain the words of the documents.
func TestMakers(t *testing.T) {
	t.Parallel()
	for _, m := range makers {
		t.Run(m.file, func(t *testing.T) {
			t.Parallel()
			content := m.write(t)
			r := read(t, parse.Input{Name: m.file, Content: content})
			if r.err != nil {
				t.Fatal(r.err)
			}
			share := found(strings.Join(texts, "\n"), r.text())
			t.Logf("%s: %.1f %% of the words, %d pages, %d blocks", m.file, 100*share, r.info.Pages, len(r.blocks))
			if share < 0.98 {
				t.Errorf("%.1f %% of the words in\n%s", 100*share, r.outline())
			}
		})
	}
}

func (m maker) write(t *testing.T) []byte {
	t.Helper()
	if err := exec.CommandContext(t.Context(), python, "-c", "import "+m.library).Run(); err != nil {
		t.Skipf("NOT TESTED: documents that Python's %s writes: it is not installed here (scripts/setup test installs it)", m.library)
	}
	out := filepath.Join(t.TempDir(), m.file)
	cmd := exec.CommandContext(t.Context(), python, "-c", "import sys, "+m.library+"\nout = sys.argv[1]\nlines = sys.stdin.buffer.read().decode().splitlines()\n"+m.program, out)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("writing %s: %v\n%s", m.file, err, said)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// found returns the fraction of a text's words that also occur in another text. Each occurrence of
// a word in the other text is used only once.
func found(in, among string) float64 {
	have := map[string]int{}
	for _, w := range words(among) {
		have[w]++
	}
	n := 0
	all := words(in)
	for _, w := range all {
		if have[w] > 0 {
			have[w]--
			n++
		}
	}
	return float64(n) / float64(max(len(all), 1))
}

// words returns the words of a text. In scripts without spaces, each character is a word.
func words(s string) []string {
	var all []string
	for _, w := range strings.FieldsFunc(parse.Clean(s), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) }) {
			all = slices.AppendSeq(all, strings.SplitSeq(w, ""))
		} else {
			all = append(all, w)
		}
	}
	return all
}

// TestDocumentation reads the documentation files of installed Debian packages.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	count := 0
	for pattern, whole := range map[string]bool{ // whole is true if the text read from a file must contain all words of the file
		"/usr/share/doc/*/*.html": false, "/usr/share/doc/*/html/index.html": false, "/usr/share/doc/*/*.md": false,
		"/usr/share/doc/*/README": true, "/usr/share/doc/*/copyright": true,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files[:min(len(files), 20)] {
			content, err := os.ReadFile(name)
			if err != nil || len(content) == 0 {
				continue
			}
			count++
			r := read(t, parse.Input{Name: name, Content: content})
			if r.err != nil {
				t.Errorf("%s: %v", name, r.err)
			} else if share := found(string(content), r.text()); share < 0.98 && whole && r.info.MIMEType == parse.Text {
				t.Errorf("%s: %.1f %% of the words", name, 100*share)
			}
		}
	}
	if t.Logf("%d files", count); count == 0 {
		t.Skip("NOT TESTED: documents on this machine: /usr/share/doc does not exist")
	}
}
