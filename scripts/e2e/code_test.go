package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// codeRun contains the fields of a run that executed code.
type codeRun struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Message   string `json:"message"`
	Attempts  int    `json:"attempts"`
	ToolCalls []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
		Output struct {
			Stdout string `json:"stdout"`
			Error  string `json:"error"`
			Files  []struct {
				ID       string `json:"id"`
				Name     string `json:"name"`
				MIMEType string `json:"mimeType"`
				Bytes    int    `json:"bytes"`
			} `json:"files"`
		} `json:"output"`
	} `json:"toolCalls"`
}

// analyst creates an agent that may run code.
func (a account) analyst(t *testing.T, model string, keepFiles bool) account {
	t.Helper()
	a.agent = api.CreateAgent(t, a.url, a.key, map[string]any{
		"name": "Analyst", "systemPrompt": "Calculate.", "model": model,
		"tools": map[string]any{"codeExecution": map[string]any{"enabled": true, "keepFiles": keepFiles}},
	})
	return a
}

// asks sends a chat message to the agent.
func (a account) asks(t *testing.T, session, message string) codeRun {
	t.Helper()
	got := a.send(t, http.MethodPost, a.url+"/api/agents?id="+a.agent+"&action=chat", map[string]any{"sessionId": session, "message": message})
	got.Want(t, http.StatusOK)
	var r codeRun
	got.Into(t, &r)
	if r.Status != "completed" {
		t.Fatalf("%s: %s", message, got.Body)
	}
	return r
}

// codeAndPlot asks an agent with the offline model, which needs no key of a provider, for a
// number and a plot. It then makes the agent run invalid code.
func codeAndPlot(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	in := s.first
	owner := signUp(t, in.url).analyst(t, "offline", false)
	r := owner.asks(t, "s", "Compute the squares of 1 to 10 and plot it.")
	if len(r.ToolCalls) != 1 || r.ToolCalls[0].Name != "codeExecution" || r.ToolCalls[0].Status != "completed" || !strings.Contains(r.Message, "100") {
		t.Fatalf("%+v", r)
	}

	broken := owner.asks(t, "s", "Run this:\n```python\nfor n in range(3)\n    print(n)\n```")
	if len(broken.ToolCalls) != 1 || broken.ToolCalls[0].Status != "failed" || !strings.Contains(broken.ToolCalls[0].Output.Error, "SyntaxError") ||
		!strings.Contains(broken.ToolCalls[0].Output.Error, "line 1") || !strings.Contains(broken.Message, "SyntaxError") {
		t.Errorf("%+v", broken)
	}
	if _, err := os.Stat("/usr/lib/python3/dist-packages/matplotlib"); err != nil {
		t.Skipf("NOT TESTED: plots, because matplotlib is not installed: %v", err)
	}

	seePlot(t, owner, r)
}

// seePlot requests the plot of a run as the run's owner and as another organization, which must not
// get it.
func seePlot(t *testing.T, owner account, r codeRun) {
	t.Helper()
	files := r.ToolCalls[0].Output.Files
	if len(files) != 1 || files[0].MIMEType != "image/png" || !strings.Contains(r.Message, files[0].Name) {
		t.Fatalf("%+v", r)
	}

	path := "/api/files?id=" + files[0].ID
	got := owner.get(t.Context(), path).Want(t, http.StatusOK)
	plot, err := png.Decode(bytes.NewReader(got.Body))
	if err != nil || plot.Bounds().Dx() < 300 || len(got.Body) != files[0].Bytes || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("%d bytes, %v, %v", len(got.Body), got.Header, err)
	}

	stranger := signUp(t, owner.url)
	stranger.get(t.Context(), path).Refused(t, http.StatusNotFound, "not_found")
	owner.send(t, http.MethodDelete, owner.url+"/api/sessions?id=s&agentId="+owner.agent, nil)
	owner.get(t.Context(), path).Refused(t, http.StatusNotFound, "not_found")
}

// runsCode is the script of a model that runs the code in the message, and then answers with the
// code's output.
func runsCode(req openaistub.Request) (openaistub.Reply, bool) {
	code, found := strings.CutPrefix(req.Prompt(), "run: ")
	if !found {
		return openaistub.Reply{}, false
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" {
		return openaistub.Reply{Text: last.Content}, true
	}
	arguments, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		return openaistub.Reply{}, false
	}
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_code", Name: "codeExecution", Arguments: string(arguments)}}}, true
}

// TestChaosCode kills the tool worker while a program runs in it. The run is still answered, the
// session's folder contains the files of only one execution, and no program outlives its worker.
func TestChaosCode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sandboxed)
	c.model.follow(runsCode)
	in := c.ingress(t)
	c.worker(t, "ROLES=agent,sweep")
	// Both workers must be ready before one is killed, because a tool call fails if no worker is
	// available for two seconds.
	tools := []*testkit.Process{c.worker(t, "ROLES=tool"), c.worker(t, "ROLES=tool")}
	owner := signUp(t, in.url).analyst(t, modelName, true)
	owner.asks(t, "s", "run: open('n.txt', 'a').write('one\\n'); open('gone.txt', 'w').write('x')")
	mark := rand.Text()
	slow := fmt.Sprintf("run: import os, subprocess, sys, time; os.remove('gone.txt'); open('n.txt', 'a').write('two\\n'); "+
		"subprocess.Popen([sys.executable or '/usr/bin/python3', '-c', 'import time; time.sleep(77) # %s']); time.sleep(4); print('slept')", mark)
	waiting := make(chan codeRun, 1)
	go func() {
		defer close(waiting)
		waiting <- owner.asks(t, "s", slow)
	}()

	var orphans []string // read only once, because the program may end before a second reading
	eventually(t, 20*time.Second, "the program runs", func() bool {
		orphans = commands(t, mark)
		return len(orphans) > 0
	})
	at := slices.IndexFunc(tools, func(worker *testkit.Process) bool { return descends(orphans[0], worker.PID()) })
	if at < 0 {
		t.Fatalf("program %s outlived its tool worker", orphans[0])
	}

	tools[at].Kill9()
	eventually(t, 20*time.Second, "all processes of the first program have ended", func() bool {
		now := commands(t, mark)
		return !slices.ContainsFunc(orphans, func(path string) bool { return slices.Contains(now, path) })
	})

	r, ok := <-waiting
	if !ok || len(r.ToolCalls) != 1 || !strings.Contains(r.ToolCalls[0].Output.Stdout, "slept") || r.Attempts < 2 {
		t.Fatalf("%+v", r)
	}

	after := owner.asks(t, "s", "run: import os; print(sorted(os.listdir()), repr(open('n.txt').read()))")
	if out := after.ToolCalls[0].Output.Stdout; strings.TrimSpace(out) != `['n.txt'] 'one\ntwo\n'` {
		t.Errorf("folder = %s", out)
	}
	if other := owner.asks(t, "another", "run: import os; print(os.listdir())"); strings.TrimSpace(other.ToolCalls[0].Output.Stdout) != "[]" {
		t.Errorf("folder of another session = %+v", other)
	}

	eventually(t, 20*time.Second, "all programs have ended", func() bool { return len(commands(t, mark)) == 0 })
}

// commands returns the processes on this machine whose command line contains the given text.
func commands(t *testing.T, mark string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, path)
		}
	}
	return found
}

// descends reports whether the process with the given path below /proc descends from the process
// ancestor.
func descends(path string, ancestor int) bool {
	for pid := filepath.Base(filepath.Dir(path)); pid != "1" && pid != "0" && pid != ""; {
		if pid == strconv.Itoa(ancestor) {
			return true
		}
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
		pid, _, _ = strings.Cut(rest, "\n")
	}
	return false
}
