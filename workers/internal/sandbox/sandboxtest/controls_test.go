//go:build linux

package sandboxtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestControls makes the attempts where nothing isolates them. What does not succeed here would pass in any sandbox.
func TestControls(t *testing.T) { //nolint:paralleltest // sets the environment
	h := newHost(t)
	t.Setenv("PARLEY_CANARY", h.canary)
	attempts := slices.Concat(deniedCalls(), deniedArguments(), deniedSockets(), deniedOnHost(t, h))
	for i, a := range attempts {
		if a.control != nil {
			attempts[i].args = a.control
		}
	}
	found := unisolated(t, attempts)
	bare := privileged()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			r, ok := found[a.name]
			switch {
			case !ok:
				t.Fatal("the attempt was not made")
			case r.Broken != "":
				t.Fatalf("the attempt is broken: %s", r.Broken)
			case a.escaped(r) != nil:
				return
			case a.needs == luck, a.needs == privileges && bare != nil:
				t.Logf("this host refuses it as well (%s), so its refusal in a sandbox says less here", r)
			default:
				t.Errorf("was refused without a sandbox: %s", r)
			}
		})
	}
}

// unisolated makes attempts in a Python of this host.
func unisolated(t *testing.T, attempts []attempt) map[string]result {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, "-I", "-S", "-")
	command.Stdin = strings.NewReader(attemptCode(attempts))
	command.Dir = t.TempDir()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("making the attempts: %v", err)
	}
	found, err := results(string(output))
	if err != nil {
		t.Fatalf("reading what came of the attempts: %v", err)
	}
	return found
}
