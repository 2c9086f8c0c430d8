package templates

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/id"
)

func TestTemplatesAreComplete(t *testing.T) {
	t.Parallel()
	all := All()
	if len(all) != 6 {
		t.Errorf("%d templates, want 6", len(all))
	}
	seen := map[string]bool{}
	for _, tpl := range all {
		if !id.Valid(id.Template, tpl.ID) || seen[tpl.ID] {
			t.Errorf("id %q is malformed or double", tpl.ID)
		}
		seen[tpl.ID] = true
		if tpl.Name == "" || tpl.Description == "" || tpl.Model != "" {
			t.Errorf("%s: name, description or model is wrong", tpl.ID)
		}
		if n := utf8.RuneCountInString(tpl.SystemPrompt); n < 500 || n > 32000 {
			t.Errorf("%s: system prompt of %d characters", tpl.ID, n)
		}
		if n := len(tpl.SuggestedMessages); n < 3 || n > 4 {
			t.Errorf("%s: %d suggested messages", tpl.ID, n)
		}
	}
}

func TestAllIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	All()[0].SuggestedMessages[0] = "changed"
	if All()[0].SuggestedMessages[0] == "changed" {
		t.Error("a change to the list shows in the next one")
	}
}

func TestSamplesAreComplete(t *testing.T) {
	t.Parallel()
	all := Samples()
	if len(all) != 5 {
		t.Errorf("%d samples, want 5", len(all))
	}
	for i, sample := range all {
		if sample.MIMEType == "" || !strings.HasPrefix(string(sample.Content), "# ") || len(sample.Content) > 2048 {
			t.Errorf("%s: %d bytes of type %q", sample.Name, len(sample.Content), sample.MIMEType)
		}
		if i > 0 && sample.Name <= all[i-1].Name {
			t.Errorf("%s follows %s", sample.Name, all[i-1].Name)
		}
	}
	all[0].Content[0] = 'x'
	if Samples()[0].Content[0] == 'x' {
		t.Error("a change to the list shows in the next one")
	}
}
