package clients

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// pythonSDK is a directory of the cache. Its directory dist contains the packaged Python SDK. Its
// directory environment is a virtual environment that contains only the SDK. All tests share them.
var pythonSDK struct {
	sync.Mutex

	dir string
}

// pythonInputs returns the hash of the SDK's sources and of the programs that build and run it.
func pythonInputs(t *testing.T) *inputs {
	t.Helper()
	python := needsPython(t)
	const modules = `import sys, importlib.metadata as m; print(sys.version, *(m.version(name) for name in ("pip", "setuptools", "wheel")))`
	return of(succeed(t, "/", nil, python, "-I", "-c", modules)).programs(t, python).environment().files(t, "sdk", "python").
		files(t, "scripts", "clients", "python_test.go")
}

// packsPython builds the package in a copy of sdk/python, because a build leaves files in its
// directory. It installs the package in a new virtual environment. It returns the directory of
// pythonSDK.
func packsPython(t *testing.T) (dir string) {
	t.Helper()
	python := needsPython(t)
	pythonSDK.Lock()
	defer pythonSDK.Unlock()
	if pythonSDK.dir != "" {
		return pythonSDK.dir
	}

	pythonSDK.dir = cached(t, "python", pythonInputs(t), func(draft string) {
		from, dist, environment := t.TempDir(), filepath.Join(draft, "dist"), filepath.Join(draft, "environment")
		pythonSource(t, from)
		succeed(t, draft, nil, python, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir", dist, from)
		succeed(t, draft, nil, python, "-m", "venv", "--without-pip", environment) // much faster than with pip, which is not needed
		succeed(t, draft, nil, python, "-m", "pip", "--python", filepath.Join(environment, "bin", "python"),
			"install", "--no-index", "--no-deps", pythonWheel(t, draft))
	})
	return pythonSDK.dir
}

// pythonWheel returns the packaged SDK in a directory that packsPython has filled.
func pythonWheel(t *testing.T, dir string) (path string) {
	t.Helper()
	made, err := filepath.Glob(filepath.Join(dir, "dist", "parley_sdk-*-py3-none-any.whl"))
	if err != nil || len(made) != 1 {
		t.Fatalf("building the wheel: %v, error %v", made, err)
	}
	return made[0]
}

// pythonSource copies the sources of sdk/python.
func pythonSource(t *testing.T, to string) {
	t.Helper()
	from := filepath.Join(testkit.Root(t), "sdk", "python")
	copyFiles(t, from, to)
	copyFiles(t, filepath.Join(from, "src", "parley"), filepath.Join(to, "src", "parley"))
}

// pythonProject creates an empty project. It returns the project's directory, and the interpreter
// of a virtual environment that contains only the SDK.
func (s *testEnv) pythonProject(t *testing.T) (dir, interpreter string) {
	t.Helper()
	return t.TempDir(), s.environment(t)
}

// environment returns the interpreter of a virtual environment that contains only the SDK.
func (s *testEnv) environment(t *testing.T) (interpreter string) {
	t.Helper()
	return filepath.Join(packsPython(t), "environment", "bin", "python")
}

// pythonScript runs scripts/clients/python/<script> in a new project and returns its output.
func (s *testEnv) pythonScript(t *testing.T, env []string, script string, args ...string) string {
	t.Helper()
	dir, interpreter := s.pythonProject(t)
	features := filepath.Join(t.TempDir(), "features")
	printed := s.python(t, interpreter, dir, append(env, "FEATURES="+features), append([]string{pythonFile(t, script)}, args...)...)
	provesAll(t, features)
	return printed
}

func pythonFile(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "scripts", "clients", "python", name)
}

// TestPythonPackage checks the content of the wheel.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	wheel, err := zip.OpenReader(pythonWheel(t, packsPython(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()

	var names []string
	metadata := ""
	for _, file := range wheel.File {
		names = append(names, file.Name)
		if strings.HasSuffix(file.Name, ".dist-info/METADATA") {
			metadata = unzipped(t, file)
		}
	}

	version := contractVersion(t)
	for _, want := range []string{
		"parley/__init__.py", "parley/py.typed", "parley/types.py", "parley_sdk-" + version + ".dist-info/LICENSE",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("wheel contains %v, want %s", names, want)
		}
	}

	for _, want := range []string{"\nName: parley-sdk\n", "\nVersion: " + version + "\n", "\nRequires-Python: >=3.11\n", "\nLicense: Apache-2.0\n"} {
		if !strings.Contains(metadata, want) {
			t.Errorf("metadata lacks %q: %s", want, metadata)
		}
	}

	if strings.Contains(metadata, "Requires-Dist") {
		t.Errorf("the package has dependencies: %s", metadata)
	}
}

// contractVersion returns the version of the OpenAPI document, which must also be the SDK's
// version.
func contractVersion(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "ingress", "internal", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("the OpenAPI document has no version")
	}
	return string(found[1])
}

func unzipped(t *testing.T, file *zip.File) string {
	t.Helper()
	opened, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	raw, err := io.ReadAll(opened)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestPythonReadme runs each block of the SDK's README. Commands run in a clone of the repository.
// Programs run in an empty project in which the package is installed.
func TestPythonReadme(t *testing.T) {
	t.Parallel()
	python := needsPython(t)
	s := withTestEnv(t)
	dir, interpreter := s.pythonProject(t)
	own := s.tenant(t)
	env := []string{"PARLEY_API_KEY=" + own.APIKey, "AGENT_ID=" + own.AgentID, "ORGANIZATION_ID=" + own.OrganizationID}
	counted := map[string]int{}
	for n, block := range blocksFor(t, testkit.Root(t), "sdk/python/README.md") {
		counted[block.Language]++
		switch block.Language {
		case "python":
			file := filepath.Join(dir, fmt.Sprintf("block%d.py", n))
			if err := os.WriteFile(file, []byte(block.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			if printed := s.python(t, interpreter, dir, env, "-W", "error", file); strings.TrimSpace(printed) == "" {
				t.Errorf("%s prints nothing", block)
			}
		case "sh":
			pythonInstall(t, python, block)
		default:
			t.Errorf("%s: no test runs blocks of the language %q", block, block.Language)
		}
	}

	if counted["python"] < 9 || counted["sh"] < 2 {
		t.Errorf("%v", counted)
	}
}

// pythonInstall runs a block's commands, which install the SDK in a clone, and checks that the
// virtual environment that they create contains the SDK. Tests download nothing, so settings of pip
// provide the build dependencies that the commands would download. With -short, only the block
// whose commands download nothing runs. The other block has the same result.
func pythonInstall(t *testing.T, python string, block fenced.Block) {
	t.Helper()
	commands := block.Text
	if testing.Short() && !strings.Contains(commands, "--no-index") {
		t.Logf("NOT TESTED with -short: %s", block)
		return
	}

	unlessProven(t, "python-install", pythonInputs(t).and(commands), func() { pythonInstalls(t, python, commands) })
}

// pythonInstalls runs commands in a clone. See pythonInstall.
func pythonInstalls(t *testing.T, python, commands string) {
	t.Helper()
	clone := t.TempDir()
	pythonSource(t, filepath.Join(clone, "sdk", "python"))
	env := []string{"PATH=" + namedPython(t, python) + ":" + os.Getenv("PATH"), "PYTHONPATH="}
	if !strings.Contains(commands, "--no-index") {
		builder := succeed(t, clone, nil, python, "-I", "-c", "import setuptools, pathlib; print(pathlib.Path(setuptools.__file__).parents[1])")
		env = append(env, "PIP_NO_INDEX=1", "PIP_NO_BUILD_ISOLATION=0", "PYTHONPATH="+strings.TrimSpace(builder)) // 0 disables isolation
	}

	succeed(t, clone, env, "sh", "-e", "-c", commands)
	made := filepath.Join(clone, ".venv", "bin", "python")
	installed := succeed(t, clone, nil, made, "-I", "-c", "import parley; parley.Parley(demo=True); print(parley.__file__)")
	if !strings.Contains(installed, filepath.Join(".venv", "lib")) {
		t.Errorf("the SDK is installed at %s", installed)
	}
}

// namedPython returns a directory for PATH in which the interpreter has the name python3.
func namedPython(t *testing.T, interpreter string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(interpreter, filepath.Join(dir, "python3")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPythonTransport runs the unit tests of the client's transport, against a service that
// misbehaves as the tests direct.
func TestPythonTransport(t *testing.T) {
	t.Parallel()
	in := pythonInputs(t).files(t, "scripts", "clients", "python", "test_transport.py")
	unlessProven(t, "python-transport", in, func() { pythonTransport(t) })
}

func pythonTransport(t *testing.T) {
	t.Helper()
	dir, interpreter := theEnv.pythonProject(t)
	got := execute(t, dir, []string{"PYTHONPATH=", "PYTHONDONTWRITEBYTECODE=1"}, interpreter, "-W", "error", pythonFile(t, "test_transport.py"))
	ran := regexp.MustCompile(`Ran (\d+) tests`).FindStringSubmatch(got.stderr)
	if got.code != 0 || ran == nil || !strings.HasSuffix(strings.TrimSpace(got.stderr), "\nOK") {
		t.Fatalf("%d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if n, err := strconv.Atoi(ran[1]); err != nil || n < 30 {
		t.Errorf("only %s tests were run", ran[1])
	}
}

// TestPythonSurface calls every method of the synchronous and of the asynchronous client.
func TestPythonSurface(t *testing.T) {
	t.Parallel()
	needsPython(t)
	s := withTestEnv(t)
	for _, script := range []string{"surface.py", "surface_async.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			books, door := s.books(t, nil), s.faults(t).Pass()
			s.call(t, "PUT", "/api/agents?id="+books, map[string]any{"tools": map[string]any{"httpRequest": map[string]any{"approval": "always"}}}, nil)
			if printed := s.pythonScript(t, []string{"BOOKS_WITH_APPROVAL=" + books, "PARLEY_BASE_URL=" + door.URL}, script); printed != "all of it\n" {
				t.Errorf("%q", printed)
			}
			if script != "surface.py" {
				return
			}
			s.pythonScript(t, []string{"LEDGER=" + s.ledger.url, "PARLEY_BASE_URL=" + door.URL}, "resources.py")
			checkRequested(t, door.Requests())
		})
	}
}

// TestPythonRetriesAttach drops the first response to every request, after the service has accepted
// the request. The retry attaches to the existing run, and the ledger records one effect.
func TestPythonRetriesAttach(t *testing.T) {
	t.Parallel()
	needsPython(t)
	s := withTestEnv(t)
	door, books := s.faults(t).DropFirst(), s.books(t, nil)
	var runs []struct{ ID, Status string }
	decode(t, []byte(s.pythonScript(t, []string{"PARLEY_BASE_URL=" + door.URL, "BOOKS=" + books}, "effects.py")), &runs)
	bills := []string{"automation", "keyed", "chat", "stream", "async-automation", "async-chat", "async-stream"}
	if len(runs) != len(bills) || door.Faults() != len(bills) {
		t.Fatalf("%d runs, %d faults", len(runs), door.Faults())
	}

	for _, run := range runs {
		if run.Status != "completed" {
			t.Errorf("%+v", run)
		}
	}

	for _, bill := range bills {
		if requests, effects := s.ledger.of(bill); requests != 1 || effects != 1 {
			t.Errorf("%s: %d requests, %d effects", bill, requests, effects)
		}
	}

	var all struct{ Data []struct{ ID string } }
	s.call(t, "GET", "/api/runs?limit=100&agentId="+books, nil, &all)
	if len(all.Data) != len(bills) {
		t.Errorf("runs = %d, want one for each of %d calls", len(all.Data), len(bills))
	}

	attempts := map[string]int{}
	for _, request := range append(door.Sent("POST", "/api/agents"), door.Sent("POST", "/api/internal/run-automation")...) {
		attempts[request.IdempotencyKey]++
	}

	for key, n := range attempts {
		if key == "" || n != 2 {
			t.Errorf("%q: %d attempts", key, n)
		}
	}

	if len(attempts) != len(bills) || attempts["python-keyed"] != 2 {
		t.Errorf("%v", attempts)
	}
}

// resumedOutput is the output of scripts/clients/python/resumed.py.
type resumedOutput struct {
	IDs    []string
	Events []json.RawMessage
	Text   string
	Run    struct{ ID, Message, Status string }
}

// TestPythonStreamsAreResumed interrupts a stream ten times. The client resumes it without losing
// or repeating a character.
func TestPythonStreamsAreResumed(t *testing.T) {
	t.Parallel()
	needsPython(t)
	s := withTestEnv(t)
	dir, interpreter := s.pythonProject(t)
	talker := s.agent(t, map[string]any{"model": "openai/stub"})
	message := "slowly " + strings.Repeat("Grüße 👋 an alle 日本語 ", 20) + "end"
	for n, way := range []string{"sync", "sync-text", "async", "async-text"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			seed := uint64(n) + 1
			t.Logf("seed %d", seed)
			door := s.faults(t).CutStreams(10, 400, seed)
			env := []string{"PARLEY_BASE_URL=" + door.URL, "TALKER=" + talker, "MESSAGE=" + message}
			var cut, uncut resumedOutput
			decode(t, []byte(s.python(t, interpreter, dir, env, pythonFile(t, "resumed.py"), way)), &cut)
			if door.Faults() != 10 {
				t.Errorf("%d cuts", door.Faults())
			}
			if cut.Text != cut.Run.Message || cut.Run.Status != "completed" || cut.Text != "echo: "+message {
				t.Errorf("text = %q, want %q", cut.Text, cut.Run.Message)
			}
			if strings.HasSuffix(way, "text") {
				return
			}
			script := "import json, sys, parley; events = list(parley.Parley().runs.stream(sys.argv[1])); " +
				"print(json.dumps({'ids': [e['id'] for e in events], 'events': events}))"
			decode(t, []byte(s.python(t, interpreter, dir, nil, "-c", script, cut.Run.ID)), &uncut)
			sameEvents(t, cut, uncut)
		})
	}
}

// sameEvents checks that an interrupted stream delivered the same events as an uninterrupted one.
func sameEvents(t *testing.T, cut, uncut resumedOutput) {
	t.Helper()
	if len(uncut.IDs) < 20 || !slices.Equal(cut.IDs, uncut.IDs) {
		t.Errorf("event IDs = %v, want %v", cut.IDs, uncut.IDs)
	}
	if !slices.EqualFunc(cut.Events, uncut.Events, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Error("an uninterrupted stream has different events")
	}

	before := [2]int{-1, -1}
	for _, id := range cut.IDs {
		var at [2]int
		if _, err := fmt.Sscanf(id, "%d.%d", &at[0], &at[1]); err != nil || slices.Compare(at[:], before[:]) <= 0 {
			t.Errorf("%s comes after %v: %v", id, before, err)
		}
		before = at
	}
}

// TestPythonTypes runs a type checker on the installed package, and on a program that uses the
// package.
func TestPythonTypes(t *testing.T) {
	t.Parallel()
	needsPython(t)
	mypy, err := exec.LookPath("mypy")
	if err != nil {
		t.Skipf("NOT TESTED: the Python SDK's types, because mypy is missing: %v (scripts/setup test installs it)", err)
	}

	in := pythonInputs(t).files(t, "scripts", "clients", "python", "consumer.py").programs(t, mypy).and(succeed(t, "/", nil, mypy, "--version"))
	unlessProven(t, "python-types", in, func() {
		dir, interpreter := theEnv.pythonProject(t)
		packages, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(interpreter)), "lib", "python*", "site-packages", "parley"))
		if err != nil || len(packages) != 1 {
			t.Fatalf("the installed package: %v %v", packages, err)
		}

		got := execute(t, dir, nil, mypy, "--strict", "--python-executable", interpreter, "--cache-dir", filepath.Join(dir, "cache"),
			packages[0], pythonFile(t, "consumer.py"))
		if got.code != 0 {
			t.Errorf("%s%s", got.stdout, got.stderr)
		}
	})
}
