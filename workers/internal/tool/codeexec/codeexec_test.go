package codeexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/schema"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/codeexec"
)

func TestSpecs(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		spec := codeexec.Spec(domain.CodeTool{KeepFiles: keeps}, limits(), false)
		if spec.Name != contract.ToolCodeExecution || spec.SideEffect != "" || spec.Alone != keeps {
			t.Errorf("spec %+v", spec)
		}
		for _, words := range []string{
			"no network", "plt.show()", "numpy, pandas and matplotlib may be available", "10 s of CPU time, 30 s in total, 512 MiB of memory, 64 processes and threads, 64 MiB of files, 1 MiB of output.",
		} {
			if !strings.Contains(spec.Description, words) {
				t.Errorf("nothing of %q: %s", words, spec.Description)
			}
		}
		if strings.Contains(spec.Description, "begins with an empty folder") == keeps || strings.Contains(spec.Description, "has all files that earlier calls") != keeps {
			t.Errorf("keeping files %v: %s", keeps, spec.Description)
		}
		compiled, err := schema.Compile(spec.Schema)
		if err != nil {
			t.Fatal(err)
		}
		for arguments, fits := range map[string]bool{
			`{"code":"1"}`: true, `{"code":"1","files":["a"]}`: true, `{}`: false, `{"code":""}`: false, `{"code":1}`: false, `{"code":"1","language":"r"}`: false,
			`{"code":"` + strings.Repeat("ü", 100_000) + `"}`: true, `{"code":"` + strings.Repeat("ü", 100_001) + `"}`: false,
			`{"code":"1","files":["a"` + strings.Repeat(`,"a"`, 32) + `]}`: false, `{"code":"1","files":"a"}`: false,
		} {
			if err := compiled.Check(json.RawMessage(arguments)); (err == nil) != fits {
				t.Errorf("%.40s: %v", arguments, err)
			}
		}
	}
	if plain := codeexec.Spec(domain.CodeTool{}, sandbox.Limits{}, false); !strings.HasSuffix(plain.Description, "the result names the limit that ended a program.") {
		t.Error(plain.Description)
	}
}

// TestArgumentsOfAHostileModel: the tool worker checks the arguments of a call, although the caller
// has already checked them.
func TestArgumentsOfAHostileModel(t *testing.T) {
	t.Parallel()
	const shape = `The arguments must be {"code": "…", "files": ["…"]}, where files is optional.`
	for arguments, want := range map[string]string{
		``: shape, `null`: "The code is empty.", `[]`: shape, `{"code":1}`: shape, `{"code":"1"} {}`: shape, `{"code":"1","x":1}`: shape, `{"code":"1","files":"a"}`: shape, `{"code":"1","files":[1]}`: shape,
		`{}`: "The code is empty.", `{"code":" \n"}`: "The code is empty.",
		`{"code":"` + strings.Repeat("x", 100_001) + `"}`:                       "The code is too long: it has 100001 characters, and the maximum is 100000.",
		`{"code":"print(1)\u0000"}`:                                             "The code contains a NUL character, which Python does not allow.",
		`{"code":"1","files":["a.csv"` + strings.Repeat(`,"a.csv"`, 32) + `]}`:  "Too many files: 33, and the maximum is 32.",
		`{"code":"1","files":["../a.csv"]}`:                                     `This session has no file "../a.csv". The session's files are "a.csv".`,
		`{"code":"1","files":["/etc/passwd"]}`:                                  `This session has no file "/etc/passwd". The session's files are "a.csv".`,
		`{"code":"1","files":["a.csv/../../b"]}`:                                `This session has no file "a.csv/../../b". The session's files are "a.csv".`,
		`{"code":"1","files":["/work/../a.csv"]}`:                               `This session has no file "/work/../a.csv". The session's files are "a.csv".`,
		`{"code":"1","files":["a.csv\u0000"]}`:                                  `This session has no file "a.csv\x00". The session's files are "a.csv".`,
		`{"code":"1","files":[""]}`:                                             `This session has no file "". The session's files are "a.csv".`,
		`{"code":"1","files":["file_01h2xcejqtf2nbrexx3vqjhp41"]}`:              `This session has no file "file_01h2xcejqtf2nbrexx3vqjhp41". The session's files are "a.csv".`,
		`{"code":"1","files":["a.csv","` + strings.Repeat("ü", 200_000) + `"]}`: `This session has no file "` + strings.Repeat("ü", 100) + `". The session's files are "a.csv".`,
	} {
		for _, keeps := range []bool{false, true} {
			s, files := &fakeInterpreter{}, (&fakeFiles{}).add("a.csv", "1")
			if _, got := call(t, s, files, keeps, arguments); got != want || len(s.given) > 0 || files.kept > 0 {
				t.Errorf("%.60s: %s; %d programs", arguments, got, len(s.given))
			}
		}
	}
	if _, got := call(t, &fakeInterpreter{}, &fakeFiles{}, false, `{"code":"1","files":["x"]}`); got != `This session has no file "x". The session has no files.` {
		t.Error(got)
	}
	many := &fakeFiles{}
	for n := range 30 {
		many.add(fmt.Sprintf("f%02d", n), "")
	}
	if _, got := call(t, &fakeInterpreter{}, many, false, `{"code":"1","files":["x"]}`); !strings.HasSuffix(got, `"f18", "f19" and 10 more.`) {
		t.Error(got)
	}
	off := request(&fakeFiles{}, false, `{"code":"1"}`)
	for _, options := range []*domain.CodeTool{nil, {}} {
		off.Config.Tools.CodeExecution = options
		if _, err := codeexec.New(&fakeInterpreter{}, codeexec.Config{}).Call(t.Context(), off); err == nil || err.Error() != "The agent is not allowed to run code." {
			t.Errorf("%v: %v", options, err)
		}
	}
}

// found formats the initial files of a program in one line.
func found(p python.Program) string {
	var all []string
	for _, f := range p.Files {
		all = append(all, f.Name+"="+string(f.Content))
	}
	return strings.Join(all, " ")
}

func TestFilesOfTheSession(t *testing.T) {
	t.Parallel()
	session := func() *fakeFiles { return (&fakeFiles{}).add("b/x.csv", "2").add("a.csv", "1").add("c.csv", "3") }
	for name, c := range map[string]struct {
		files    string
		keeps    bool
		want     string
		nameList int
	}{
		"none":                     {`[]`, false, "", 1},
		"by name and id":           {`["c.csv","file_0"]`, false, "c.csv=3 b/x.csv=2", 1},
		"each once":                {`["a.csv","a.csv","file_1","./a.csv","/work/a.csv","b/../a.csv"]`, false, "a.csv=1", 1},
		"all, where they are kept": {`[]`, true, "a.csv=1 b/x.csv=2 c.csv=3", 1},
		"named beside all":         {`["c.csv"]`, true, "a.csv=1 b/x.csv=2 c.csv=3", 1},
	} {
		s, files := &fakeInterpreter{}, session()
		if _, got := call(t, s, files, c.keeps, `{"code":"print(1)","files":`+c.files+`}`); got != "" {
			t.Fatalf("%s: %s", name, got)
		}
		if got := found(s.given[0]); got != c.want || s.given[0].Code != "print(1)" || files.nameList != c.nameList {
			t.Errorf("%s: found %s after %d listings", name, got, files.nameList)
		}
	}
}

func TestFilesThatDoNotFit(t *testing.T) {
	t.Parallel()
	small := limits()
	small.Files, small.FileCount = 10, 3
	session := (&fakeFiles{}).add("old", "123456").add("middle", "12").add("new", "1234567")
	ask := func(files *fakeFiles, keeps bool, named string) (*fakeInterpreter, shown, string) {
		s := &fakeInterpreter{}
		got, message := callWithin(t, s, files, keeps, `{"code":"1","files":[`+named+`]}`, small)
		return s, got, message
	}
	const tooMuch = "The files exceed the folder's limit of 10 bytes and 3 files."
	if _, _, got := ask(session, false, `"old","new"`); got != tooMuch {
		t.Error(got)
	}
	s, got, _ := ask(session, true, "")
	if found(s.given[0]) != "middle=12 new=1234567" || got.Note != `These files of the session are not in the folder, because they would make it too large: "old".` {
		t.Errorf("%s; %s", found(s.given[0]), got.Note)
	}
	four := (&fakeFiles{}).add("a", "").add("b", "").add("c", "").add("d", "")
	if s, got, _ = ask(four, true, ""); found(s.given[0]) != "b= c= d=" || !strings.HasSuffix(got.Note, `"a".`) {
		t.Errorf("%s; %s", found(s.given[0]), got.Note)
	}
	if _, _, got := ask(four, false, `"a","b","c","d"`); got != tooMuch {
		t.Error(got)
	}
	// Calls with separate folders may have stored files that cannot be in the same folder, for
	// example a and a/b.
	clash := (&fakeFiles{}).add("a", "1").add("a/b/c", "2").add("a/b", "3")
	if s, got, _ = ask(clash, true, ""); found(s.given[0]) != "a/b=3" || !strings.HasSuffix(got.Note, `"a/b/c", "a".`) {
		t.Errorf("%s; %s", found(s.given[0]), got.Note)
	}
	for _, named := range []string{`"a","a/b/c"`, `"a/b/c","a"`, `"a/b/c","a/b"`} {
		if _, _, got := ask(clash, false, named); !strings.HasPrefix(got, "The folder cannot contain all of these files: ") {
			t.Error(got)
		}
	}
}

func TestStoredFiles(t *testing.T) {
	t.Parallel()
	outcome := python.Outcome{
		Files:   []python.File{{Name: "plot.png", Content: []byte("\x89PNG\r\n\x1a\n")}, {Name: "a.csv", Content: []byte("1")}, {Name: "../up"}, {Name: "a.csv"}, {Name: "new\nline"}, {Name: "gnp\u202e.exe"}, {Name: strings.Repeat("x", 256)}, {Name: "/abs"}, {Name: "\xff"}, {Name: "a//b"}},
		Removed: []string{"gone", "never"}, LeftOut: []string{"huge.bin"},
	}
	for _, keeps := range []bool{false, true} {
		files := (&fakeFiles{}).add("gone", "1")
		got, message := call(t, &fakeInterpreter{outcome: outcome}, files, keeps, `{"code":"1"}`)
		if message != "" || got.names() != "plot.png a.csv" || got.Files[0].MIMEType != "image/png" || got.Files[1].MIMEType != "text/csv" || got.Files[1].Bytes != 1 || got.Files[0].ID == "" {
			t.Errorf("%+v, %s", got, message)
		}
		if strings.Join(got.LeftOut, "|") != "huge.bin|../up|a.csv|new\nline|gnp\u202e.exe|"+strings.Repeat("x", 100)+"|/abs|\uFFFD|a//b" || got.Note == "" {
			t.Errorf("left out %q: %s", got.LeftOut, got.Note)
		}
		if removed := strings.Join(files.removed, " "); (removed == "gone") != keeps || !keeps && removed != "" {
			t.Errorf("keeping files %v: removed %s", keeps, removed)
		}
	}
	// If a call creates no file, it does not access the file store, unless an earlier attempt may
	// have stored a file.
	for fence, keeps := range map[int64]int{1: 0, 2: 1} {
		r, files := request(&fakeFiles{}, true, `{"code":"1"}`), &fakeFiles{}
		r.Fence, r.Files = fence, files
		if _, err := codeexec.New(&fakeInterpreter{}, codeexec.Config{Limits: limits()}).Call(t.Context(), r); err != nil || files.kept != keeps {
			t.Errorf("fence %d: kept %d times, %v", fence, files.kept, err)
		}
	}
	full := &fakeFiles{noKeep: fmt.Errorf("keeping: %w", tool.ErrFilesFull)}
	got, message := call(t, &fakeInterpreter{outcome: python.Outcome{Stdout: "42\n", Files: outcome.Files[:2]}}, full, true, `{"code":"1"}`)
	if message != "" || got.Stdout != "42\n" || len(got.Files) != 0 || strings.Join(got.LeftOut, " ") != "plot.png a.csv" ||
		got.Note != "No file was kept: the file quota of the session or the organization is exceeded." {
		t.Errorf("%+v, %s", got, message)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback (most recent call last):\n  File \"main.py\", line 1, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n"
	for name, c := range map[string]struct {
		outcome python.Outcome
		failure string
		message string
	}{
		"exception":    {python.Outcome{Traceback: traceback, ExitCode: 1}, strings.TrimSuffix(traceback, "\n"), "ZeroDivisionError: division by zero"},
		"exit code":    {python.Outcome{ExitCode: 3}, "The program exited with code 3.", ""},
		"signal":       {python.Outcome{ExitCode: -11}, "The program was terminated by signal 11 (segmentation fault).", ""},
		"CPU":          {python.Outcome{Limit: sandbox.LimitCPU, ExitCode: -9}, "The program used more than 10 s of CPU time.", ""},
		"wall":         {python.Outcome{Limit: sandbox.LimitWall, ExitCode: -9}, "The program ran for longer than 30 s.", ""},
		"processes":    {python.Outcome{Limit: sandbox.LimitProcesses}, "The program had more than 64 processes and threads.", ""},
		"files":        {python.Outcome{Limit: sandbox.LimitFiles}, "The program's files exceeded 64 MiB or 1000 files.", ""},
		"memory":       {python.Outcome{Limit: sandbox.LimitMemory, Traceback: "…\nMemoryError"}, "The program used more than 512 MiB of memory.\n\n…\nMemoryError", "The program used more than 512 MiB of memory."},
		"of a new one": {python.Outcome{Limit: "gpu"}, "The program reached a limit: gpu.", ""},
	} {
		c.outcome.Stdout, c.outcome.Stderr = "before\n", "warning\n"
		c.outcome.Files = []python.File{{Name: "a.csv"}}
		got, message := call(t, &fakeInterpreter{outcome: c.outcome}, &fakeFiles{}, false, `{"code":"1"}`)
		if c.message == "" {
			c.message = c.failure
		}
		if got.Error != c.failure || message != c.message || got.Stdout != "before\n" || got.Stderr != "warning\n" || got.Limit != string(c.outcome.Limit) || got.names() != "a.csv" {
			t.Errorf("%s: %+v, %s", name, got, message)
		}
	}
}

func TestAShortenedTimeLimitIsNamed(t *testing.T) {
	t.Parallel()
	s := &fakeInterpreter{outcome: python.Outcome{Limit: sandbox.LimitWall, ExitCode: -9}}
	b := codeexec.New(s, codeexec.Config{Limits: limits()})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := b.Call(ctx, request(&fakeFiles{}, false, `{"code":"1"}`))
	if err == nil || err.Error() != "The program ran for longer than 8 s." || s.given[0].Wall > 8*time.Second || s.given[0].Wall < 7*time.Second {
		t.Errorf("%v; %v", err, s.given[0].Wall)
	}
	if _, err := b.Call(t.Context(), request(&fakeFiles{}, false, `{"code":"1"}`)); err == nil || s.given[1].Wall != 30*time.Second {
		t.Errorf("%v; %v", err, s.given[1].Wall)
	}
	late, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	_, err = b.Call(late, request(&fakeFiles{}, false, `{"code":"1"}`))
	if public, ok := errors.AsType[*tool.Error](err); !ok || public.Retryable || public.Message != "No sandbox was free in time; try again later." || len(s.given) != 2 {
		t.Errorf("%v", err)
	}
}

func TestMissingFilesAndSandboxes(t *testing.T) {
	t.Parallel()
	boom := errors.New("clone: operation not permitted")
	const noSandbox, noFiles, noKeep = "again: The sandbox is temporarily unavailable.", "again: The files of the session are temporarily unavailable.", "again: The files of the call cannot be stored at the moment."
	made := python.Outcome{Files: []python.File{{Name: "a"}}}
	for name, c := range map[string]struct {
		fakeInterpreter fakeInterpreter
		files           fakeFiles
		want            string
	}{
		"sandbox":        {fakeInterpreter{err: boom}, fakeFiles{}, noSandbox},
		"list":           {fakeInterpreter{}, fakeFiles{noList: boom}, noFiles},
		"content":        {fakeInterpreter{}, fakeFiles{noRead: boom}, noFiles},
		"keeping":        {fakeInterpreter{outcome: made}, fakeFiles{noKeep: boom}, noKeep},
		"list, stale":    {fakeInterpreter{}, fakeFiles{noList: tool.ErrStale}, "error: " + tool.ErrStale.Error()},
		"keeping, stale": {fakeInterpreter{outcome: made}, fakeFiles{noKeep: tool.ErrStale}, "error: " + tool.ErrStale.Error()},
	} {
		files := c.files
		files.add("x", "1")
		if got, message := call(t, &c.fakeInterpreter, &files, true, `{"code":"1"}`); message != c.want || got.Stdout != "" {
			t.Errorf("%s: %s", name, message)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := codeexec.New(&fakeInterpreter{err: boom}, codeexec.Config{Limits: limits()}).Call(ctx, request(&fakeFiles{}, false, `{"code":"1"}`))
	if public, isPublic := errors.AsType[*tool.Error](err); isPublic || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", public, err)
	}
}

func TestServing(t *testing.T) {
	t.Parallel()
	for cfg, want := range map[codeexec.Config][2]int{{Slots: 4}: {4, 32}, {Slots: 4, Queue: 5}: {4, 5}, {}: {1, 8}} {
		b := codeexec.New(nil, cfg)
		if slots, queue := b.Serving(); slots != want[0] || queue != want[1] || b.Kind() != contract.ToolCodeExecution {
			t.Errorf("%+v: %d, %d", cfg, slots, queue)
		}
	}
}
