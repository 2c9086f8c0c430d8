package main

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/cli"
	parley "parley/sdk/go"
)

// TestUsageErrorsAreSaidLast parses command lines with invalid arguments, and valid command lines
// with an invalid setting in the environment. The error must be the last line of the output.
func TestUsageErrorsAreSaidLast(t *testing.T) {
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
			t.Errorf("parley %s: exit code %d, output:\n%s", strings.Join(args, " "), code, strings.Join(lines, "\n"))
		}
	}

	for _, command := range []string{"up", "serve", "migrate", "doctor", "reset", "reset-password", "chat", "trigger", "config", "completion"} {
		check("--nothing", command, "--nothing")
	}

	check("--sandbox-concurrency", "up", "--sandbox-concurrency=many")
	check("unknown flag --sandbox-warm", "up", "--sandbox-warm=8") // a removed setting
	check("unexpected argument nothing", "nothing")
	check("unexpected argument get; the commands of parley runs are tail, list, show, cancel", "runs", "get")
	check("unexpected argument create; the commands of parley agents are list", "agents", "create")
	check("unexpected argument get", "runs", "tail", "get")
	check("AGENT is missing", "trigger")
	check(`--status must be one of "queued","running",`, "runs", "tail", "--status", "done")
	check(`--lines: must be a whole number, not "abc"`, "runs", "list", "--lines", "abc")
	check(`--ttl: must be a whole number, not "1h"`, "trigger", "a", "b", "--ttl", "1h")
	check(`--input: must be like name=value, not "city"`, "trigger", "a", "b", "--input", "city")
	check(`--timeout: must be a duration such as`, "trigger", "a", "b", "--timeout", "soon")
	check("unknown flag --version", "chat", "what", "is", "--version")
	for _, args := range [][]string{{"runs", "list", "-n", "3"}, {"trigger", "a", "b", "--timeout", "5"}, {"up", "--port", "9000"}, words([]string{"--version", "--json"})} {
		if lines, code := wrong(args...); code != cli.ExitDone {
			t.Errorf("parley %v: %q", args, lines)
		}
	}

	t.Setenv("SANDBOX_CPU", "ten")
	for _, command := range []string{"up", "serve", "doctor"} {
		check("SANDBOX_CPU", command)
	}
}

// TestTextsStayAsGiven checks that no byte of a text is replaced, and that a comma does not separate
// the files to attach.
func TestTextsStayAsGiven(t *testing.T) {
	t.Parallel()
	const latin, file = "caf\xe9, black", "a, b\xe9.md"
	parsed := func(args ...string) (c commands) {
		t.Helper()
		if _, err := newParser(&c).Parse(args); err != nil {
			t.Fatalf("parley %q: %v", args, err)
		}
		return c
	}

	files := []string{file, "c.md"}
	chat := parsed("chat", "--attach", file, "--attach=c.md", "--session", latin, latin).Chat
	if !slices.Equal(chat.Attach, files) || chat.Session != latin || !slices.Equal(chat.Words, []string{latin}) {
		t.Errorf("chat: %+v", chat)
	}
	trigger := parsed("trigger", "--attach", file, "--attach=c.md", "-i", "drink="+latin, "--input=a=b=c", "agent", latin).Trigger
	if !slices.Equal(trigger.Attach, files) || !maps.Equal(trigger.Input, map[string]string{"drink": latin, "a": "b=c"}) {
		t.Errorf("trigger: %+v", trigger)
	}
}

// TestVersionIsTheInterfaces compares the release with info.version in openapi.yaml, and with the
// version of the Go SDK.
func TestVersionIsTheInterfaces(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../../../ingress/internal/openapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(contract)
	if found == nil || string(found[1]) != cli.Release {
		t.Fatalf("cli.Release = %s, but openapi.yaml has version %s", cli.Release, found)
	}
	if parley.Version != cli.Release {
		t.Errorf("cli.Release = %s, but the Go SDK has version %s", cli.Release, parley.Version)
	}
}
