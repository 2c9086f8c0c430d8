package transfer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDisposition(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("\U0001F600", 255)
	for name, want := range map[string]string{
		"plot.png":              `"plot.png"`,
		"out/table 1.csv":       `"table 1.csv"`,
		"../../etc/passwd":      `"passwd"`,
		`C:\temp\a.txt`:         `"a.txt"`,
		`a"b.txt`:               `"a_b.txt"; filename*=UTF-8''a%22b.txt`,
		"a\r\nSet-Cookie: b=c":  `"a__Set-Cookie_ b=c"; filename*=UTF-8''a__Set-Cookie%3A%20b%3Dc`,
		"a;filename=evil.exe":   `"a_filename=evil.exe"; filename*=UTF-8''a%3Bfilename%3Devil.exe`,
		"100%41.txt":            `"100_41.txt"; filename*=UTF-8''100%2541.txt`,
		"größe.csv":             `"gr__e.csv"; filename*=UTF-8''gr%C3%B6%C3%9Fe.csv`,
		"photo\u202egnp.exe":    `"photo_gnp.exe"`,
		"\u2066a\u2069\ufeff.b": `"_a__.b"`,
		"a\u2028b\u0085c\x00d":  `"a_b_c_d"`,
		"a\xff\xfe.bin":         `"a__.bin"`,
		"में\u200d.txt":         `"____.txt"; filename*=UTF-8''%E0%A4%AE%E0%A5%87%E0%A4%82%E2%80%8D.txt`,
		"":                      `"file"`,
		"out/":                  `"file"`,
		"..":                    `"file"`,
		". .":                   `"file"`,
		"   ":                   `"file"`,
		"  a  ":                 `"a"`,
		".bashrc":               `".bashrc"`,
	} {
		if got := disposition(false, name); got != "attachment; filename="+want {
			t.Errorf("%q: %s\nwant %s", name, got, want)
		}
		if got := disposition(true, name); got != "inline; filename="+want {
			t.Errorf("%q: %s", name, got)
		}
	}
	for name, want := range map[string]int{
		strings.Repeat("a", 255): 255, strings.Repeat("a", 300) + ".csv": 255, wide: 252, wide + ".tar.gz": 255,
		strings.Repeat("a", 300) + "." + strings.Repeat("b", 100): 255,
	} {
		got := savedName(name)
		if len(got) != want || !utf8.ValidString(got) || strings.HasSuffix(name, ".csv") && !strings.HasSuffix(got, "a.csv") ||
			strings.HasSuffix(name, ".gz") && !strings.HasSuffix(got, ".gz") {
			t.Errorf("%q becomes %q of %d bytes", name, got, len(got))
		}
		if header := disposition(false, name); len(header) > 1200 {
			t.Errorf("a header of %d bytes", len(header))
		}
	}
}

// FuzzDisposition checks that, for any file name, the header is one line of visible ASCII and names
// no folder.
func FuzzDisposition(f *testing.F) {
	f.Add("a\"; b=\\\r\n/../\u202e\xff")
	f.Fuzz(func(t *testing.T, name string) {
		got := disposition(false, name)
		ascii, _, found := strings.Cut(strings.TrimPrefix(got, `attachment; filename="`), `"`)
		if !found || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(ascii, `/\%`) || strings.Trim(ascii, ".") == "" {
			t.Errorf("%q gives %s", name, got)
		}
	})
}
