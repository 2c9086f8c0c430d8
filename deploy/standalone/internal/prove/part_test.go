package prove

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/store/pgserver"
	"parley/shared/testkit"
)

func TestPartThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"fails":         {errors.New("exit status 1: no"), maxFailedStarts},
		"not installed": {pgserver.ErrNotInstalled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				tries := 0
				p := newPart(kindPostgres, func(context.Context) (*supervise.Instance, error) {
					tries++
					return nil, c.err
				})
				partSet := partSet{fail: cancel}
				if err := partSet.addAndWait(ctx, p); !errors.Is(err, c.err) || tries != c.tries {
					t.Fatalf("error after %d tries = %v", tries, err)
				}
				partSet.wg.Wait()
			})
		})
	}
}

func script(t *testing.T, text string) childproc.Program {
	t.Helper()
	return childproc.Program{Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Log: filepath.Join(t.TempDir(), "x.log")}
}

func TestRun(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), script(t, "exit 0")); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), script(t, "echo broken; exit 1")); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("run of a failing program = %v, want an error that contains its output", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := run(ctx, script(t, "read never </dev/zero")); err == nil {
		t.Error("run of a stopped process returned no error")
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	const away = 200 * time.Millisecond
	program := script(t, "echo is ready; read never </dev/zero")
	p := newPart(kindNATS, func(ctx context.Context) (*supervise.Instance, error) {
		return supervise.Process(ctx, program, "is ready", readyWithin)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	c := partSet{fail: cancel}
	if err := c.addAndWait(ctx, p); err != nil {
		t.Fatal(err)
	}

	up, began := false, time.Now()
	if err := kill(ctx, p, away, func() { up = p.Ready() }); err != nil || !up {
		t.Fatalf("kill = %v; the part was up before: %t", err, up)
	}
	if err := c.awaitAll(ctx); err != nil || time.Since(began) < away || p.History().Starts != 2 {
		t.Errorf("after %s: %v, %+v", time.Since(began), err, p.History())
	}
	if ends := c.unexpectedEnds(); len(ends) > 0 {
		t.Errorf("a kill is recorded as an unexpected end: %v", ends)
	}

	if err := syscall.Kill(p.PID(), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, "the crash is reported", func() bool { return len(c.unexpectedEnds()) == 1 })
	cancel(nil)
	c.wg.Wait()
}

func TestUnknownPart(t *testing.T) {
	t.Parallel()
	if _, err := (&partSet{}).of("worker 9"); err == nil {
		t.Fatal("found a part that does not exist")
	}
}
