package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestWhatIsNotUnderstoodIsSaidLast has a setting and arguments that are none, with every command.
func TestWhatIsNotUnderstoodIsSaidLast(t *testing.T) {
	wrong := func(args ...string) (lines []string, code int) {
		var out bytes.Buffer
		code = -1
		k := newParser(new(commands), kong.Writers(&out, &out), kong.Exit(func(c int) { code = c }))
		_, err := k.Parse(args)
		k.FatalIfErrorf(err)
		return strings.Split(strings.TrimSpace(out.String()), "\n"), code
	}
	check := func(says string, args ...string) {
		t.Helper()
		lines, code := wrong(args...)
		if last := lines[len(lines)-1]; len(lines) > 5 || code < 1 || !strings.HasPrefix(last, "parley: error: ") || !strings.Contains(last, says) {
			t.Errorf("parley %s: exit code %d after\n%s", strings.Join(args, " "), code, strings.Join(lines, "\n"))
		}
	}
	for _, command := range []string{"up", "serve", "migrate", "doctor", "reset", "reset-password"} {
		check("--nothing", command, "--nothing")
	}
	check("--sandbox-warm", "up", "--sandbox-warm=many")
	check("unexpected argument nothing", "nothing")
	t.Setenv("SANDBOX_CPU", "ten")
	for _, command := range []string{"up", "serve", "doctor"} {
		check("SANDBOX_CPU", command)
	}
}
