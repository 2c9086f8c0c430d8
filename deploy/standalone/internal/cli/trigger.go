package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
	"parley/shared/lifecycle"
)

// longestPoll is the time for which the service may delay its response to a poll.
const longestPoll = 50 * time.Second

// Trigger is the command that runs an agent as a scheduler or a webhook would.
type Trigger struct {
	Service
	Output
	Target         string            `arg:"" name:"agent" help:"Agent (ID or name); it must allow system callers."`
	Words          []string          `arg:"" optional:"" name:"message" help:"The message; default: standard input."`
	IdempotencyKey string            `name:"idempotency-key" aliases:"key-id" placeholder:"KEY" help:"Identifies this run: triggering again with the same key does not run the agent again. Default: a generated key, which is printed."`
	Automation     string            `name:"automation" placeholder:"ID" help:"Your ID for the automation that the run belongs to."`
	Type           string            `name:"trigger-type" placeholder:"TYPE" help:"Kind of trigger, such as schedule; default: api."`
	Session        string            `name:"session" placeholder:"ID" help:"Session of the run; default: a new one."`
	Attach         []string          `name:"attach" sep:"none" placeholder:"FILE" help:"Image or document beside the message, which may then be empty; repeatable."`
	Input          map[string]string `name:"input" short:"i" placeholder:"K=V" help:"Additional value for the agent; repeatable."`
	TTL            int64             `name:"ttl" placeholder:"SECONDS" help:"How long to keep the result, if longer than the service's retention."`
	Wait           bool              `name:"wait" default:"true" negatable:"" help:"Wait until the run finishes; --no-wait prints the run's ID and exits."`
	Timeout        span              `name:"timeout" default:"20m" placeholder:"TIME" help:"Maximum wait, such as 90 (seconds), 5m or 1d; default: ${default}; 0: no limit."`
	Retries        int               `name:"retries" default:"8" placeholder:"N" help:"Retries after lost responses and temporary rejections; default: ${default}."`
}

// Help returns the description for the manual page of the command.
func (*Trigger) Help() string {
	return `Sends a run-automation request and waits for the run. Prints the answer to standard output, and the run's ID and idempotency key to standard error.

The request always has an idempotency key. With the key, the command can retry after broken connections and responses 429 and 503, and the agent still runs only once. To resume after an interruption, trigger again with the same key and message.`
}

// Examples returns the examples on the manual page of the command.
func (*Trigger) Examples() string {
	return `parley trigger "Demo agent" Say good night
parley trigger "Demo agent" --idempotency-key night-7 --automation nightly \
    --input city=Oslo "Say good night"
parley trigger "Demo agent" --no-wait Say good night`
}

// Statuses returns the exit statuses that the manual page of the command lists.
func (*Trigger) Statuses() []int {
	return []int{ExitDone, ExitFailure, ExitRunFailed, ExitRefused, ExitNotEnded, ExitArguments, ExitInterrupted}
}

// errLate is the cause with which the context is canceled when the time of --timeout has passed.
var errLate = errors.New("the run did not finish within --timeout")

// Run triggers the agent. Unless --no-wait is set, it waits for the result, for at most --timeout.
// The run continues if the command ends before the run.
func (t *Trigger) Run(ctx context.Context, con *console.Console) error {
	message, err := t.message(con)
	if err != nil {
		return err
	}

	progress := con.Progress(t.JSON, "triggering")
	defer progress.Done()

	how := retryLimits{retries: t.Retries, patience: time.Hour, waiting: func(cause error, pause time.Duration) {
		progress.Sayf("retrying in %s, after: %v", pause.Round(100*time.Millisecond), cause)
	}}

	service, err := t.connect(how)
	if err != nil {
		return err
	}
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(t.Timeout), errLate)
		defer cancel()
	}

	w := &wait{Trigger: t, service: service, con: con, progress: progress, key: cmp.Or(t.IdempotencyKey, "cli-"+rand.Text())}
	if err := w.trigger(ctx, message); err != nil {
		return t.explain(w.broken(ctx, err))
	}
	return nil
}

// message returns the message from the arguments or from standard input. It fails if both are
// missing, unless there are attachments.
func (t *Trigger) message(con *console.Console) (string, error) {
	if len(t.Words) > 0 {
		return strings.Join(t.Words, " "), nil
	}
	if con.Typed() && len(t.Attach) > 0 {
		return "", nil
	}
	if con.Typed() {
		return "", exit(ExitArguments, "the message is missing: give it as an argument or on standard input")
	}
	return piped(con, len(t.Attach) > 0)
}

// piped reads the message from standard input. If the message is empty and mayBeEmpty is false, it
// returns an error.
func piped(con *console.Console, mayBeEmpty bool) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(con.In, longestTyped+1))
	if err != nil {
		return "", fmt.Errorf("reading the message: %w", err)
	}
	if len(raw) > longestTyped {
		return "", exit(ExitArguments, "the message is longer than %d bytes", longestTyped)
	}
	message := strings.TrimSpace(string(raw))
	if message == "" && !mayBeEmpty {
		return "", exit(ExitArguments, "the message is missing: give it as an argument or on standard input")
	}
	return message, nil
}

// wait is one execution of Trigger that waits for a run and prints its result. key is its
// idempotency key.
type wait struct {
	*Trigger
	service  *connection
	con      *console.Console
	progress *console.Progress
	key      string
	// sent is true if the request may have reached the service. runID is "" until the service has
	// responded.
	sent     bool
	runID    string
	notified bool // whether the command has reported that the run waits for a person
}

// trigger sends the request. It then waits for the run's result, or prints the run at once if the
// user does not want to wait. With the same key, it may be called again after any error.
func (w *wait) trigger(ctx context.Context, message string) error {
	target, err := w.service.agentID(ctx, w.Target)
	if err != nil {
		return err
	}
	if !w.JSON {
		w.con.Notef("idempotency key %s", w.key)
	}

	attached, err := inlined(ctx, w.service, w.Session, w.Attach)
	if err != nil {
		return err
	}
	request, err := w.request(target, message, attached)
	if err != nil {
		return err
	}
	w.sent = true
	answer, err := w.service.Call(ctx, request)
	if err != nil {
		return describeNotFound(err, "agent", target)
	}

	var run domain.Run
	if err := answer.Into(&run); err != nil {
		return err
	}

	w.runID = run.ID
	if !w.JSON && w.Wait {
		replayed := ""
		if answer.Header.Get("Idempotency-Replayed") != "" {
			replayed = "   (this key already has a finished run)"
		}
		w.con.Notef("run %s%s", run.ID, replayed)
	}
	if !w.Wait {
		return w.printStarted(answer)
	}
	return w.poll(ctx, answer, &run)
}

// request returns the request to trigger the agent. The response comes before the run finishes, so
// that the command can print the run's ID.
func (w *wait) request(target, message string, attached []parley.NewAttachment) (parley.Request, error) {
	input := map[string]any{}
	for name, value := range w.Input {
		input[name] = value
	}

	input["message"] = message
	body := map[string]any{"target": target, "input": input, "idempotencyKey": w.key}
	if len(attached) > 0 {
		body["attachments"] = attached
	}
	if w.Session != "" {
		body["sessionId"] = w.Session
	}
	if w.TTL != 0 {
		body["ttlOverride"] = w.TTL
	}
	if err := w.Output.addTo(body); err != nil {
		return parley.Request{}, err
	}

	header := map[string]string{"Prefer": "respond-async"}
	if w.Automation != "" {
		header["X-Automation-Id"] = w.Automation
	}
	if w.Type != "" {
		header["X-Trigger-Type"] = w.Type
	}
	return parley.Request{Method: http.MethodPost, Path: "/api/internal/run-automation", Header: header, Body: body, Keyed: true}, nil
}

// printStarted prints a run without waiting for its result.
func (w *wait) printStarted(answer *parley.Response) error {
	if w.JSON {
		return w.con.JSON(json.RawMessage(answer.Body))
	}
	return w.con.Printf("%s\n", w.runID)
}

// poll requests the state of a run until it has finished, and prints the result. The arguments
// answer and run are the latest response and the run that it contains.
func (w *wait) poll(ctx context.Context, answer *parley.Response, run *domain.Run) (err error) {
	for !run.Status.Terminal() {
		w.progress.Sayf("%s", progressText(run))
		if run.RequiredAction != nil && !w.notified && !w.JSON {
			w.con.Notef("%s", waitsFor(w.service.url, run.ID, run.RequiredAction))
			w.notified = true
		}
		began := time.Now()
		query := url.Values{"id": {run.ID}, "wait": {strconv.Itoa(int(longestPoll.Seconds()))}}
		*run = domain.Run{}
		if answer, err = w.service.Get(ctx, "/api/runs", query, run); err != nil {
			return err
		}
		if !run.Status.Terminal() && time.Since(began) < time.Second { // while a run waits for a person, the service responds immediately
			if err := lifecycle.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	return w.show(answer, run)
}

// progressText describes the state of a run for the progress line. It does not distinguish queued
// and running, because the service does not respond to a poll when a run starts.
func progressText(run *domain.Run) string {
	if run.Status == domain.RunRequiresAction {
		return run.ID + " " + words(run.Status)
	}
	return "waiting for " + run.ID
}

// show prints the answer of a finished run. The error describes a run that did not complete.
func (w *wait) show(answer *parley.Response, run *domain.Run) error {
	if w.JSON {
		return errors.Join(w.con.JSON(json.RawMessage(answer.Body)), outcome(run))
	}
	if run.Message != nil {
		if err := w.con.Printf("%s\n", console.Safe(*run.Message)); err != nil {
			return err
		}
	}
	noteIncomplete(w.con, run)
	return errors.Join(printSources(w.con, run.Citations), outcome(run))
}

// broken returns an error for an interrupted wait. The error contains err and the current state of
// the run.
func (w *wait) broken(ctx context.Context, err error) error {
	if _, ended := errors.AsType[*coded](err); ended && ctx.Err() == nil {
		return err
	}

	after := ""
	switch {
	case w.runID != "":
		after = fmt.Sprintf("\nThe run continues: parley runs show %s   (to cancel it: parley runs cancel %s)", w.runID, w.runID)
	case w.sent && (ctx.Err() != nil || errors.Is(err, parley.ErrUnreachable)):
		after = fmt.Sprintf("\nNo response was received. It is safe to trigger again with --idempotency-key %s", w.key)
	}

	switch {
	case ctx.Err() == nil:
		return fmt.Errorf("%w%s", err, after)
	case errors.Is(context.Cause(ctx), errLate):
		return exit(ExitNotEnded, "%w%s", errLate, after)
	default:
		return &interruption{"interrupted" + after, context.Cause(ctx)}
	}
}
