package workers_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
	"parley/workers"
)

const runsCode = "```python\nopen('a.csv', 'w').write('x' * 1000)\nprint('done')\n```"

func withCode() domain.Tools { return domain.Tools{CodeExecution: &domain.CodeTool{Enabled: true}} }

// If gVisor is configured but unavailable, no other sandbox is used to run code or read documents.
func TestAWorkerWithoutItsSandboxRunsNoCode(t *testing.T) {
	t.Setenv("RUNSC", "/nonexistent/runsc")
	r := newTestEnv(t, config.Workers{Sandbox: config.Sandbox{SandboxKind: config.SandboxGVisor}})
	can := r.work.Capabilities()
	if len(can) != 4 || can[1].Ok || can[1].Name != "documents" || can[0].Ok || !strings.HasPrefix(can[0].State, "none: gVisor: ") || !strings.Contains(can[0].State, "/nonexistent/runsc") {
		t.Errorf("%+v", can)
	}
	began := time.Now()
	run := r.result(r.start(r.agentWith("offline", withCode()), "s", runsCode))
	if run.Status != domain.RunCompleted || run.Message == nil || !strings.Contains(*run.Message, "codeExecution is not available") {
		t.Errorf("%+v", run)
	}
	if took := time.Since(began); took > testkit.Within(10*time.Second) {
		t.Errorf("the worker needed %s to report that no sandbox works", took)
	}
}

// The setting FILES_PER_ORGANIZATION limits the number of stored files.
func TestFilesBeyondTheSettingAreNotKept(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("NOT TESTED: files of programs: there is no bwrap on this machine (install the package bubblewrap)")
	}
	for maximum, want := range map[int64]string{100: "No file was kept", 10_000: "It left the file `a.csv`"} {
		on := envConfig{dsn: testkit.Postgres(t), secretsKey: secretsKey, log: zerolog.NewTestWriter(t), files: maximum}
		r := newTestEnvOn(t, on, 4, config.Workers{Sandbox: config.Sandbox{SandboxKind: config.SandboxBubblewrap}}, workers.Roles...)
		run := r.result(r.start(r.agentWith("offline", withCode()), "s", runsCode))
		if run.Message == nil || !strings.Contains(*run.Message, "done") || !strings.Contains(*run.Message, want) {
			t.Errorf("%d bytes: %+v, %q", maximum, run.Error, *run.Message)
		}
	}
}

// The setting SANDBOX_WALL determines the time limit of a tool call that runs a program.
func TestACallHasTheTimeOfItsProgramAndOfTheQueue(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{Sandbox: config.Sandbox{SandboxWall: 3 * time.Minute}}, workers.RoleAgent)
	r.deadline = time.Hour
	deadlines := make(chan time.Duration, 8)
	stop, err := r.bus.ServeTool(contract.ToolCodeExecution, bus.ToolOptions{Slots: 1, Queue: 1}, func(_ context.Context, m bus.ToolMessage) ([]byte, bool) {
		deadlines <- time.Until(m.Deadline)
		return []byte(`{}`), true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	r.result(r.start(r.agentWith("offline", withCode()), "s", runsCode))
	const want = 3*time.Minute + 90*time.Second
	if got := <-deadlines; got > want || got < want-20*time.Second {
		t.Errorf("a call may take %s, want %s", got, want)
	}
}
