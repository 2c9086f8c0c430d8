package codeexec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

const noNetwork = "Programs have no network, and nothing can be installed."

func TestHints(t *testing.T) {
	t.Parallel()
	const refused, noInput = "PermissionError: [Errno 1] Operation not permitted", "Programs have no input."
	const memory = "Most of the memory was in use (400 of 512 MiB); libraries that cannot allocate more may retry endlessly."
	failed := func(last string) python.Outcome {
		return python.Outcome{ExitCode: 1, Traceback: "Traceback (most recent call last):\n  File \"main.py\", line 2, in <module>\n    x()\n" + last + "\n"}
	}
	for _, c := range []struct {
		code    string
		outcome python.Outcome
		note    string
	}{
		{"f()", failed("socket.gaierror: [Errno -3] Temporary failure in name resolution"), noNetwork},
		{"f()", failed("urllib.error.URLError: <urlopen error [Errno 1] Operation not permitted>"), noNetwork},
		{"f()", failed("ConnectionRefusedError: [Errno 111] Connection refused"), noNetwork},
		{"f()", failed("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a', port=443): Max retries exceeded"), noNetwork},
		{"import socket\nsocket.socket()", failed(refused), noNetwork},
		{"import os, http.server\nx()", failed(refused), noNetwork},
		{"from urllib.request import urlopen", failed(refused), noNetwork},
		{"import os\nos.nice(-1)  # no socket", failed(refused), ""},
		{"import socket\nopen('/a', 'w')", failed("PermissionError: [Errno 13] Permission denied: '/a'"), ""},
		{"import socket", failed("ValueError: socket"), ""},
		{"f()", python.Outcome{ExitCode: 1, Stderr: "ERROR: Could not find it\nerror: externally-managed-environment\n\nnote: see there\n"}, noNetwork},
		{"f()", python.Outcome{ExitCode: 1, Stderr: "/usr/bin/python3: No module named pip\n"}, noNetwork},
		{"f()", python.Outcome{Stderr: "gaierror\n"}, ""},
		{"input()", failed("EOFError: EOF when reading a line"), noInput},
		{"input()", python.Outcome{ExitCode: 2, Stderr: "EOF when reading a line\n"}, noInput},
		{"pickle.load(f)", failed("EOFError: Ran out of input"), ""},
		{"1 / 0", failed("ZeroDivisionError: division by zero"), ""},
		{"f()", python.Outcome{ExitCode: -9, Limit: sandbox.LimitCPU, Memory: 400 << 20}, memory},
		{"f()", python.Outcome{ExitCode: -9, Limit: sandbox.LimitCPU, Memory: 384 << 20}, ""},
		{"f()", python.Outcome{ExitCode: -9, Limit: sandbox.LimitCPU}, ""},
		{"f()", python.Outcome{ExitCode: -9, Limit: sandbox.LimitMemory, Memory: 500 << 20}, ""},
	} {
		arguments, err := json.Marshal(map[string]string{"code": c.code})
		if err != nil {
			t.Fatal(err)
		}
		if got, message := call(t, &fakeInterpreter{outcome: c.outcome}, &fakeFiles{}, false, string(arguments)); got.Note != c.note {
			t.Errorf("%s, %s%s: %q", c.code, message, c.outcome.Stderr, got.Note)
		}
	}
}

// TestStoredFilesAreListed: every stored file is listed in the output. The model could not refer to
// a file whose id is not listed.
func TestStoredFilesAreListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file   string
		stdout string
		least  int // minimum number of stored files that are listed
	}{
		"plain":                {"table-%03d.csv", "done\n", 100},
		"and much was printed": {"plot-%03d.png", strings.Repeat("x", 100_000), 75},
		"long names":           {strings.Repeat("x", 240) + "%03d", "", 100},
		"the longest":          {strings.Repeat("\u2028", 83) + "%03d", strings.Repeat("x", 100_000), 15},
	} {
		o := python.Outcome{Stdout: c.stdout, Files: make([]python.File, 100)}
		for n := range o.Files {
			o.Files[n] = python.File{Name: fmt.Sprintf(c.file, n), Content: []byte("\x89PNG\r\n\x1a\n")}
		}
		files := &fakeFiles{}
		got, message := call(t, &fakeInterpreter{outcome: o}, files, false, `{"code":"1"}`)
		if message != "" || len(got.Files) != len(files.made) || len(files.made) < c.least {
			t.Errorf("%s: %d files are kept, %d are listed: %s", name, len(files.made), len(got.Files), message)
		}
		more := 0
		if at := strings.LastIndex(got.Note, "names. "); at >= 0 {
			_, _ = fmt.Sscanf(got.Note[at:], "names. %d more files were omitted.", &more)
		}
		own := len(got.Files)
		if c.stdout != "done\n" && c.stdout != "" {
			own-- // the file stdout.txt is not one of the program's own files
			if last := got.Files[own]; last.Name != "stdout.txt" {
				t.Errorf("%s: %+v", name, last)
			}
		}
		if own+len(got.LeftOut)+more != 100 {
			t.Errorf("%s: %d are listed, %d named, %d counted: %s", name, own, len(got.LeftOut), more, got.Note)
		}
	}
}

func TestTheCountOfWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	for left, want := range map[int]string{20: "invalid names.", 21: "names. 1 more files were omitted.", 99: "names. 79 more files were omitted.", 100: "names. At least 80 more files were omitted."} {
		o := python.Outcome{}
		for n := range left {
			o.LeftOut = append(o.LeftOut, fmt.Sprint(n))
		}
		if got, _ := call(t, &fakeInterpreter{outcome: o}, &fakeFiles{}, false, `{"code":"1"}`); len(got.LeftOut) != 20 || !strings.HasSuffix(got.Note, want) {
			t.Errorf("%d: %s", left, got.Note)
		}
	}
}

func TestALongErrorSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	o := python.Outcome{ExitCode: 1, Traceback: strings.Repeat("  File \"main.py\"\n", 1000) + "ValueError: " + strings.Repeat("é", 600)}
	got, message := call(t, &fakeInterpreter{outcome: o}, &fakeFiles{}, false, `{"code":"1"}`)
	if got.Note != "The error is truncated." || !strings.Contains(got.Error, " bytes left out …\n") || message != "ValueError: "+strings.Repeat("é", 487)+"…" {
		t.Errorf("%s: %s", message, got.Note)
	}
	o.Traceback = "ValueError: " + strings.Repeat("é", 488)
	if got, message := call(t, &fakeInterpreter{outcome: o}, &fakeFiles{}, false, `{"code":"1"}`); got.Note != "" || message != o.Traceback {
		t.Errorf("%s: %s", message, got.Note)
	}
}
