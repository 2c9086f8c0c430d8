package workers

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
	"parley/workers/internal/sandbox"
)

// If the configured sandbox does not work, no other sandbox is opened, even if this machine
// supports another one.
func TestNoOtherSandboxIsOpened(t *testing.T) {
	t.Setenv("RUNSC", "/nonexistent/runsc")
	opened := openIsolation(config.Sandbox{SandboxKind: config.SandboxGVisor}, true, 0, func(error) {})
	err := opened.none
	if opened.code != nil || opened.backend != nil || opened.noCode == nil || err == nil || !strings.HasPrefix(err.Error(), "gVisor: ") || !strings.Contains(err.Error(), "/nonexistent/runsc") {
		t.Errorf("%+v", opened)
	}
}

func TestLimitsOfTheSettings(t *testing.T) {
	t.Parallel()
	defaults := sandbox.Limits{
		CPU: 10 * time.Second, Wall: 30 * time.Second, Memory: 512 << 20, Processes: 64, Files: 64 << 20, FileCount: 10_000, Output: 1 << 20,
	}
	but := func(change func(*sandbox.Limits)) sandbox.Limits {
		l := defaults
		change(&l)
		return l
	}
	for name, c := range map[string]struct {
		set  config.Sandbox
		want sandbox.Limits
	}{
		"none":   {config.Sandbox{}, defaults},
		"CPU":    {config.Sandbox{SandboxCPU: time.Second}, but(func(l *sandbox.Limits) { l.CPU = time.Second })},
		"wall":   {config.Sandbox{SandboxWall: time.Minute}, but(func(l *sandbox.Limits) { l.Wall = time.Minute })},
		"memory": {config.Sandbox{SandboxMemory: 1 << 30}, but(func(l *sandbox.Limits) { l.Memory = 1 << 30 })},
	} {
		if got := sandboxLimits(c.set); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestHowManySandboxes(t *testing.T) {
	t.Parallel()
	usual := max(2*runtime.GOMAXPROCS(0), 4)
	for _, c := range []struct{ concurrency, slots, ready int }{
		{0, usual, min(usual, 8)},
		{1, 1, 1},
		{3, 3, 3},
		{8, 8, 8},
		{20, 20, 8},
	} {
		cfg := config.Sandbox{SandboxConcurrency: c.concurrency}
		if slots, ready := sandboxSlots(cfg), warmSandboxes(cfg); slots != c.slots || ready != c.ready {
			t.Errorf("%+v: %d at a time, %d ready", c, slots, ready)
		}
		// Compare the numbers with those that the tool worker receives.
		if slots, queue := (&codeRunner{}).tool(cfg).Serving(); slots != c.slots || queue != 8*c.slots {
			t.Errorf("%+v: %d at a time, %d wait", c, slots, queue)
		}
	}
}
