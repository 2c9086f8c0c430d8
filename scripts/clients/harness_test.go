package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// TestNode runs a script with the clients' environment.
func TestNode(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var seen map[string]string
	decode(t, []byte(s.node(t, "environment.mjs", "EXTRA=yes")), &seen)
	if seen["PARLEY_BASE_URL"] != s.parley.BaseURL || seen["AGENT_ID"] != s.parley.AgentID || seen["EXTRA"] != "yes" || seen["openai"] != "6.30.1" || seen["agent"] != s.parley.AgentID {
		t.Errorf("%v", seen)
	}
}

// TestPython checks that the tests' Python interpreter runs and can build packages.
func TestPython(t *testing.T) {
	t.Parallel()
	python := needsPython(t)
	s := withTestEnv(t)
	printed := s.python(t, python, t.TempDir(), []string{"EXTRA=yes"}, "-c", "import os, setuptools, wheel; print(os.environ['AGENT_ID'], os.environ['EXTRA'])")
	if strings.TrimSpace(printed) != s.parley.AgentID+" yes" {
		t.Errorf("%q", printed)
	}
}

func TestNewEnough(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		"v20.20.2\n": "", "v26.0.0\n": "", "v18.19.0\n": "Node v18.19.0 is too old", "v8.1.0": "Node v8.1.0 is too old",
		"20.1.0": "not a version of Node", "": "not a version of Node",
	} {
		err := newEnough(printed)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", printed, err)
		}
	}
}

// TestLockFiles checks that no lock file names a private registry, and that every dependency has an
// exact version.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	files, err := filepath.Glob(filepath.Join(root, "s*", "*", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}

	files = append(files, filepath.Join(root, "scripts", "clients", "npm", "package-lock.json"))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); strings.Contains(text, `"resolved": "http`) || strings.Contains(text, "registry") {
			t.Errorf("%s names a registry: put omit-lockfile-registry-resolved=true into .npmrc and recreate it", file)
		}
		var lock struct{ Packages map[string]json.RawMessage }
		decode(t, raw, &lock)
		if len(lock.Packages) == 0 {
			t.Errorf("%s contains no packages", file)
		}
		for name, entry := range lock.Packages {
			var locked struct {
				Integrity string
				Link      bool
			}
			decode(t, entry, &locked)
			if name != "" && !locked.Link && !strings.HasPrefix(locked.Integrity, "sha512-") {
				t.Errorf("%s: %s has no hash of its content", file, name)
			}
		}
	}
}
