package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

func TestCapOutput(t *testing.T) {
	t.Parallel()
	text := func(s string) json.RawMessage {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, output := range map[string]json.RawMessage{
		"text":        text(strings.Repeat("ü☾😀", 20_000)),
		"quotes":      text(strings.Repeat(`"\`, 60_000)),
		"controls":    text(strings.Repeat("\x01", 60_000)),
		"HTML":        text(strings.Repeat("<&>", 40_000)),
		"object":      json.RawMessage(`{"a":"` + strings.Repeat("x", 70_000) + `"}`),
		"escaped":     json.RawMessage(`{"a":"` + strings.Repeat(`\"`, 70_000) + `"}`),
		"broken":      json.RawMessage(`{"a":"` + strings.Repeat("\xffa", 40_000) + `"}`),
		"just beyond": json.RawMessage(`"` + strings.Repeat("x", 64<<10-1) + `"`),
	} {
		got := tool.Cap(tool.Result{Output: output}).Output
		var cut struct {
			Truncated  bool   `json:"truncated"`
			TotalBytes int    `json:"totalBytes"`
			Text       string `json:"text"`
		}
		err := json.Unmarshal(got, &cut)
		if err != nil || !cut.Truncated || len(got) > 64<<10 || len(got) < 60<<10 || !utf8.Valid(got) || strings.ContainsRune(cut.Text, utf8.RuneError) != (name == "broken") {
			t.Errorf("%s: %v, %d bytes: %.100s", name, err, len(got), got)
		}
		if name != "broken" && cut.TotalBytes != len(output) {
			t.Errorf("%s: %d bytes of %d", name, cut.TotalBytes, len(output))
		}
		var whole string
		if json.Unmarshal(output, &whole) != nil {
			whole = strings.ToValidUTF8(string(output), "\uFFFD")
		}
		if !strings.HasPrefix(whole, cut.Text) {
			t.Errorf("%s: the truncated text is not the beginning of the text: %.100s", name, cut.Text)
		}
	}
	for _, output := range []string{`null`, `{}`, `"` + strings.Repeat("x", 64<<10-2) + `"`} {
		if got := tool.Cap(tool.Result{Output: json.RawMessage(output)}).Output; string(got) != output {
			t.Errorf("%.20s became %.20s", output, got)
		}
	}
	if got := tool.Cap(tool.Result{}).Output; string(got) != "null" {
		t.Errorf("nothing became %s", got)
	}
	if got := tool.Cap(tool.Result{Output: json.RawMessage("\"a\xffb\"")}).Output; string(got) != "\"a\uFFFDb\"" {
		t.Errorf("got %q", got)
	}
}

func TestCapSources(t *testing.T) {
	t.Parallel()
	var many []domain.Citation
	for range 30 {
		many = append(many, domain.Citation{URL: "https://example.com", CitedText: "words"})
	}
	if got := tool.Cap(tool.Result{Sources: many}).Sources; len(got) != 20 {
		t.Errorf("%d sources", len(got))
	}
	long := domain.Citation{Title: strings.Repeat("ü", 600), CitedText: strings.Repeat("界", 5000)}
	got := tool.Cap(tool.Result{Sources: []domain.Citation{
		{URL: "https://example.com/" + strings.Repeat("x", 2048), CitedText: "left out"}, long, long, long, long, long, long,
	}}).Sources
	total := 0
	for n, s := range got {
		total += len(s.CitedText)
		if !strings.HasPrefix(long.CitedText, s.CitedText) || !utf8.ValidString(s.CitedText) || utf8.RuneCountInString(s.Title) != 500 || n < 4 && utf8.RuneCountInString(s.CitedText) != 4000 {
			t.Errorf("source %d: %d characters", n, utf8.RuneCountInString(s.CitedText))
		}
	}
	if len(got) != 5 || total > 48<<10 {
		t.Errorf("%d sources of %d bytes", len(got), total)
	}
}
