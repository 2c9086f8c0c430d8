package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// nodeHost is a process that runs the scripts of the tests. See npm/host.mjs.
type nodeHost struct {
	cmd   *exec.Cmd
	said  bytes.Buffer // what the process printed outside of scripts; complete after over is closed
	over  chan struct{}
	wrong error // why the process ended; set before over is closed

	mu      sync.Mutex // protects the fields below
	input   io.WriteCloser
	waiting []chan ended // by the ID of the script
}

// startNodeHost starts the process in the directory of the npm packages.
func startNodeHost(node, dir string) (*nodeHost, error) {
	ended, reports, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating a pipe: %w", err)
	}
	defer reports.Close() // the process has its own copy

	h := &nodeHost{cmd: exec.CommandContext(context.Background(), node, "host.mjs"), over: make(chan struct{})}
	h.cmd.Dir, h.cmd.Env = dir, plainEnvironment()
	h.cmd.Stdout, h.cmd.Stderr, h.cmd.ExtraFiles = &h.said, &h.said, []*os.File{reports}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.cmd.WaitDelay = time.Second
	if h.input, err = h.cmd.StdinPipe(); err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting Node: %w", err), ended.Close())
	}
	go h.read(ended)
	return h, nil
}

// read delivers the outcomes of scripts until the process ends.
func (h *nodeHost) read(reports io.ReadCloser) {
	defer close(h.over)
	outcomes := json.NewDecoder(reports)
	for {
		var of struct {
			ID, Code       int
			Stdout, Stderr string
		}
		if err := outcomes.Decode(&of); err != nil {
			if !errors.Is(err, io.EOF) {
				h.wrong = fmt.Errorf("reading the outcomes of scripts: %w", err)
			}
			break
		}
		h.mu.Lock()
		h.waiting[of.ID] <- ended{of.Stdout, of.Stderr, of.Code}
		h.mu.Unlock()
	}
	if err := h.cmd.Wait(); err != nil {
		h.wrong = errors.Join(h.wrong, fmt.Errorf("running scripts: %w\n%s", err, &h.said))
	}
	h.wrong = errors.Join(h.wrong, reports.Close())
}

// run runs a script to its end, with the given environment.
func (h *nodeHost) run(t *testing.T, script string, env []string) ended {
	t.Helper()
	variables := map[string]string{}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		variables[name] = value
	}

	outcome := make(chan ended, 1)
	h.mu.Lock()
	order := encoded(t, map[string]any{"id": len(h.waiting), "script": script, "env": variables})
	h.waiting = append(h.waiting, outcome)
	_, err := h.input.Write(append(order, '\n'))
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience())
	defer cancel()
	select {
	case got := <-outcome:
		return got
	case <-h.over:
		t.Fatalf("%s did not end: %v", script, errors.Join(err, h.wrong))
	case <-ctx.Done():
		t.Fatalf("%s did not end: %v", script, ctx.Err())
	}
	return ended{}
}

// end ends the process, and kills it if it does not end. The error contains errors that occurred
// after the end of a script.
func (h *nodeHost) end() error {
	if h == nil {
		return nil
	}
	err := h.input.Close()
	select {
	case <-h.over:
	case <-time.After(patience()):
		err = errors.Join(err, syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL), errors.New("Node did not end"))
		<-h.over
	}
	return errors.Join(err, h.wrong)
}

// nodeScripts returns the process that runs the scripts of the tests. The first call starts it.
func (s *testEnv) nodeScripts(t *testing.T) *nodeHost {
	t.Helper()
	node, dir := needsNode(t), s.npmInstall(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scripts == nil {
		var err error
		if s.scripts, err = startNodeHost(node, dir); err != nil {
			t.Fatal(err)
		}
	}
	return s.scripts
}

// node runs scripts/clients/npm/<script> in the process that the tests share, and returns its
// output. env adds variables to the environment.
func (s *testEnv) node(t *testing.T, script string, env ...string) string {
	t.Helper()
	features := filepath.Join(t.TempDir(), "features")
	printed := s.nodeProgram(t, filepath.Join(s.npmInstall(t), script), append(env, "FEATURES="+features)...)
	provesAll(t, features)
	return printed
}

// nodeProgram runs a program in the process that the tests share, and returns its output. The
// program must succeed.
func (s *testEnv) nodeProgram(t *testing.T, path string, env ...string) string {
	t.Helper()
	got := s.nodeScripts(t).run(t, path, s.env(env...))
	if got.code != 0 {
		t.Fatalf("%s ended with %d\n%s%s", path, got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

// nodeAlone is like node, but runs the script in a process of its own. It is for scripts with
// variables that Node reads when it starts.
func (s *testEnv) nodeAlone(t *testing.T, script string, env ...string) string {
	t.Helper()
	features := filepath.Join(t.TempDir(), "features")
	printed := succeed(t, s.npmInstall(t), s.env(append(env, "FEATURES="+features)...), needsNode(t), script)
	provesAll(t, features)
	return printed
}

// TestNodeHost checks that scripts in one process have their own environments, consoles and exit
// codes, and that an error that a script does not catch fails this script or the process.
func TestNodeHost(t *testing.T) {
	t.Parallel()
	node, dir := needsNode(t), t.TempDir()
	copyFiles(t, filepath.Join(testkit.Root(t), "scripts", "clients", "npm"), dir)
	h, err := startNodeHost(node, dir)
	if err != nil {
		t.Fatal(err)
	}
	const wait = `await new Promise((done) => { setTimeout(done, 20); });`
	for name, c := range map[string]struct {
		text, stdout, stderr string
		code                 int
	}{
		"variables": {`console.log(process.env.NAME, "NAME" in process.env, Object.keys(process.env).includes("NAME"), process.env.OTHER);` +
			wait + `console.log(process.env.NAME)`, "variables true true undefined\nvariables\n", "", 0},
		"warns":   {`const seen = []; console.warn = (text) => seen.push(text);` + wait + `console.warn("own"); console.log(seen.join())`, "own\n", "", 0},
		"prints":  {`console.warn("other");` + wait, "", "other\n", 0},
		"exits":   {`console.log("before"); ` + wait + `process.exit(3); console.log("after")`, "before\n", "", 3},
		"throws":  {`throw new Error("thrown")`, "", "Error: thrown", 1},
		"rejects": {`Promise.reject(new Error("rejected")); await new Promise(() => setInterval(() => {}, 1000))`, "", "Error: rejected", 1},
		"timer":   {`setTimeout(() => { throw new Error("timed") }, 1); await new Promise(() => setInterval(() => {}, 1000))`, "", "Error: timed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			save(t, dir, name+".mjs", c.text)
			got := h.run(t, filepath.Join(dir, name+".mjs"), []string{"NAME=" + name})
			if got.stdout != c.stdout || !strings.HasPrefix(got.stderr, c.stderr) || (c.stderr == "") != (got.stderr == "") || got.code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Cleanup(func() { // after the subtests
		if err := h.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestNodeHostReportsLateErrors checks that the process fails if an error occurs after the end of a
// script, unless the script has called process.exit.
func TestNodeHostReportsLateErrors(t *testing.T) {
	t.Parallel()
	node := needsNode(t)
	for end, want := range map[string]string{"": "Error: late", "process.exit(0)": ""} {
		dir := t.TempDir()
		copyFiles(t, filepath.Join(testkit.Root(t), "scripts", "clients", "npm"), dir)
		h, err := startNodeHost(node, dir)
		if err != nil {
			t.Fatal(err)
		}
		save(t, dir, "late.mjs", `process.nextTick(() => setImmediate(() => { throw new Error("late") }));`+end)
		save(t, dir, "next.mjs", `await new Promise((done) => { setTimeout(done, 50); });`)
		for _, script := range []string{"late.mjs", "next.mjs"} {
			if got := h.run(t, filepath.Join(dir, script), nil); got.code != 0 {
				t.Errorf("%s: %+v", script, got)
			}
		}
		if err := h.end(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("script with %q: %v, want %q", end, err, want)
		}
	}
}
