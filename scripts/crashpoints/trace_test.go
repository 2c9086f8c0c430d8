package crashpoints

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// TestProgramsHaveNoFailpoints checks that the release programs contain neither the names of
// failpoints nor the variable PARLEY_FAILPOINTS.
func TestProgramsHaveNoFailpoints(t *testing.T) {
	t.Parallel()
	points := constants(t)
	for _, dir := range []string{"ingress/cmd/ingress", "workers/cmd/worker"} {
		plain := read(t, testkit.BuildBinary(t, dir))
		if bytes.Contains(plain, []byte("PARLEY_FAILPOINTS")) {
			t.Errorf("the release program %s contains failpoints", dir)
		}
		if armed := read(t, testkit.BuildTagged(t, dir, "failpoints")); !bytes.Contains(armed, []byte("PARLEY_FAILPOINTS")) {
			t.Errorf("%s, built with failpoints, does not contain them", dir)
		}
		for _, value := range points {
			if bytes.Contains(plain, []byte(value)) {
				t.Errorf("%s contains the failpoint %s", dir, value)
			}
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestEveryPointIsOfUse checks that the product's code reaches every failpoint, and that a table of
// rows has a fault at each failpoint.
func TestEveryPointIsOfUse(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	call := regexp.MustCompile(`failpoint\.Here\(failpoint\.(\w+)\)`)
	for _, module := range []string{"ingress", "workers", "shared"} {
		err := filepath.WalkDir(filepath.Join(testkit.Root(t), module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, found := range call.FindAllSubmatch(content, -1) {
				called[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	struck := map[string]bool{}
	for _, r := range slices.Concat(rows, ratesRows) {
		for _, s := range r.strikes {
			struck[string(s.at)] = true
		}
	}

	for name, value := range constants(t) {
		if !called[name] {
			t.Errorf("no code reaches %s", name)
		}
		if !struck[value] {
			t.Errorf("no row has a fault at %s", name)
		}
		delete(called, name)
	}

	for name := range called {
		t.Errorf("%s is called, but is not a failpoint", name)
	}
}

// constants returns the values of the failpoints by the names of their constants.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(testkit.Root(t), "shared/failpoint/names.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	points := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("the value of %s is not a literal", spec.Names[0])
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		points[spec.Names[0].Name] = value
		return true
	})
	if len(points) == 0 {
		t.Fatal("found no failpoints")
	}
	return points
}
