package websearch

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// FuzzPage parses arbitrary bytes as a page. Nothing may panic, and the stored and cited texts must
// satisfy the same conditions as the texts of other pages.
func FuzzPage(f *testing.F) {
	for _, name := range []string{"news.en.html", "turm.de.html", "river.zh.html", "nile.ar.html"} {
		b, err := http.Dir("testdata").Open(name)
		if err != nil {
			f.Fatal(err)
		}
		var page strings.Builder
		buffer := make([]byte, 16<<10)
		n, _ := b.Read(buffer)
		page.Write(buffer[:n])
		b.Close()
		f.Add([]byte(page.String()), "text/html", "river Elm 长江")
	}
	f.Add([]byte("\xff\xfea\x00"), "text/plain", "a")
	f.Add([]byte("<table><b><svg><p><template><select><math><mi><style><!--"), "text/html; charset=gb18030", "字")
	f.Fuzz(func(t *testing.T, body []byte, contentType, query string) {
		if len(body) > 64<<10 {
			return
		}
		p, err := parsePage(t.Context(), body, http.Header{"Content-Type": {contentType}})
		if err != nil {
			return
		}
		if n := utf8.RuneCountInString(p.text); n == 0 || n > maxText || !utf8.ValidString(p.text) || !norm.NFC.IsNormalString(p.text) {
			t.Errorf("kept text of %d characters, valid %v", n, utf8.ValidString(p.text))
		}
		if i := strings.IndexFunc(p.text, func(r rune) bool { return r == 0 || unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' }); i >= 0 {
			t.Errorf("something unseen stands at %d", i)
		}
		if n := utf8.RuneCountInString(p.title); n > maxTitle || strings.ContainsAny(p.title, "\n\x00") {
			t.Errorf("title %q", p.title)
		}
		checkPassages(t, p.text, passages(p.text, query))
	})
}
