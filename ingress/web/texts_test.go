package web

import (
	"html/template"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

var (
	actions  = regexp.MustCompile(`\{\{.*?\}\}`)
	quotedIn = regexp.MustCompile(`"[^"]*"`)
	wording  = regexp.MustCompile(`^"\p{Lu}|\s`)
	tags     = regexp.MustCompile(`(?s)<[^>]*>`)
	shownIn  = regexp.MustCompile(`\b(?:title|alt|placeholder|aria-label|value)="([^"]*\p{L}[^"]*)"`)
	letters  = regexp.MustCompile(`\p{L}`)
)

// strayTexts returns the texts in the template of a page that are not in the table.
func strayTexts(page string) []string {
	var found []string
	for _, action := range actions.FindAllString(page, -1) {
		for _, quoted := range quotedIn.FindAllString(action, -1) {
			if wording.MatchString(quoted) {
				found = append(found, quoted)
			}
		}
	}
	page = actions.ReplaceAllString(page, "")
	for _, shown := range shownIn.FindAllStringSubmatch(page, -1) {
		found = append(found, shown[1])
	}
	for line := range strings.SplitSeq(tags.ReplaceAllString(page, "\n"), "\n") {
		if letters.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestTextsOfPagesStandInTheTable checks that the pages contain no text that is missing from the
// table, and that they use each text of the table. It omits the pages of the documentation, whose
// texts are not in the table.
func TestTextsOfPagesStandInTheTable(t *testing.T) {
	t.Parallel()
	used := ""
	for _, name := range []string{"frame", "login", "signup", "accept", "reset", "notice", "preview", "dashboard"} {
		page, err := fs.ReadFile(files, "pages/"+name+".html")
		if err != nil {
			t.Fatal(err)
		}
		used += string(page)
		if found := strayTexts(string(page)); len(found) > 0 {
			t.Errorf("%s.html contains %q; add these texts to texts.go", name, found)
		}
	}
	for name := range texts {
		if !strings.Contains(used, `text "`+name+`"`) {
			t.Errorf("no page uses the text %q", name)
		}
	}
}

// TestStrayTextsOfPages checks which parts of a page strayTexts regards as texts.
func TestStrayTextsOfPages(t *testing.T) {
	t.Parallel()
	const page = `{{define "head"}}<p class="hint" title="Now">{{text "or"}} never</p>{{template "head" "Sign in"}}` +
		`<input name="email" value="{{.}}">{{if and .Next (not .Problem)}}<a href="/login">{{.Title}}</a>{{end}}{{end}}`
	if got := strings.Join(strayTexts(page), "|"); got != `"Sign in"|Now|never` {
		t.Errorf("strayTexts = %s", got)
	}
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	got, err := formatText("join", "<b>&")
	if err != nil || got != "Join &lt;b&gt;&amp;" {
		t.Errorf("formatText = %q, %v; want an escaped value", got, err)
	}
	if got, err := formatText("title", template.HTML("Sign&nbsp;in")); err != nil || got != "Sign&nbsp;in · Parley" {
		t.Errorf("formatText = %q, %v; want HTML as it is", got, err)
	}
	if _, err := formatText("nothing"); err == nil {
		t.Error("an unknown text has no error")
	}
}
