package workers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codes matches the codes of failed runs in sources, and documented matches a code in a table.
var (
	codes      = regexp.MustCompile(`\bCode(?:\w* += |: )"([a-z_]+)"`)
	documented = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
)

// TestCodesOfFailedRunsAreDocumented checks that docs/errors.md lists each code with which the runner
// and the agent loop let a run fail.
func TestCodesOfFailedRunsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(page), "## Why a run failed")
	if !found {
		t.Fatal("docs/errors.md has no section for failed runs")
	}
	known := map[string]bool{}
	for _, match := range documented.FindAllStringSubmatch(tables, -1) {
		known[match[1]] = true
	}

	n := 0
	for _, dir := range []string{"internal/runner", "internal/agentloop"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range codes.FindAllStringSubmatch(string(source), -1) {
				if n++; !known[match[1]] {
					t.Errorf("%s: %s is not in docs/errors.md", file, match[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d codes were found", n)
	}
}
