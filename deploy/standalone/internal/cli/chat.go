package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
)

// demoTemplate is the template with which demo visitors chat. longestTyped is the maximum length of
// a typed or piped message in bytes.
const (
	demoTemplate = "tpl_support"
	longestTyped = 1 << 20
	longestName  = 120 // in characters; the service's limit
)

// Chat is the command that sends messages to an agent or a template.
type Chat struct {
	Service
	Output
	Session string   `name:"session" placeholder:"ID" help:"Session to continue; a new one by default."`
	Attach  []string `name:"attach" sep:"none" placeholder:"FILE" help:"Image or document to send with the first message, which may then be empty; repeatable."`
	Demo    bool     `name:"demo" help:"Chat with a template as a demo visitor, without a key."`
	Words   []string `arg:"" optional:"" name:"words" help:"ID or name of an agent or a template, and the message. Default: the demo agent. Without a message, standard input is read; on a terminal, each line is a message."`
}

// Help returns the description for the manual page of the command.
func (*Chat) Help() string {
	return `Streams the answer, then prints its sources. Without a message on a terminal, each typed line is a message, until Ctrl-D; otherwise standard input is the message.

A broken connection is resumed where it broke, and nothing is printed twice.
If the run is restarted and its new answer differs, the whole new answer is printed below.

With --json the finished run is printed instead, on one line.`
}

// Usage returns the synopsis for the manual page of the command.
func (*Chat) Usage() string { return "[OPTION]... [AGENT|TEMPLATE] [MESSAGE...]" }

// Examples returns the examples on the manual page of the command.
func (*Chat) Examples() string {
	return `parley chat What is 12 times 34?
parley chat --demo tpl_support "Hello, what can you do?"
echo "Summarise: all is well." | parley chat --json`
}

// Statuses returns the exit statuses that the manual page of the command lists.
func (*Chat) Statuses() []int {
	return []int{ExitDone, ExitFailure, ExitRunFailed, ExitRefused, ExitArguments, ExitInterrupted}
}

// Run sends the message in the arguments. Without a message, it sends each line that the user
// types, or standard input as one message. An interruption of the command does not cancel the run.
func (c *Chat) Run(ctx context.Context, con *console.Console) error {
	how := usual
	how.retries, how.demo = 5, c.Demo
	service, err := c.connect(how)
	if err != nil {
		return err
	}

	talk, message, err := c.conversation(ctx, service)
	if err != nil {
		return c.explain(err)
	}

	talk.con = con
	if talk.attached, err = upload(ctx, service, talk.session, c.Attach); err != nil {
		return c.explain(err)
	}
	if message == "" && con.Typed() {
		return c.explain(talk.loop(ctx))
	}
	if message == "" {
		if message, err = piped(con, len(c.Attach) > 0); err != nil {
			return err
		}
	}
	return c.explain(talk.say(ctx, message))
}

// conversation returns a session with the target that the arguments select, and the message in the
// arguments. Without a target it uses the demo agent. The first word is the target only if it is
// the ID or the name of an agent or template, so "parley chat Hello" works.
func (c *Chat) conversation(ctx context.Context, service *connection) (*talk, string, error) {
	target, words := "", c.Words
	if len(words) > 0 {
		found, err := c.findTarget(ctx, service, words[0])
		if err != nil {
			return nil, "", err
		}
		if found != "" {
			target, words = found, words[1:]
		}
	}
	if target == "" && c.Demo {
		target = demoTemplate
	}
	if target = cmp.Or(target, service.agent); target == "" {
		return nil, "", exit(ExitArguments, "the agent is missing: give the ID of an agent or a template (see parley agents list)")
	}

	query := url.Values{"action": {"chat"}, "id": {target}}
	if strings.HasPrefix(target, "tpl_") {
		query = url.Values{"action": {"chat"}, "template": {target}}
	}

	return &talk{
		service: service, query: query, target: target, output: c.Output, json: c.JSON, demo: c.Demo,
		session: cmp.Or(c.Session, "cli_"+strings.ToLower(rand.Text())),
	}, strings.Join(words, " "), nil
}

// findTarget returns the ID of the agent or template whose ID or complete name is word. It returns
// "" if there is none.
func (c *Chat) findTarget(ctx context.Context, service *connection, word string) (id string, err error) {
	switch {
	case strings.HasPrefix(word, "ag_"), strings.HasPrefix(word, "tpl_"):
		return word, nil
	case strings.TrimSpace(word) == "" || utf8.RuneCountInString(word) > longestName || console.Safe(word) != word || !utf8.ValidString(word):
		return "", nil // the word cannot be a name
	}
	if !c.Demo { // visitors of the demo have no agents
		if id, err = service.named(ctx, "/api/agents", url.Values{"q": {word}}, word); err != nil || id != "" {
			return id, err
		}
	}
	return service.named(ctx, "/api/agents/templates", url.Values{}, word)
}

// talk is a session with an agent, in which the user sends messages. Its messages are sent one
// after the other.
type talk struct {
	service *connection
	con     *console.Console
	// query selects the target in the service's API, and target is its ID.
	query      url.Values
	target     string
	session    string
	output     Output
	attached   []parley.NewAttachment // attachments for the next message
	json, demo bool
}

// loop sends each line that the user types as a message. It continues after a failed run. It
// returns nil at the end of the input, and an error if a signal has canceled ctx.
func (t *talk) loop(ctx context.Context) error {
	t.con.Notef("%s, session %s. Press Ctrl-D to end.", t.target, t.session)
	lines := make(chan string)
	go func() { // a read cannot be canceled, so the goroutine ends with the process
		defer close(lines)
		typed := bufio.NewScanner(t.con.In)
		typed.Buffer(nil, longestTyped)
		for typed.Scan() {
			lines <- typed.Text()
		}
	}()

	for {
		_, _ = io.WriteString(t.con.Err, "> ") // an error is ignored, because there is no other output for it
		select {
		case <-ctx.Done():
			t.con.Notef("")
			return &interruption{"To continue this session: " + t.resumeCommand(), context.Cause(ctx)}
		case line, more := <-lines:
			if !more {
				t.con.Notef("")
				return nil
			}
			if line = strings.TrimSpace(line); line == "" && len(t.attached) == 0 {
				continue
			}
			if err := t.say(ctx, line); err != nil {
				if ctx.Err() != nil {
					return err
				}
				t.con.Notef("parley: %v", err)
			}
		}
	}
}

// resumeCommand returns the command with which the user can continue the session.
func (t *talk) resumeCommand() string {
	command := "parley chat "
	if t.demo {
		command += "--demo "
	}
	return command + "--session " + t.session + " " + t.target
}

// say sends a message and prints the answer while it streams. The attachments of t are sent with
// the message. say returns the error of the run if the run did not complete.
func (t *talk) say(ctx context.Context, message string) error {
	request := parley.Request{
		Method: http.MethodPost, Path: "/api/agents", Query: t.query, Keyed: true,
		Header: map[string]string{"Idempotency-Key": "cli-" + rand.Text()},
	}
	body := map[string]any{"sessionId": t.session, "message": message, "stream": true}
	if err := t.output.addTo(body); err != nil {
		return err
	}
	if len(t.attached) > 0 {
		body["attachments"], t.attached = t.attached, nil
	}
	request.Body = body

	turn := &turn{talk: t, answer: answerWriter{out: t.con.Out}}
	turn.answer.onRestart = func() { t.con.Notef("(the run was restarted, and its answer differs)") }
	if t.json {
		turn.answer.out = io.Discard
	}

	for event, err := range t.service.Events(ctx, request) {
		if err == nil {
			err = turn.take(event)
		}
		if err != nil {
			return turn.broken(ctx, err)
		}
	}

	if turn.ended == nil {
		return turn.broken(ctx, errors.New("the stream ended without a final event"))
	}
	return turn.finish()
}

// turn is one message of a session and its answer. runID is "" until the service has responded. The
// field ended is nil until the run has finished, and then contains the finished run.
type turn struct {
	*talk
	answer answerWriter
	runID  string
	ended  json.RawMessage
}

// take handles one event from the stream of the run. It ignores events of unknown types.
func (t *turn) take(event parley.Event) error {
	var data struct {
		RunID    string                 `json:"runId"`
		Text     string                 `json:"text"`
		ToolCall *domain.ToolCall       `json:"toolCall"`
		Required *domain.RequiredAction `json:"requiredAction"`
		Run      json.RawMessage        `json:"run"`
	}
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return fmt.Errorf("reading event %s: %w", event.ID, err)
	}

	t.runID = cmp.Or(data.RunID, t.runID)
	switch {
	case event.Ends():
		t.ended = data.Run
	case event.Type == domain.EventMessageDelta:
		return t.answer.delta(data.Text)
	case event.Type == domain.EventRunRestarted:
		t.answer.restarted()
	case event.Type == domain.EventToolStarted && data.ToolCall != nil && t.con.Watched() && !t.json && t.answer.freshLine():
		t.con.Notef("  · %s %s", console.OneLine(data.ToolCall.Name), t.con.Cut(console.OneLine(string(data.ToolCall.Input))))
	case event.Type == domain.EventRequiresAction && data.Required != nil:
		t.con.Notef("%s", waitsFor(t.service.url, t.runID, data.Required))
	}
	return nil
}

// finish prints the result of the run when the stream has ended. The error describes a run that did
// not complete.
func (t *turn) finish() error {
	var run domain.Run
	if err := json.Unmarshal(t.ended, &run); err != nil {
		return fmt.Errorf("reading the run: %w", err)
	}
	if t.json {
		return errors.Join(t.con.JSON(t.ended), outcome(&run))
	}
	if run.Message != nil && run.Status == domain.RunCompleted {
		if err := t.answer.end(*run.Message); err != nil {
			return err
		}
	} else if !t.answer.freshLine() {
		if err := t.answer.print("\n"); err != nil {
			return err
		}
	}
	noteIncomplete(t.con, &run)
	return errors.Join(printSources(t.con, run.Citations), outcome(&run))
}

// broken returns the error of an interrupted stream. It adds the current state of the run, and the
// commands with which the user can look at the run or cancel it.
func (t *turn) broken(ctx context.Context, err error) error {
	if !t.json && !t.answer.freshLine() {
		_ = t.answer.print("\n") // the error of the stream is more important
	}

	after := ""
	switch {
	case t.runID != "" && t.demo:
		after = fmt.Sprintf("\nThe run %s continues", t.runID)
	case t.runID != "":
		after = fmt.Sprintf("\nThe run continues: parley runs show %s   (to cancel it: parley runs cancel %s)", t.runID, t.runID)
	case ctx.Err() != nil:
		after = "\nThe service had not responded yet. If it received the message, parley runs tail shows the run"
	}

	if ctx.Err() != nil {
		return &interruption{"interrupted" + after, context.Cause(ctx)}
	}

	what := "agent"
	if strings.HasPrefix(t.target, "tpl_") {
		what = "template"
	}
	return fmt.Errorf("%w%s", describeNotFound(err, what, t.target), after)
}

// waitsFor describes what a run waits for: a person's decision, with the URL at which to decide, or
// results of tool calls from the run's client.
func waitsFor(service, runID string, action *domain.RequiredAction) string {
	if action.Kind == domain.ActionClientTools {
		names := make([]string, len(action.Calls))
		for i, call := range action.Calls {
			names[i] = console.OneLine(call.Name)
		}
		return fmt.Sprintf("%s is waiting for its client to send the results of %s", runID, strings.Join(names, ", "))
	}
	what := "approval to call"
	if action.Kind == domain.ActionUnknownOutcome {
		what = "the outcome of its call to"
	}
	return fmt.Sprintf("%s is waiting for a person's decision: %s %s %s\nDecide at %s/dashboard/runs/%s",
		runID, what, console.OneLine(action.Name), console.OneLine(string(action.Input)), strings.TrimRight(parley.Bare(service), "/"), runID)
}

// printSources prints each source that an answer cites, once, in the order of the citations.
func printSources(con *console.Console, citations []domain.Citation) error {
	seen := map[int]bool{}
	for _, c := range citations {
		if seen[c.ID] {
			continue
		}
		if len(seen) == 0 {
			if err := con.Printf("\nSources:\n"); err != nil {
				return err
			}
		}
		seen[c.ID] = true
		where := c.URL
		if c.Page != nil {
			where = fmt.Sprintf("page %d", *c.Page)
		}
		line := strings.TrimSpace(fmt.Sprintf("[%d] %s  %s", c.ID, console.OneLine(c.Title), console.OneLine(where)))
		if err := con.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}
