package clients

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"parley/shared/testkit"
)

var (
	required  = regexp.MustCompile(`(?m)^(?:require)?\s+([a-z][\w./-]+\.[\w./-]+) (v\S+)$`)
	tabulated = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v\\S+) \\| .+ \\|$")
)

// TestDependencies compares docs/dependencies.md with the direct dependencies of the repository's
// Go modules.
func TestDependencies(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	want := map[string]string{}
	for _, module := range []string{
		"shared", "ingress", "workers", "migrations", "deploy/standalone", "scripts", "tools/manifests",
	} {
		maps.Copy(want, versions(t, filepath.Join(root, module, "go.mod"), required))
	}

	got := versions(t, filepath.Join(root, "docs", "dependencies.md"), tabulated)
	for _, module := range slices.Sorted(maps.Keys(want)) {
		if got[module] != want[module] {
			t.Errorf("%s %s is listed in docs/dependencies.md with version %q", module, want[module], got[module])
		}
	}

	for _, module := range slices.Sorted(maps.Keys(got)) {
		if want[module] == "" {
			t.Errorf("%s is listed in docs/dependencies.md, but no module requires it", module)
		}
	}
}

// versions returns the modules that the pattern matches in a file, with their versions.
func versions(t *testing.T, file string, pattern *regexp.Regexp) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	found := map[string]string{}
	for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = match[2]
	}

	if len(found) == 0 {
		t.Fatalf("%s: no module was found", file)
	}
	return found
}
