package domain_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/domain"
)

func TestCleanName(t *testing.T) {
	t.Parallel()
	for given, want := range map[struct {
		name  string
		limit int
	}]string{
		{"plain.txt", 255}: "plain.txt", {"../../etc/passwd", 255}: "passwd", {`C:\temp\a.txt`, 255}: "a.txt",
		{"dir/", 255}: "", {"", 255}: "", {"..", 255}: "", {" . ", 255}: "", {".\u3000.", 255}: "", {"\u3000 \u3000", 255}: "", {"\u200e \u2028.", 255}: "",
		{"photo\u202egnp.exe", 255}: "photognp.exe", {"\u2066a\u2069\ufeff.b\u200b", 255}: "a.b", {"a\x00b\x1b[1m.txt", 255}: "ab[1m.txt", {"a\xffb", 255}: "ab",
		{"a\r\nb\u2028c\u00a0d", 255}: "a  b c d", {"\u0645\u06cc\u200c\u062e", 255}: "\u0645\u06cc\u200c\u062e", {"👩\u200d🔬.md", 255}: "👩\u200d🔬.md",
		{"a\u3164b\U000e0041.txt", 255}: "ab.txt", {"👩\u200d\u200b🔬", 255}: "👩🔬", {"\u200b\ufe0fa", 255}: "a", {"❤\ufe0f.md", 255}: "❤\ufe0f.md",
		{"größe.txt", 5}: "größe", {strings.Repeat("ä", 8), 8}: strings.Repeat("ä", 8), {"1234567 9", 8}: "1234567", {"a", 0}: "",
	} {
		if got := domain.CleanName(given.name, given.limit); got != want {
			t.Errorf("%q: %q, want %q", given.name, got, want)
		}
	}
}

// For every maximum length, NameFault accepts the result of CleanText.
func TestCleanText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"plain", " a\tb\r\nc ", "👩\u200d🔬👩\u200d🔬", "❤\ufe0f❤\ufe0f", "می\u200cخواهم", "a\u200d\u200b\u3164b", "\u3000\u2800\u3000", "\xff\xfe", "a \u200d b",
	} {
		for limit := range 10 {
			got := domain.CleanText(text, limit)
			if fault := domain.NameFault(got); fault != "" || utf8.RuneCountInString(got) > limit || got != strings.TrimSpace(got) {
				t.Errorf("%+q cut at %d is %+q: %s", text, limit, got, fault)
			}
		}
	}
	if got := domain.CleanText(" a\tb/c.\u00a0", 9); got != "a b/c." {
		t.Errorf("got %+q", got)
	}
}

func TestNameFault(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", " a ", "\u3000a", "👩\u200d🔬"} {
		if fault := domain.NameFault(text); fault != "" {
			t.Errorf("%+q: %s", text, fault)
		}
	}
	for _, text := range []string{" ", "   ", "\u3000", " \u3000 ", "\u00a0", "\u1680", "\u2003", "\u202f", "\u205f", "\t", "a\u200bb"} {
		if domain.NameFault(text) == "" {
			t.Errorf("%+q has no fault", text)
		}
	}
}

func TestHiddenRune(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain name", "größe", "全角\u3000名", "👩\u200d🔬", "❤\ufe0f", "می\u200cخواهم", "क्\u200dष"} {
		if got := domain.HiddenRune(text); got != '\ufffd' {
			t.Errorf("%+q: %U is hidden, want none", text, got)
		}
	}
	for text, want := range map[string]rune{
		"a\u202eb": '\u202e', "a\u200bb": '\u200b', "a\u200db": '\u200d', "\u200d🔬": '\u200d', "a\ufe0f": '\ufe0f', "a\u3164": '\u3164',
		"a\u00a0b": '\u00a0', "a\nb": '\n', "a\x1b": '\x1b', "\u2800": '\u2800', "a\U000e0041": '\U000e0041',
	} {
		if got := domain.HiddenRune(text); got != want {
			t.Errorf("%+q: %U, want %U", text, got, want)
		}
	}
}
