package browser

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley/shared/testkit"
)

// proofs records which scripts' tests have succeeded on this machine. Their outcome should depend
// only on the bundled script, the code that runs the script, and the version of the browser. Short tests do
// not repeat them.
type proofs struct{ dir, runner string }

// newProofs returns the records for the browser and the code that runs the scripts.
func newProofs(t *testing.T) proofs {
	t.Helper()
	program, err := browserProgram()
	if err != nil {
		t.Skipf("NOT TESTED: scripts in a browser: %v (scripts/setup test installs one)", err)
	}
	version, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", program, err)
	}
	dir, err := testkit.CacheDir()
	if err != nil {
		t.Fatal(err)
	}

	runner := fmt.Sprintf("%s %s", program, version)
	for _, file := range []string{"env_test.go", "page_test.go", "pages_test.go", "proven_test.go", "scripts_test.go", "watch_test.go", "testdata/watch.js"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		runner += fmt.Sprintf("\n%s %x", file, sha256.Sum256(raw))
	}
	return proofs{dir, runner}
}

// file returns the file that exists if the tests of a bundled script have succeeded.
func (p proofs) file(t *testing.T, bundle string) string {
	t.Helper()
	script, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	script, _, _ = bytes.Cut(script, []byte("\n//# sourceMappingURL=")) // the map contains the path of the checkout
	key := sha256.Sum256(fmt.Appendf(script, "\n%s", p.runner))
	return filepath.Join(p.dir, "browser-script-"+hex.EncodeToString(key[:8]))
}

// record creates a file after a test, if the test succeeds.
func (proofs) record(tb testing.TB, file string) {
	tb.Helper()
	tb.Cleanup(func() {
		if tb.Failed() || tb.Skipped() {
			return
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			tb.Error(err)
		}
	})
}

// finished is a test that has finished.
type finished struct {
	testing.TB

	failed bool
}

func (f finished) Failed() bool { return f.failed }

func (finished) Cleanup(f func()) { f() }

// TestProofs checks that a failed test leaves no record, and that a changed script needs its own
// record.
func TestProofs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := proofs{dir, "a browser"}
	seen := map[string]bool{}
	for _, script := range []string{"a", "b", "a\n//# sourceMappingURL=x", "a\n//# sourceMappingURL=y"} {
		bundle := filepath.Join(dir, "bundle.js")
		if err := os.WriteFile(bundle, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		seen[p.file(t, bundle)] = true
		seen[proofs{dir, "another browser"}.file(t, bundle)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d records for 2 scripts in 2 browsers", len(seen))
	}

	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	p.record(finished{t, false}, good)
	p.record(finished{t, true}, bad)
	if !testkit.Used(good) || testkit.Used(bad) {
		t.Errorf("record of a test that passed: %v, of a test that failed: %v", testkit.Used(good), testkit.Used(bad))
	}
}
