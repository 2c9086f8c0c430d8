package websearch

import "testing"

func TestSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"ascii", "a b\tc\nd", "a b\tc\nd"},
		{"controls", "a\x00b\x1b[31mc\x7f\u0085d", "ab[31mc\nd"},
		{"zero width in a word", "ig\u200bno\u200cre\u200d me\ufeff\u2060", "ignore me"},
		{"bidirectional", "a\u202eb\u202c\u2066c\u2069\u200e\u200f\u061cd", "abcd"},
		{"tags that smuggle", "a\U000E0049\U000E0067\U000E007Fb", "ab"},
		{"selectors that smuggle", "a\U000E0100\ufe00\ufe0f\ufe0fb", "a\ufe0fb"},
		{"soft hyphen, fillers, private use", "so\u00adft\u3164\u115f\u034f\ue000", "soft"},
		{"emoji families", "👨\u200d👩\u200d👧 👩🏽\u200d🔧 ❤\ufe0f\u200d🔥 🙂\u200d↔\ufe0f", "👨\u200d👩\u200d👧 👩🏽\u200d🔧 ❤\ufe0f\u200d🔥 🙂\u200d↔\ufe0f"},
		{"persian keeps its joiner", "می\u200cخواهم", "می\u200cخواهم"},
		{"hindi keeps its joiner", "क्\u200dष", "क्\u200dष"},
		{"arabic number sign", "\u0600١", "\u0600١"},
		{"joiner at the end", "🎉\u200d", "🎉"},
		{"broken", "a\xffb", "a\uFFFDb"},
		{"separators", "a\u2028b\u2029c", "a\nb\nc"},
	} {
		if got := visible(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMarkupLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`The <span class="searchmatch">Elm</span> &amp; the&nbsp;Oak`: "The Elm & the Oak",
		"a <strong>b</strong>\n c":                                    "a b c",
		"1 < 2":                                                       "1 < 2",
		"plain":                                                       "plain",
		`<script>alert(1)</script>x<!-- y -->`:                        "alert(1)x",
	} {
		if got := markupLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestWebURL(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "ftp://a.example/", "javascript:alert(1)", "//a.example", "/path", "http://", "mailto:a@b", "http://a.example/\x00", "https://a.ex\u202eample/", "data:text/html,x"} {
		if u, ok := webURL(raw); ok {
			t.Errorf("%q was taken as %v", raw, u)
		}
	}
	u, ok := webURL(" HTTPS://user:secret@Example.ORG/A?b=1#c ")
	if !ok || u.String() != "https://example.org/A?b=1#c" {
		t.Errorf("got %v, %v", u, ok)
	}
}

func TestDistinct(t *testing.T) {
	t.Parallel()
	got := distinct([]hit{
		{title: "1", url: "https://www.example.org/a/"},
		{title: "again", url: "http://example.org/a#part"},
		{title: "no address", url: "about:blank"},
		{url: "https://example.org/a?page=2"},
		{title: "3", url: "https://example.org:8443/a"},
		{title: "4", url: "https://example.com/a"},
	}, 3)
	want := []hit{
		{title: "1", url: "https://www.example.org/a/"}, {title: "example.org", url: "https://example.org/a?page=2"}, {title: "3", url: "https://example.org:8443/a"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}
