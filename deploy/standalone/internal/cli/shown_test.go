package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
	"parley/shared/lifecycle"
)

func TestFolded(t *testing.T) {
	t.Parallel()
	row := []string{"id", "a word too long", "the text"}
	for name, c := range map[string]struct {
		room int
		want string
	}{
		"no terminal": {0, "id    a word t…  the text\n"},
		"room":        {40, "id    a word t…  the text\n"},
		"just room":   {37, "id    a word t…  the text\n"},
		"narrow":      {36, "id    a word t…\n    the text\n"},
		"narrower":    {13, "id\n    a word t…\n    the text\n"},
		"too narrow":  {10, "id\n    a wor…\n    the t…\n"},
	} {
		if got := foldRow(row, []int{4, 9, 30}, c.room); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}

	if got := foldRow([]string{"id", "b", ""}, []int{4, 9, 30}, 13); got != "id\n    b\n" {
		t.Errorf("row with an empty column = %q", got)
	}
}

// TestRunsOnATerminal checks the table of runs on terminals of several widths. Its important
// columns must fit into 80 characters, and its rows must be aligned at every width.
func TestRunsOnATerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	began, ended := domain.Time{Time: at}, domain.Time{Time: at.Add(1500 * time.Millisecond)}
	const id, agent = "run_01m7yq6d4gehatajbks6zzn8ya", "ag_01m7yq6d4gehatajbks6zzn8ya"
	automation, answer, agentID := "night-watch-of-the-whole-house", "all is well", agent
	run := domain.Run{ID: id, Status: domain.RunRequiresAction, AgentID: &agentID, CreatedAt: began, FinishedAt: &ended, Message: &answer}
	run.Trigger.Type = "schedule"
	scheduled := run
	scheduled.Trigger.AutomationID = &automation
	for _, width := range []int{0, 80, 100, 140, 200} {
		plain, long := runLine(&run, width), runLine(&scheduled, width)
		for _, says := range []string{"2030-01-02T03:04:05Z", id, "requires_action", "1.5s", agent, "schedule night-watch", answer} {
			if says != "schedule night-watch" && !strings.Contains(plain, says) || !strings.Contains(strings.ReplaceAll(long, "…", "h"), says) {
				t.Errorf("output for %d columns does not contain %q:\n%s%s", width, says, plain, long)
			}
		}
		for _, says := range []string{agent, answer} {
			if column(plain, says) != column(long, says) {
				t.Errorf("output for %d columns is not aligned:\n%s%s", width, plain, long)
			}
		}
		for line := range strings.Lines(plain + long) {
			if width > 0 && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("line longer than %d characters: %s", width, line)
			}
		}
	}
}

// column returns the column at which the text says begins. The column is the number of preceding
// characters in the same line.
func column(text, says string) int {
	before, _, _ := strings.Cut(text, says)
	return utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])
}

func TestAwaited(t *testing.T) {
	t.Parallel()
	for status, want := range map[domain.RunStatus]string{
		domain.RunQueued: "waiting for run_x", domain.RunRunning: "waiting for run_x", domain.RunRequiresAction: "run_x requires an action",
	} {
		if got := progressText(&domain.Run{ID: "run_x", Status: status}); got != want {
			t.Errorf("%s: %q", status, got)
		}
	}
}

// TestLeaving checks the output after Ctrl-C. Leaving a stream is not an error.
func TestLeaving(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&lifecycle.SignalError{Signal: syscall.SIGINT})
	in, typing := io.Pipe()
	defer func() { _ = typing.Close() }() // ends the goroutine that reads the input

	var out bytes.Buffer
	chat := &talk{con: &console.Console{In: in, Out: &out, Err: &out}, session: "cli_x", target: "tpl_y", demo: true}
	gone := &parley.ConnectionError{URL: "http://a.example", Err: context.Canceled}
	service := &Service{}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"followed":  {service.explain(fmt.Errorf("%w: %w", context.Cause(ctx), gone)), ""},
		"at a chat": {service.explain(chat.loop(ctx)), "To continue this session: parley chat --demo --session cli_x tpl_y\n"},
		"an answer": {service.explain((&turn{talk: chat, runID: "run_x"}).broken(ctx, gone)), "interrupted\nThe run run_x continues\n"},
		"a wait":    {service.explain((&wait{sent: true, key: "k"}).broken(ctx, gone)), "interrupted\nNo response was received. It is safe to trigger again with --idempotency-key k\n"},
	} {
		var said bytes.Buffer
		k := kong.Must(&struct{}{}, kong.Name("parley"), kong.Writers(&said, &said))
		Complain(k, c.err)
		if said.String() != c.want || Code(ctx, c.err) != ExitInterrupted {
			t.Errorf("%s: message %q, exit status %d", name, said.String(), Code(ctx, c.err))
		}
	}

	if err := service.explain(errors.New("x")); err.Error() != "x" {
		t.Errorf("explaining another error: %v", err)
	}
}

func TestLasting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "1m30s": 90 * time.Second, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour,
		"-5s": -1, "-5": -1, "d": -1, "1.5d": -1, "12h1d": -1, "200000d": -1, "1d-48h": -1, "soon": -1, "": -1,
	} {
		var got span
		if err := got.UnmarshalText([]byte(text)); want >= 0 && (err != nil || time.Duration(got) != want) || want < 0 && err == nil {
			t.Errorf("%q = %v, error %v", text, time.Duration(got), err)
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "now"}}}
	if b := origin(info); b.Version != Release || b.Commit != "abc" || b.Time != "now" || !b.Modified || !strings.HasPrefix(b.Go, "go1.") {
		t.Errorf("%+v", b)
	}
	if b := origin(nil); b.Version != Release || b.Commit != "" {
		t.Errorf("built without: %+v", b)
	}
}
