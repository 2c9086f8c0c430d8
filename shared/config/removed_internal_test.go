package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// settingsIn returns the names of settings in the first column of the tables of a page. If section
// is not empty, it must be a heading, and the result has only the names below this heading.
func settingsIn(t *testing.T, path, section string) (names []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	text := string(page)
	if section != "" {
		_, after, found := strings.Cut(text, "\n"+section+"\n")
		if !found {
			t.Fatalf("%s has no section %q", path, section)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}

	name := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	for line := range strings.Lines(text) {
		if columns := strings.Split(line, "|"); len(columns) > 1 {
			for _, match := range name.FindAllStringSubmatch(columns[1], -1) {
				names = append(names, match[1])
			}
		}
	}
	return names
}

// TestRemovedSettingsAreDocumented checks that docs/upgrade.md lists exactly the removed settings,
// and that none of them is a setting again.
func TestRemovedSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, setting := range removed {
		names = append(names, setting.Name)
	}
	if documented := settingsIn(t, "../../docs/upgrade.md", "## Removed settings"); !slices.Equal(documented, names) {
		t.Errorf("docs/upgrade.md lists %v, but the removed settings are %v", documented, names)
	}

	settings := settingsIn(t, "../../docs/settings.md", "")
	if len(settings) == 0 {
		t.Fatal("docs/settings.md lists no settings")
	}
	for _, name := range names {
		if slices.Contains(settings, name) {
			t.Errorf("%s is a setting", name)
		}
	}
}

func TestRemovedSettingsOfAnEnvironment(t *testing.T) {
	t.Parallel()
	got := Removed([]string{"PORT=1", "SANDBOX_WARM=0", "SANDBOX_FILES=", "SANDBOX_WARM_UP=1", "DOCUMENT_PAGES=1=2", "X_SANDBOX_OUTPUT=1"})
	var names []string
	for _, setting := range got {
		names = append(names, setting.Name)
		if setting.Now == "" {
			t.Errorf("%s: nothing applies instead", setting.Name)
		}
	}
	if want := []string{"DOCUMENT_PAGES", "SANDBOX_WARM"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
