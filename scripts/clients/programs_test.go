package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// ended contains the output and the exit status of a program that has ended.
type ended struct {
	stdout, stderr string
	code           int
}

// execute runs a program in a directory to its end, and then kills the processes that the program
// has started. The program gets env and a minimal environment, which has no settings of Parley or
// of model providers. In this environment, requests to loopback bypass proxies.
func execute(t *testing.T, dir string, env []string, name string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience())
	defer cancel()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(plainEnvironment(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), errors.Join(err, ctx.Err()), stdout.String(), stderr.String())
	}
	return ended{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeed is like execute for a program that must exit with 0. It returns the program's output.
func succeed(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	got := execute(t, dir, env, name, args...)
	if got.code != 0 {
		t.Fatalf("%s %s ended with %d\n%s%s", name, strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

func plainEnvironment() []string {
	var env []string
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if !strings.HasPrefix(name, "PARLEY_") && !strings.HasPrefix(name, "OPENAI_") && !strings.HasPrefix(name, "LANGCHAIN_") {
			env = append(env, setting)
		}
	}
	const loopback = "127.0.0.1,localhost,::1"
	return append(env, "NO_PROXY="+loopback, "no_proxy="+loopback, "NO_COLOR=1", "LANGSMITH_TRACING=false")
}

// nodeMajor is the minimum version of Node for the npm clients.
const nodeMajor = 20

var (
	findNode   = sync.OnceValues(lookForNode)
	findPython = sync.OnceValues(lookForPython)
)

// needsNode skips a test if the machine has no suitable Node or no npm.
func needsNode(t *testing.T) (node string) {
	t.Helper()
	node, err := findNode()
	if err != nil {
		t.Skipf("NOT TESTED: clients from npm: %v (scripts/setup test installs Node, if this system has a package)", err)
	}
	return node
}

// lookForNode returns the path of Node. It returns an error if Node is missing or too old, or if
// npm is missing.
func lookForNode() (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("Node is missing: %w", err)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("npm is missing: %w", err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	printed, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s does not print its version: %w", node, err)
	}
	return node, newEnough(string(printed))
}

// newEnough checks the output of `node --version`.
func newEnough(printed string) error {
	found := regexp.MustCompile(`^v(\d+)\.\d+`).FindStringSubmatch(printed)
	if found == nil {
		return fmt.Errorf("%q is not a version of Node", printed)
	}
	if major, err := strconv.Atoi(found[1]); err != nil || major < nodeMajor {
		return fmt.Errorf("Node %s is too old (minimum: v%d)", strings.TrimSpace(printed), nodeMajor)
	}
	return nil
}

// npmInstall returns a directory that contains the scripts of scripts/clients/npm and the packages
// of their lock file.
func (s *testEnv) npmInstall(t *testing.T) (dir string) {
	t.Helper()
	needsNode(t)
	s.mu.Lock()
	defer s.mu.Unlock()

	s.place(t)
	dir = filepath.Join(s.dir, "npm")
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return dir
	}

	from := filepath.Join(testkit.Root(t), "scripts", "clients", "npm")
	packages := installed(t, from)
	copyFiles(t, from, dir)
	linkEntries(t, packages, modules)
	return dir
}

// installed returns a directory that contains the packages of a lock file. npm installs them only
// once per machine, because the installation takes longer than most tests.
func installed(t *testing.T, from string) (modules string) {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := cached(t, "npm", of(string(lock)), func(draft string) {
		copyFiles(t, from, draft)
		succeed(t, draft, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	})
	return filepath.Join(dir, "node_modules")
}

// linkEntries creates the directory named to, with a link to each entry of the directory named
// from. Tests share the directory from, so they may add entries only to the directory to.
func linkEntries(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	for _, entry := range entries {
		err = errors.Join(err, os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// node runs scripts/clients/npm/<script> and returns its output. env adds variables to the
// environment.
func (s *testEnv) node(t *testing.T, script string, env ...string) string {
	t.Helper()
	features := filepath.Join(t.TempDir(), "features")
	printed := succeed(t, s.npmInstall(t), s.env(append(env, "FEATURES="+features)...), needsNode(t), script)
	provesAll(t, features)
	return printed
}

// needsPython returns an interpreter that can build packages and virtual environments. It skips the
// test if the machine has no such interpreter.
func needsPython(t *testing.T) (python string) {
	t.Helper()
	python, err := findPython()
	if err != nil {
		t.Skipf("NOT TESTED: the Python SDK: %v (scripts/setup test installs Python)", err)
	}
	return python
}

// pythonHas is a program that checks the version of the interpreter, and that the interpreter has
// the modules for building packages.
const pythonHas = `import importlib.util as u, sys
lacks = [m for m in ("venv", "ensurepip", "pip", "setuptools", "wheel") if not u.find_spec(m)]
if sys.version_info < (3, 11): sys.exit("version " + sys.version.split()[0] + " is too old (minimum: 3.11)")
if lacks: sys.exit("modules are missing: " + ", ".join(lacks))
print(sys.executable)`

func lookForPython() (string, error) {
	faults := []error{errors.New("no suitable Python was found")}
	for _, name := range []string{"python3", "/usr/bin/python3", "/usr/local/bin/python3"} { // a user's own Python may lack the system's modules
		path, err := exec.LookPath(name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, path, "-I", "-c", pythonHas)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		printed, err := cmd.Output()
		cancel()
		if err == nil {
			return strings.TrimSpace(string(printed)), nil
		}
		faults = append(faults, fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(stderr.String())))
	}
	return "", errors.Join(faults...)
}

// python runs an interpreter in a directory and returns its output. The interpreter comes from
// needsPython or from a virtual environment. The interpreter can import only modules that are
// installed for this interpreter. env adds variables to the environment.
func (s *testEnv) python(t *testing.T, interpreter, dir string, env []string, args ...string) string {
	t.Helper()
	return succeed(t, dir, s.env(append([]string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PYTHONPATH="}, env...)...), interpreter, args...)
}

// copyFiles copies the files in a directory, without subdirectories.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("decoding %s: %v", raw, err)
	}
}
