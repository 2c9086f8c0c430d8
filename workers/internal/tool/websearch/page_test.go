package websearch

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/testkit/cputime"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

func testdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMainText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, title, language string
		has, hasNot                 []string
	}{
		{
			"english news", "news.en.html", "Bridge reopens after repairs – The Valley Herald", "en-GB",
			[]string{
				"The old stone bridge over the river Elm reopened on Monday", "3.2 million euros, about 400,000 less than planned.",
				"- A new cycle lane on the eastern side\n- LED lighting with motion sensors\n- Weight limit raised to 18 tonnes",
				"Phase | Month | Cost\nSurvey | June | 0.2\nBearings | October | 1.9", "relieved 👩‍🔧🎉”, said the mayor",
			},
			[]string{"cookies", "Ignore", "SYSTEM", "Sport", "Skip to content", "All rights", "Ten best", "script text", "Accept"},
		},
		{
			"german", "turm.de.html", "Der Fernsehturm – Wissenswertes", "de",
			[]string{"Der Berliner Fernsehturm ist mit 368 Metern das höchste Bauwerk Deutschlands.", "„Sphere“ auf 207 Metern. Größe, Maß"},
			[]string{"Einwilligung", "Türme", "Impressum"},
		},
		{
			"chinese forum", "river.zh.html", "长江 - 百科", "zh",
			[]string{"全长约6300公里。\n\n它发源于青藏高原", "五分之一。", "每秒75000立方米。"},
			[]string{"首页", "版权所有"},
		},
		{"arabic", "nile.ar.html", "نهر النيل", "ar", []string{"يبلغ طول نهر النيل حوالي 6650 كيلومترا", "البحر المتوسط"}, []string{"الرئيسية"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := mainText(t.Context(), testdata(t, c.file), "")
			if err != nil {
				t.Fatal(err)
			}
			if p.title != c.title || p.language != c.language || p.truncated {
				t.Errorf("title %q, language %q, truncated %v", p.title, p.language, p.truncated)
			}
			for _, s := range c.has {
				if !strings.Contains(p.text, s) {
					t.Errorf("text lacks %q:\n%s", s, p.text)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(p.text, s) {
					t.Errorf("text has %q:\n%s", s, p.text)
				}
			}
		})
	}
}

func TestMainTextOfParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, text string }{
		{"one sentence", `<p>Der Turm ist 368 Meter hoch.</p>`, "Der Turm ist 368 Meter hoch."},
		{"code keeps its lines", "<h1>Use</h1><pre>a = 1\n  b = 2\n</pre><p>Done.</p>", "Use\n\na = 1\n  b = 2\n\nDone."},
		{"terms", "<dl><dt>port</dt><dd>Where it listens.</dd></dl>", "port\nWhere it listens."},
		{"breaks", "one<br>two<br><br><br>three", "one\ntwo\n\nthree"},
		{"numbered", "<ol><li>one</li><li>two</li></ol>", "1. one\n2. two"},
		{"words of links stay together", "see <a href=x>the</a> <b>man</b>ual", "see the manual"},
		{"composed", "<p>Cafe\u0301</p>", "Café"},
		{"cookie recipes are not a notice", `<div class="cookie-recipe"><h1>Cookies</h1><p>Stir the cookie dough.</p></div>`, "Cookies\n\nStir the cookie dough."},
		{"a menu of dishes", `<div class="menu"><p>` + strings.Repeat("Soup of the day with fresh bread. ", 4) + `</p></div>`, strings.TrimSpace(strings.Repeat("Soup of the day with fresh bread. ", 4))},
		{"a body that waits for its script", `<html><body style="visibility:hidden"><p>Shown at last.</p></body></html>`, "Shown at last."},
		{"print style", `<style>@media print{.a{display:none}}</style><p class=a>On screen.</p>`, "On screen."},
		{"no script", `<noscript>Turn scripts on.</noscript><p>Text.</p>`, "Text."},
		{"no markup at all", `just words`, "just words"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := mainText(t.Context(), c.source, "")
			if err != nil || p.text != c.text {
				t.Errorf("got %+v, %v; want %q", p, err, c.text)
			}
		})
	}
}

func TestUnreadablePages(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"empty":            "",
		"scripts only":     `<div id="app"></div><script>boot("text")</script>`,
		"hidden only":      `<p style="DISPLAY : NONE">x</p>`,
		"invisible only":   "<p>\u200b\u200b\U000E0041\u2066</p>",
		"paywall":          `<script type="application/ld+json">{"@type":"NewsArticle","isAccessibleForFree": "False"}</script><p>The first lines.</p>`,
		"not to be kept":   `<meta name="ROBOTS" content="index, NoArchive"><p>Text.</p>`,
		"nested too deep":  strings.Repeat("<div>", 2000) + "x",
		"deep, end to end": strings.Repeat("<b><table><tr><td>", 2000),
	} {
		if p, err := mainText(t.Context(), source, ""); err == nil {
			t.Errorf("%s: read %+v", name, p)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mainText(ended, "<p>text</p>", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after the time limit: %v", err)
	}
}

func TestLanguageOfPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, header, want string }{
		{`<html lang="pt_BR"><p>a</p>`, "fr", "pt-BR"},
		{`<html lang="x-nonsense-and-more-of-it-than-anyone-needs"><p>a</p>`, "fr, en", "fr"},
		{`<html lang=""><meta http-equiv="Content-Language" content="sv"><p>a</p>`, "", "sv"},
		{`<p>plain words</p>`, "", ""},
		{`<p>これは日本語の文章です。漢字もあります。</p>`, "", "ja"},
		{`<p>한국어 문장입니다.</p>`, "", "ko"},
		{`<p>Это предложение.</p>`, "", "ru"},
		{`<p>Це речення українською, її мовою.</p>`, "", "uk"},
		{`<p>این یک جمله است که چند واژه دارد.</p>`, "", "fa"},
		{`<p>使用 nginx 配置 reverse proxy 的方法如下所示。</p>`, "", "zh"},
	} {
		p, err := mainText(t.Context(), c.source, c.header)
		if err != nil || p.language != c.want {
			t.Errorf("%s: got %+v, %v; want %q", c.source, p, err, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	must := func(b []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const zh, de, ja = "<p>长江全长约6300公里。</p>", "<p>Größe “x”</p>", "<p>日本語の文章</p>"
	gb := must(simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(zh)))
	late := "<p>" + strings.Repeat("ascii ", 300) + "Größe 长江</p>"
	for _, c := range []struct{ name, body, contentType, want string }{
		{"GB18030 by header", gb, "text/html; charset=GB18030", zh},
		{"GB2312 by meta", "<meta charset=gb2312>" + gb, "text/html", "<meta charset=gb2312>" + zh},
		{"GBK by http-equiv", `<meta http-equiv="Content-Type" content="text/html; charset=gbk">` + gb, "text/html", `<meta http-equiv="Content-Type" content="text/html; charset=gbk">` + zh},
		{"UTF-8 undeclared", zh, "text/html", zh},
		{"UTF-8 undeclared after much ASCII", late, "text/html", late},
		{"UTF-8 by byte order mark, whatever the header says", "\uFEFF" + zh, "text/html; charset=iso-8859-1", zh},
		{"Windows-1252 undeclared", must(charmap.Windows1252.NewEncoder().Bytes([]byte(de))), "text/html", de},
		{"Latin-1 by header is Windows-1252", must(charmap.Windows1252.NewEncoder().Bytes([]byte(de))), "text/html; charset=ISO-8859-1", de},
		{"UTF-16 by byte order mark", must(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes([]byte(zh))), "text/html", zh},
		{"Shift JIS by header", must(japanese.ShiftJIS.NewEncoder().Bytes([]byte(ja))), "text/html; charset=Shift_JIS", ja},
		{"unknown charset", zh, "text/html; charset=klingon", zh},
		{"broken UTF-8", "<p>a\xffb</p>", "text/html; charset=utf-8", "<p>a\uFFFDb</p>"},
		{"cut in a character", late[:len(late)-5], "text/html", strings.ToValidUTF8(late[:len(late)-5], "\uFFFD")},
	} {
		if got := decode([]byte(c.body), c.contentType); got != c.want {
			t.Errorf("%s: got %.200q, want %.200q", c.name, got, c.want)
		}
	}
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Language": {"en"}}
	p, err := parsePage(t.Context(), []byte("One <b> line  \r\nof\u202e text.\n\n\n\nAnother.\x00\n"), header)
	if err != nil || p.text != "One <b> line\nof text.\n\nAnother." || p.language != "en" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := parsePage(t.Context(), []byte(" \n\u200b\n"), header); !errors.Is(err, errUnread) {
		t.Errorf("nothing was read as %+v, %v", p, err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{"words": "<p>Some words of a paragraph.</p>", "no spaces": "长", "emoji": "🎉"} {
		p, err := mainText(t.Context(), strings.Repeat(unit, (maxText+5000)/min(10, utf8.RuneCountInString(unit))), "")
		if err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(p.text); !p.truncated || n > maxText || n < maxText-2000 {
			t.Errorf("%s: kept %d characters, truncated %v", name, n, p.truncated)
		}
	}
}

// bombs returns pages that are as slow to parse as possible. An eighth of the maximum size is
// enough to detect costs that grow faster than the size of the page.
func bombs() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, maxPage/8/len(s)) }
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	return map[string]string{
		"divs in divs": fill("<div>"), "paragraphs": fill("<p>a"), "open formatting": fill("<b><p>x"), "misnested": fill("<b><i><a>x</b></i>"),
		"breaks": fill("<br>"), "tables in tables": fill("<table><tr><td>"), "rows": "<table>" + fill("<tr><td>1<td>2"), "fostered": "<table>" + fill("<b>x<i>"),
		"deep and wide": many(490, "<div>") + fill("<p>x</p>"), "notices in notices": many(480, "<div class=cookie-banner>") + fill("<i></i>"),
		"menus in menus": many(480, "<div class=menu>") + fill("<i></i>"), "items in items": many(200, "<ul><li>") + fill("<i></i>"),
		"attributes": "<div " + fill("a=b ") + ">x", "classes": "<p class='" + fill("nav ") + "'>x", "styles": "<p style='" + fill("display: nonee;") + "'>x",
		"sheet": "<style>" + fill(".a{display:none}") + "</style>x", "at-rules": "<style>" + fill("@media{") + "</style>x",
		"one word": fill("x"), "one han word": fill("字"), "marks": "e" + fill("\u0301"), "zero width": fill("\u200b"), "lines": "<pre>" + fill("a\n"),
		"sentences": fill("a. "), "options": fill("<select><option>x"), "pictures": fill("<svg><g>"), "comments": fill("<!--x-->"),
		"article of many": many(400, "<div>") + many(14000, "<div class=a><p>text, and, more, commas, here</p></div>"),
	}
}

func TestBombs(t *testing.T) {
	t.Parallel()
	for name, source := range bombs() {
		var p *page
		var found []string
		took := cputime.Of(func() {
			var err error
			if p, err = mainText(t.Context(), source, ""); err != nil {
				p = &page{}
			}
			found = passages(p.text, "word x a text 字")
		})
		// Parsing stops after maxParsing, and the other steps have a bounded cost. The limit is
		// three times maxParsing, to allow for the other steps.
		if took > 3*maxParsing {
			t.Errorf("%s: took %v", name, took)
		}
		if n := utf8.RuneCountInString(p.text); n > maxText || len(found) > maxPassages {
			t.Errorf("%s: %d characters, %d passages", name, n, len(found))
		}
	}
}
