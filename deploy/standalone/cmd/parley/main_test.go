package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/cli"
)

// TestWhatIsNotUnderstoodIsSaidLast has a setting and arguments that are none, with every command.
func TestWhatIsNotUnderstoodIsSaidLast(t *testing.T) {
	wrong := func(args ...string) (lines []string, code int) {
		var out bytes.Buffer
		k := newParser(new(commands), kong.Writers(&out, &out))
		_, err := k.Parse(args)
		cli.Complain(k, err)
		return strings.Split(strings.TrimSpace(out.String()), "\n"), cli.Code(t.Context(), err)
	}
	check := func(says string, args ...string) {
		t.Helper()
		lines, code := wrong(args...)
		if last := lines[len(lines)-1]; len(lines) > 5 || code != cli.ExitArguments || !strings.HasPrefix(last, "parley: error: ") || !strings.Contains(last, says) {
			t.Errorf("parley %s: exit code %d after\n%s", strings.Join(args, " "), code, strings.Join(lines, "\n"))
		}
	}
	for _, command := range []string{"up", "serve", "migrate", "doctor", "reset", "reset-password", "chat", "trigger", "config", "completion"} {
		check("--nothing", command, "--nothing")
	}
	check("--sandbox-warm", "up", "--sandbox-warm=many")
	check("unexpected argument nothing", "nothing")
	t.Setenv("SANDBOX_CPU", "ten")
	for _, command := range []string{"up", "serve", "doctor"} {
		check("SANDBOX_CPU", command)
	}
}
