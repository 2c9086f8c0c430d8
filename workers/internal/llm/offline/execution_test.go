package offline_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/codeexec"
)

// codeTool runs code in a real sandbox, and keeps the created files in memory.
type codeTool struct {
	backend *codeexec.Backend
}

func (codeTool) Spec() tool.Spec { return codeexec.Spec(domain.CodeTool{}, sandbox.Limits{}, false) }

func (c codeTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	cfg := domain.Config{Tools: domain.Tools{CodeExecution: &domain.CodeTool{Enabled: true}}}
	return c.backend.Call(ctx, tool.Request{Config: cfg, Call: call, Files: shelf{}, Fence: 1})
}

type shelf struct{}

func (shelf) Session(context.Context) ([]domain.File, error)        { return nil, nil }
func (shelf) Read(context.Context, []domain.File) ([][]byte, error) { return nil, nil }
func (shelf) Keep(_ context.Context, made []tool.NewFile, _ []string) ([]domain.File, error) {
	var files []domain.File
	for n, f := range made {
		files = append(files, domain.File{ID: fmt.Sprint("file_", n), Name: f.Name, MIMEType: f.MIMEType, Bytes: int64(len(f.Content))})
	}
	return files, nil
}

// TestComputationsAreCarriedOut executes the model's programs with the agent loop, in a sandbox.
func TestComputationsAreCarriedOut(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("NOT TESTED: programs in a sandbox: there is no bwrap on this machine (install the package bubblewrap)")
	}
	backend, err := bubblewrap.Open(bubblewrap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	limits := sandbox.Limits{
		CPU: time.Minute, Wall: 2 * time.Minute, Memory: 512 << 20, Processes: 64, Files: 64 << 20, FileCount: 1000, Output: 1 << 20,
	}
	interpreter, err := python.Open(backend, python.Config{Limits: limits, Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = interpreter.Close() })
	tools, err := tool.NewRegistry(codeTool{codeexec.New(interpreter, codeexec.Config{Limits: limits})})
	if err != nil {
		t.Fatal(err)
	}
	const plotted, missing = "\n\nThe plot is in the file plot.png.", "\n\nThere is no plot: matplotlib is not installed."
	for _, c := range []struct {
		message, want, status string
	}{
		{"Compute the sum of the squares from 1 to 10 and plot it.", "The sum of the squares of the numbers from 1 to 10 is 385." + plotted, "completed"},
		{"Compute the cubes of 2 to 4", "The cubes of the numbers from 2 to 4 are 8, 27, 64.", "completed"},
		{"What is the mean, the median and standard deviation of 1, 2, 3, 4?", "The mean of 1, 2, 3, 4 is 2.5.\n\nThe median of 1, 2, 3, 4 is 2.5.\n\nThe sample standard deviation of 1, 2, 3, 4 is 1.291.", "completed"},
		{"Run this:\n```python\nprint(1)\nprint(\n```", "The program failed: SyntaxError: '(' was never closed", "failed"},
		{"What is 1 / 0?", "The program failed: ZeroDivisionError: division by zero", "failed"},
	} {
		in := agentloop.Input{Message: c.message, Model: offline.Model{}, Tools: tools}
		out, err := agentloop.New(agentloop.Config{}).Run(t.Context(), in, noSteps{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.TrimPrefix(out.Text, "(Offline model: fixed rules, no language model.)\n\n"), missing, plotted)
		if got != c.want && (c.status != "failed" || !strings.HasPrefix(got, c.want+"\n")) || len(out.ToolCalls) != 1 || out.ToolCalls[0].Status != c.status {
			t.Errorf("%s\n%s\n%+v", c.message, got, out.ToolCalls)
		}
	}
}
