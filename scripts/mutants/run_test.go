package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// overlay writes the mutant's files, and the file for the flag -overlay of the go command.
func (m mutant) overlay(t *testing.T) (path string) {
	t.Helper()
	dir, files := t.TempDir(), map[string]string{}
	for _, e := range m.edits {
		text, known := files[e.file]
		if !known {
			raw, err := os.ReadFile(filepath.Join(root(t), e.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Fatalf("%s: the text of this mutant's rule occurs %d times, want 1; update the mutant:\n%s", e.file, n, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}

	replaced := map[string]string{}
	for file, text := range files {
		if strings.HasSuffix(file, ".go") {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.AllErrors); err != nil {
				t.Fatal(err)
			}
		}
		replaced[filepath.Join(root(t), file)] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	raw, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}

	path = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMutantsAreWritten checks, without a build, that the texts and the tests of the mutants exist.
func TestMutantsAreWritten(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] {
			t.Errorf("two mutants are named %q", m.name)
		}
		seen[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.overlay(t)
			sources := testsFor(t, m.in)
			for _, name := range m.tests {
				if !strings.Contains(sources, "\nfunc "+name+"(t *testing.T)") {
					t.Errorf("%s has no %s", m.in, name)
				}
			}
			if len(m.tests) == 0 {
				t.Error("the mutant names no test")
			}
		})
	}
}

func testsFor(t *testing.T, folder string) (text string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root(t), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text += string(raw)
	}
	return text
}

// TestMutantsAreCaught runs the tests of each mutant, which must fail. It also runs them on the
// unmodified product, where they must pass.
func TestMutantsAreCaught(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	tests, schema := map[string][]string{}, map[string]bool{} // names of the tests, and whether the schema changes, by package
	for _, m := range all {
		tests[m.in] = append(tests[m.in], m.tests...)
		schema[m.in] = schema[m.in] || m.ofSchema()
	}

	for in, names := range tests {
		t.Run("unmodified,  "+in, func(t *testing.T) {
			t.Parallel()
			slices.Sort(names)
			var settings []string
			if schema[in] {
				settings = ownCache(t)
			}
			if out, err := goTest(t, in, slices.Compact(names), settings); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}

	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.mustFail(t)
		})
	}
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (Test\w+)`)
	// broken matches the output of a test that could not begin or whose SQL is invalid. The
	// SQLSTATE is then of class 42, but not 42501 (insufficient privilege).
	broken = regexp.MustCompile(`testkit: |syntax error|(?:SQLSTATE |\()42[^5][0-9A-Z]{2}\b`)
)

// mustFail requires that one of the mutant's tests fails. A failure of the build, of the SQL or of
// another test does not count.
func (m mutant) mustFail(t *testing.T) {
	t.Helper()
	var settings []string
	if m.ofSchema() {
		settings = ownCache(t)
	}

	out, err := goTest(t, m.in, m.tests, settings, "-overlay="+m.overlay(t))
	var exit *exec.ExitError
	found := failed.FindStringSubmatch(out)
	switch {
	case err == nil:
		t.Errorf("no test notices the missing rule: %s", strings.Join(m.tests, ", "))
	case !errors.As(err, &exit), found == nil, !slices.Contains(m.tests, found[1]):
		t.Errorf("go test: %v, but no test failed\n%s", err, out)
	case broken.MatchString(out):
		t.Errorf("%s fails because of an error, not in its assertion: %s\n%s", found[1], broken.FindString(out), out)
	default:
		t.Logf("%s fails", found[1])
	}
}

// ofSchema reports whether the mutant changes a migration.
func (m mutant) ofSchema() bool {
	return slices.ContainsFunc(m.edits, func(e edit) bool { return strings.HasSuffix(e.file, ".sql") })
}

// ownCache returns the environment for mutants that change the schema. It selects another cache
// directory, because testkit keeps migrated databases in the cache and would otherwise use one with
// the unmodified schema. Go's build cache is not affected.
func ownCache(t *testing.T) []string {
	t.Helper()
	built, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"XDG_CACHE_HOME=" + t.TempDir(), "GOCACHE=" + strings.TrimSpace(string(built))}
}

// goTest runs tests of a package in their module. The tests start their own servers, because a
// shared server would keep the mutant's schema. LONG is not passed on, because the tests notice
// their mutants without it, and TestGeneratedSchemas takes longer than the timeout with it.
func goTest(t *testing.T, in string, tests, settings []string, flags ...string) (string, error) {
	t.Helper()
	module, folder, _ := strings.Cut(in, "/")
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=5m", "-run", fmt.Sprintf("^(%s)$", strings.Join(tests, "|"))}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./"+folder)...)
	cmd.Dir = filepath.Join(root(t), module)
	for _, setting := range os.Environ() {
		switch name, _, _ := strings.Cut(setting, "="); name {
		case "TEST_DATABASE_URL", "TEST_NATS_URL", "LONG":
		default:
			cmd.Env = append(cmd.Env, setting)
		}
	}

	cmd.Env = append(cmd.Env, settings...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
