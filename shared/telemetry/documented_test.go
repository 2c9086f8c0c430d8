package telemetry_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// metricInSource matches the name of a metric and the beginning of its help text.
	metricInSource = regexp.MustCompile(`"(parley_[a-z0-9_]+)",\s*"[A-Z0-9]`)
	metricRow      = regexp.MustCompile("(?m)^\\| (`parley_[a-z0-9_]+`(?:, `parley_[a-z0-9_]+`)*) \\|")
	metricName     = regexp.MustCompile(`parley_[a-z0-9_]+`)
)

// TestMetricsAreDocumented checks that the table in docs/telemetry.md lists exactly the metrics in
// the sources.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, metricName.FindAllString(row[1], -1)...)
	}

	var exported []string
	for _, module := range []string{"ingress", "shared", "workers"} {
		err := filepath.WalkDir(filepath.Join("../..", module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, metric := range metricInSource.FindAllStringSubmatch(string(source), -1) {
				exported = append(exported, metric[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	slices.Sort(documented)
	slices.Sort(exported)
	if exported = slices.Compact(exported); !slices.Equal(documented, exported) {
		t.Errorf("docs/telemetry.md lists\n%v, but the metrics are\n%v", documented, exported)
	}
}
