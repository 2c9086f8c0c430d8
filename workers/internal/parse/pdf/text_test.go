package pdf

import (
	"testing"
)

func TestReorder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct { // parentheses stay in visual order: only the font's glyphs show which parenthesis opens
		seen        string
		leftToRight bool
		want        string
	}{
		{"plain text 12", true, "plain text 12"},
		{".ילארשי (סבא) 1984 תנש", false, "שנת 1984 )אבס( ישראלי."},
		{"they say םולש יתיב 12 to me", true, "they say ביתי שלום 12 to me"},
		{"באמצע English םע", false, "עם English עצמאב"},
		{"1984 امو", false, "وما 1984"},
		{"", false, ""},
		{"abc", false, "abc"},
		{"3.5 % תחנה", false, "הנחת % 3.5"},
	} {
		got := reorder([]rune(c.seen), c.leftToRight)
		if got != c.want {
			t.Errorf("%q: %q instead of %q", c.seen, got, c.want)
		}
	}
}

func TestMarksStandBehindTheirLetters(t *testing.T) {
	t.Parallel()
	if got := string(marksBehind([]rune("\u064eو \u0650ف\u0650ي"))); got != "و\u064e ف\u0650ي\u0650" {
		t.Errorf("%+q", got)
	}
	if got := string(marksBehind([]rune("و\u064e ف"))); got != "و\u064e ف" {
		t.Errorf("which were right: %+q", got)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"eﬃcient ﬁle": "efficient file", "ﻻ": "لا", "plain": "plain", "½": "½"} {
		if got := expand(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"one", "two"}, "one two"},
		{[]string{"exam-", "ple of it"}, "example of it"},
		{[]string{"the end-"}, "the end-"},
		{[]string{"每一個字", "都很重要"}, "每一個字都很重要"},
		{[]string{"混合", "English"}, "混合 English"},
		{[]string{"สวัสดี", "ครับ"}, "สวัสดีครับ"},
	} {
		if got := join(c.lines); got != c.want {
			t.Errorf("%q: %q", c.lines, got)
		}
	}
}
