package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/lifecycle"
)

func TestRepeatedAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second []string // pieces of the text in the first and the second attempt
		whole, want   string
		restarts      int
	}{
		"one attempt":                  {[]string{"a", "b"}, nil, "ab", "ab\n", 0},
		"no pieces":                    {nil, nil, "whole", "whole\n", 0},
		"the same, and more":           {[]string{"ab"}, []string{"a", "b", "c"}, "abc", "abc\n", 0},
		"the same in different pieces": {[]string{"a", "b", "c"}, []string{"abcd", "e"}, "abcde", "abcde\n", 0},
		"otherwise":                    {[]string{"ab"}, []string{"a", "x"}, "ax", "ab\nax\n", 1},
		"a shorter text":               {[]string{"abc"}, []string{"a"}, "a", "abc\na\n", 1},
		"only the end":                 {[]string{"ab"}, nil, "abc", "abc\n", 0},
		"control characters":           {[]string{"a\x1b[2Jb", "\u009b"}, nil, "a\x1b[2Jb\u009b", "a[2Jb\n", 0},
	} {
		var out strings.Builder
		restarts := 0
		printed := answerWriter{out: &out, onRestart: func() { restarts++ }}
		for _, pieces := range [][]string{c.first, c.second} {
			if pieces != nil {
				printed.restarted()
			}
			for _, piece := range pieces {
				if err := printed.delta(piece); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := printed.end(c.whole); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want || restarts != c.restarts {
			t.Errorf("%s: printed %q, want %q; %d restarts", name, out.String(), c.want, restarts)
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	signalled, cancel := context.WithCancelCause(t.Context())
	cancel(&lifecycle.SignalError{Signal: syscall.SIGINT})
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(&lifecycle.SignalError{Signal: syscall.SIGTERM})
	refused := &parley.APIError{Status: 429}
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // a row of the table
		err  error
		want int
	}{
		"done":                   {t.Context(), nil, 0},
		"completed after Ctrl-C": {signalled, nil, 0},
		"failure":                {t.Context(), errors.New("x"), 1},
		"away":                   {t.Context(), &parley.ConnectionError{Err: errors.New("x")}, 1},
		"broken":                 {t.Context(), &parley.APIError{Status: 503}, 1},
		"refused":                {t.Context(), fmt.Errorf("x: %w", refused), 3},
		"run failed":             {t.Context(), errors.Join(nil, outcome(&domain.Run{Status: domain.RunTimedOut})), 2},
		"late":                   {t.Context(), exit(ExitNotEnded, "x"), 4},
		"Ctrl-C":                 {signalled, refused, 130},
		"not UTF-8":              {t.Context(), fmt.Errorf("x: %w", &parley.TextError{Field: "message"}), 80},
		"wrong setting":          {t.Context(), fmt.Errorf("x: %w", config.Invalid(errors.New("PORT"))), 80},
		"SIGTERM":                {ended, errors.New("x"), 143},
	} {
		if got := Code(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}

	if outcome(&domain.Run{Status: domain.RunCompleted}) != nil {
		t.Error("the outcome of a completed run is an error")
	}
}

// TestComplaintsAreSafe checks that error messages omit the control characters of a service's
// response. Such characters could control the terminal.
func TestComplaintsAreSafe(t *testing.T) {
	t.Parallel()
	const code, says = "x\x1b]0;t\n\a\u202e", "a\x1b[2J\u2066b\nc\u009b"
	run := &domain.Run{ID: "run_1\x1b[1m", Status: domain.RunFailed, Error: &domain.RunError{Code: code, Message: says}}
	for name, err := range map[string]error{
		"a run":     outcome(run),
		"a refusal": &parley.APIError{Status: 400, Code: code, Detail: says, RequestID: code},
		"who left":  &interruption{"interrupted" + says, errors.New("x")},
	} {
		var out strings.Builder
		k, failed := kong.New(&struct{}{}, kong.Writers(&out, &out))
		if failed != nil {
			t.Fatal(failed)
		}
		Complain(k, err)
		if got := out.String(); console.Safe(got) != got || !strings.Contains(got, "a[2Jb") {
			t.Errorf("%s: %q", name, got)
		}
	}

	var out strings.Builder
	if err := printRun(&console.Console{Out: &out, Err: &out}, "", run); err != nil || console.Safe(out.String()) != out.String() ||
		!strings.Contains(out.String(), "error     x]0;t : a[2Jb c\n") {
		t.Errorf("runs show printed %q, %v", out.String(), err)
	}
}

func TestTheStoredKeyGoesToItsOwnServiceOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := `{"baseUrl":"http://127.0.0.1:8080","apiKey":"ak_stored","agentId":"ag_demo"}`
	if err := os.WriteFile(filepath.Join(dir, "credentials.json"), []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		service Service
		demo    bool
		wrong   string
		agent   string
	}{
		"credentials of parley up": {Service{DataDir: dir}, false, "", "ag_demo"},
		"the same URL":             {Service{DataDir: dir, URL: "http://127.0.0.1:8080/"}, false, "", "ag_demo"},
		"another URL":              {Service{DataDir: dir, URL: "http://127.0.0.1:8081"}, false, "no API key", ""},
		"another URL with a key":   {Service{DataDir: dir, URL: "http://127.0.0.1:8081", Key: "ak_x"}, false, "", ""},
		"demo at another URL":      {Service{DataDir: dir, URL: "http://127.0.0.1:8081"}, true, "", ""},
		"nothing":                  {Service{DataDir: t.TempDir()}, false, "parley up", ""},
		"invalid URL":              {Service{DataDir: dir, URL: "127.0.0.1:8080", Key: "k"}, false, "URL must be like", ""},
	} {
		how := usual
		how.demo = c.demo
		got, err := c.service.connect(how)
		switch {
		case (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%s: %v", name, err)
		case err == nil && got.agent != c.agent:
			t.Errorf("%s: agent %q", name, got.agent)
		}
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"36h": "2030-01-03T00:00:00Z", "30d": "2030-01-31T12:00:00Z", "2031-05-06T07:08:09+02:00": "2031-05-06T05:08:09Z", "tomorrow": "", "2031-05-06": "",
	} {
		if got, err := instant(text, now); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestMaskedAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://a.example/v1":                        "https://a.example/v1",
		"https://u:p@a.example/v1?x=1&api_key=2":      "https://u:***@a.example/v1?x=1&api_key=***",
		"nats://secret@a:4222":                        "nats://***@a:4222",
		"postgres:///parley?host=/run/x&password=p":   "postgres:///parley?host=/run/x&password=***",
		"host=db user=u password=hunter2":             "host=db user=u password=***",
		"host=db user=u password='hunter 2' dbname=x": "host=db user=u password=*** dbname=x",
		"u:hunter2@db/x":                              "***",
		"postgres://u:hunt\x7fer2@db/x":               "***",
	} {
		if got := maskAddress(address); got != want {
			t.Errorf("shown(%q) = %q, want %q", address, got, want)
		}
	}
}

// TestWrongArgumentsOfRequests checks arguments that the parser accepts. The exit status must be that
// of wrong arguments.
func TestWrongArgumentsOfRequests(t *testing.T) {
	t.Parallel()
	check := func(err error, says string) {
		t.Helper()
		if err == nil || Code(t.Context(), err) != ExitArguments || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v with the status %d, want %q", err, Code(t.Context(), err), says)
		}
	}

	for _, address := range []string{"127.0.0.1:8080", "localhost:8080", "http://"} {
		_, err := (&Service{URL: address, DataDir: t.TempDir()}).connect(usual)
		check(err, "the service's URL must be like http://127.0.0.1:8080")
	}
	_, err := (&Service{URL: "http://127.0.0.1:8080", DataDir: t.TempDir()}).connect(usual)
	check(err, "no API key for http://127.0.0.1:8080")

	schema := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(schema, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(Output{Schema: schema}.addTo(map[string]any{}), "is not JSON")
}
