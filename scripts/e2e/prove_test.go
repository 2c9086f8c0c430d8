package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// proveResult contains the fields of the output of `parley prove --json` that these tests use.
type proveResult struct {
	OK         bool           `json:"ok"`
	Triggers   int            `json:"triggers"`
	Answered   int            `json:"answered"`
	Runs       int            `json:"runs"`
	Effects    int            `json:"effects"`
	Lost       int            `json:"lost"`
	Doubled    int            `json:"doubled"`
	Unanswered int            `json:"unanswered"`
	Unasked    int            `json:"unasked"`
	Seed       uint64         `json:"seed"`
	Killed     map[string]int `json:"killed"`
	Faults     []string       `json:"faults"`
	Kept       string         `json:"kept"`
	Kills      []struct {
		UnderWay int `json:"underWay"`
	} `json:"kills"`
}

// prove runs `parley prove`, and returns its output and exit code. The command must leave no
// processes, and no files except those that its output names as kept.
func prove(t *testing.T, args ...string) (proveResult, int) {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), append([]string{"prove", "--json"}, args...)...)
	// The command must ignore the settings of a real service.
	command.Env = append(command.Environ(), "TMPDIR="+dir, "DATABASE_URL=postgres://nowhere.invalid/x", "NATS_URL=nats://nowhere.invalid", "ROLES=none")
	out, err := command.Output()
	code := 0
	if ended, failed := errors.AsType[*exec.ExitError](err); failed {
		code = ended.ExitCode()
		t.Logf("parley %v said: %s", command.Args[1:], ended.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}

	var got proveResult
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("exit code %d, and the output is not one JSON object: %v: %s", code, err, out)
	}

	t.Logf("exit code %d: %s", code, out)
	if got.Kept != "" {
		if logs, err := filepath.Glob(filepath.Join(got.Kept, "logs", "*.log")); err != nil || len(logs) < 5 {
			t.Errorf("kept logs = %v, error %v", logs, err)
		}
		if err := os.RemoveAll(got.Kept); err != nil {
			t.Error(err)
		}
	}

	nothingLeft(t, dir)
	return got, code
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "parley-*")); err != nil || len(left) > 0 {
		t.Errorf("directories left behind: %v, error %v", left, err)
	}
	if left := processesBelow(t, dir); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

// TestChaosParleyProve makes `parley prove` kill all parts that restart quickly. It kills no
// workers, because the runs of a killed worker wait 30 s for their leases to expire. Another test
// executes the commands of docs/prove.md, which kill workers.
func TestChaosParleyProve(t *testing.T) {
	nightly(t, "a whole proof; a test of scripts/clients runs the commands of docs/prove.md")
	t.Parallel()
	const triggers = 100
	got, code := prove(t, "--triggers=100", "--seed=12", "--kill=ingress,nats,postgres")
	if code != 0 || !got.OK || got.Triggers != triggers || got.Answered != triggers || got.Runs != triggers || got.Effects != triggers {
		t.Fatalf("exit code %d: %+v", code, got)
	}
	if got.Seed != 12 || got.Killed["ingress"] != 2 || got.Killed["nats"] != 2 || got.Killed["postgres"] != 1 || len(got.Kills) != 5 {
		t.Errorf("seed %d, killed: %v", got.Seed, got.Killed)
	}

	for _, kill := range got.Kills {
		if kill.UnderWay == 0 {
			t.Errorf("a process was killed while no run was in progress: %+v", got.Kills)
		}
	}
}

// TestChaosParleyProveCanFail runs `parley prove` with faults that break one promise of the service
// at a time. The proof of this promise must then fail.
func TestChaosParleyProveCanFail(t *testing.T) {
	nightly(t, "two whole proofs")
	t.Parallel()
	for sabotage, seen := range map[string]func(proveResult) bool{
		"keys": func(p proveResult) bool {
			return p.Doubled > 0 && p.Unasked > 0 && p.Effects > p.Triggers && p.Runs > p.Triggers
		},
		"ledger": func(p proveResult) bool {
			return p.Lost > 0 && p.Doubled == 0 && p.Effects < p.Triggers && p.Answered == p.Triggers
		},
	} {
		t.Run(sabotage, func(t *testing.T) {
			t.Parallel()
			got, code := prove(t, "--triggers=60", "--kill=ingress", "--sabotage="+sabotage)
			if code != 1 || got.OK || len(got.Faults) == 0 || !seen(got) {
				t.Errorf("exit code %d: %+v", code, got)
			}
		})
	}
}

// TestParleyProveOutOfTime sends more triggers than the service can answer within the time limit.
// The command must report the unanswered triggers as faults, and keep its files as evidence.
func TestParleyProveOutOfTime(t *testing.T) {
	nightly(t, "a whole proof with 50,000 triggers")
	t.Parallel()
	got, code := prove(t, "--triggers=50000", "--timeout=1s", "--kill=ingress")
	if code != 1 || got.OK || got.Unanswered == 0 || got.Unanswered+got.Answered != got.Triggers || got.Kept == "" {
		t.Errorf("exit code %d: %d unanswered, %d answered, kept in %q", code, got.Unanswered, got.Answered, got.Kept)
	}
}

// TestChaosParleyProveEndsWhole ends `parley prove` with signals. After Ctrl-C, no process and no
// file may be left. After kill -9, no process may be left.
func TestChaosParleyProveEndsWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"ctrl-c": {syscall.SIGINT, 130}, "term": {syscall.SIGTERM, 143}, "kill": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "ctrl-c" {
				nightly(t, "it differs from ctrl-c only in the signal")
			}
			dir := t.TempDir()
			p := testkit.StartProcess(t, testkit.Command{
				Name: "parley", Path: testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), Args: []string{"prove", "--triggers=5000"},
				Env: []string{"TMPDIR=" + dir}, ReadyLine: "are ready",
			})
			if running := processesBelow(t, dir); len(running) < 5 { // PostgreSQL, NATS, ingress, two workers
				t.Fatalf("processes %v", running)
			}
			if err := syscall.Kill(p.PID(), c.signal); err != nil {
				t.Fatal(err)
			}
			if ended, ok := errors.AsType[*exec.ExitError](p.Wait(30 * time.Second)); !ok || ended.ExitCode() != c.code {
				t.Errorf("parley ended with %v", ended)
			}
			if c.signal == syscall.SIGKILL {
				eventually(t, 20*time.Second, "all processes are gone", func() bool { return len(processesBelow(t, dir)) == 0 })
				return
			}
			nothingLeft(t, dir)
		})
	}
}
