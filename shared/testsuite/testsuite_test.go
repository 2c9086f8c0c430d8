package testsuite_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"parley/shared/testsuite"
)

var released []string

func TestMain(m *testing.M) {
	code := testsuite.Run(m)
	if want := []string{"released early", "second", "first"}; code == 0 && !slices.Equal(released, want) {
		fmt.Fprintf(os.Stderr, "released %v, want %v\n", released, want)
		code = 1
	}
	os.Exit(code)
}

// TestResourcesOutliveTheirTest creates resources in a subtest. They must be usable after the
// subtest. TestMain checks the order in which they are released.
func TestResourcesOutliveTheirTest(t *testing.T) { //nolint:tparallel // looks at what its subtest left
	t.Parallel()
	var lasting, early *testsuite.Owner
	var dir string
	t.Run("creates", func(t *testing.T) { //nolint:paralleltest // the test depends on it
		lasting, early = testsuite.NewOwner(t), testsuite.NewOwner(t)
		dir = lasting.TempDir()
		for _, name := range []string{"first", "second"} {
			lasting.Cleanup(func() { released = append(released, name) })
		}
		early.Cleanup(func() { released = append(released, "released early") })
	})

	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory was removed with the subtest: %v", err)
	}
	if len(released) != 0 || lasting.Context().Err() != nil || lasting.Failed() {
		t.Errorf("after the subtest, released %v, context %v", released, lasting.Context().Err())
	}
	lasting.Logf("a resource logs after its test")
	early.Release()
}
