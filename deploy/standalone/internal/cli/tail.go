package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/domain"
)

const (
	maxReading = 1000 // maximum number of runs that one reading of the list examines, newest first
	answerEnd  = 60   // maximum number of characters of an answer in the list
)

// RunsTail is the command that lists runs and follows their changes.
type RunsTail struct {
	Service
	Agent  string `name:"agent" placeholder:"AGENT" help:"Only runs of this agent (ID or name)."`
	Status string `name:"status" enum:",queued,running,requires_action,completed,failed,cancelled,timed_out" default:"" placeholder:"STATUS" help:"Only runs with this status: queued, running, requires_action, completed, failed, cancelled or timed_out."`
	Lines  int    `name:"lines" short:"n" default:"10" placeholder:"N" help:"Number of newest runs to start with; default: ${default}."`
	Follow bool   `name:"follow" short:"f" help:"Follow: print each new run, and each change of status, until Ctrl-C."`
}

// Help returns the description for the manual page of the command.
func (*RunsTail) Help() string {
	return `Prints one line per run: acceptance time, ID, status, duration, agent, trigger, and the beginning of its answer or error. The newest run is last. On a narrow terminal a run takes two lines. parley runs list is an alias.

With --follow the command reads new runs when the service reports a change (GET /api/events). With --json each line is a run summary as in GET /api/runs. If an older run changes, its line is the whole run. parley runs show ID --json prints the whole run.`
}

// Examples returns the examples on the manual page of the command.
func (*RunsTail) Examples() string {
	return `parley runs tail -n 3
parley runs tail --follow --status failed --json`
}

// Run lists the newest runs. With --follow, it then prints each new run, and each run whose status
// changes, until a signal arrives or the connection is lost for good.
func (r *RunsTail) Run(ctx context.Context, con *console.Console) error {
	how := usual
	how.retries = 10
	service, err := r.connect(how)
	if err != nil {
		return err
	}

	t := &tail{RunsTail: r, con: con, service: service, seen: map[string]domain.RunStatus{}, query: url.Values{}}
	if r.Agent != "" {
		id, err := service.agentID(ctx, r.Agent)
		if err != nil {
			return r.explain(err)
		}
		t.query.Set("agentId", id)
	}
	if !r.Follow {
		return r.explain(t.once(ctx))
	}
	return r.explain(t.follow(ctx))
}

// tail is one execution of RunsTail. It is used by one goroutine.
type tail struct {
	*RunsTail
	con     *console.Console
	service *connection
	// query contains the filters that the service applies.
	query url.Values
	seen  map[string]domain.RunStatus // status of each run when it was last read
	// begun is true after the first reading, which prints only the newest runs.
	begun bool
}

// once prints the newest runs, the newest last.
func (t *tail) once(ctx context.Context) error {
	if t.Status != "" {
		t.query.Set("status", t.Status)
	}

	list, err := t.service.all(ctx, "/api/runs", t.query, max(t.Lines, 0))
	if err != nil {
		return err
	}

	for _, raw := range slices.Backward(list) {
		if err := t.print(raw); err != nil {
			return err
		}
	}
	return nil
}

// follow reads the list of runs after the event "ready" and after every event about runs. The event
// "ready" reports that no later change will be missed.
func (t *tail) follow(ctx context.Context) error {
	for event, err := range t.service.Events(ctx, parley.Request{Method: "GET", Path: "/api/events"}) {
		if err != nil {
			return err
		}
		if event.Type != "ready" && event.Type != "runs" {
			continue
		}
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// read reads the list of runs and prints those that have changed since the last reading, oldest
// first.
func (t *tail) read(ctx context.Context) error {
	news, err := t.news(ctx)
	if err != nil {
		return err
	}
	if !t.begun {
		t.begun = true
		news = news[:min(max(t.Lines, 0), len(news))]
	}

	for _, raw := range slices.Backward(news) {
		if err := t.print(raw); err != nil {
			return err
		}
	}
	return nil
}

// news returns the runs whose status differs from the one at the last reading, newest first. It
// reads the first page of the list, and further pages while all of their runs are new. It also
// reads every run that had not finished at the last reading.
func (t *tail) news(ctx context.Context) ([]json.RawMessage, error) {
	open := map[string]bool{}
	for id, status := range t.seen {
		open[id] = !status.Terminal()
	}

	var news []json.RawMessage
	for page, err := range t.pages(ctx) {
		if err != nil {
			return nil, err
		}
		known := false
		for _, raw := range page {
			run, err := headFor(raw)
			if err != nil {
				return nil, err
			}
			_, seen := t.seen[run.ID]
			known = known || seen
			delete(open, run.ID)
			news = t.note(news, run, raw)
		}
		if known || !t.begun {
			break
		}
	}

	t.forget(open)
	for id, is := range open {
		if !is {
			continue
		}
		answer, err := t.service.Get(ctx, "/api/runs", url.Values{"id": {id}}, nil)
		if isGone(err) {
			delete(t.seen, id)
			continue
		}
		if err != nil {
			return nil, err
		}
		run, err := headFor(answer.Body)
		if err != nil {
			return nil, err
		}
		news = t.note(news, run, answer.Body)
	}
	return news, nil
}

// forget limits the size of t.seen. If t.seen is large, forget removes the finished runs that are
// in unread, the set of known runs that the last reading did not return. The newest runs are not in
// unread. They stay, because the next reading returns them again.
func (t *tail) forget(unread map[string]bool) {
	if len(t.seen) < 10*maxReading {
		return
	}
	for id, open := range unread {
		if !open {
			delete(t.seen, id)
		}
	}
}

// note records the status of a run. It appends the run to news if the run matches the filter and
// its status has changed.
func (t *tail) note(news []json.RawMessage, run head, raw json.RawMessage) []json.RawMessage {
	before, seen := t.seen[run.ID]
	t.seen[run.ID] = run.Status
	if seen && before == run.Status || t.Status != "" && string(run.Status) != t.Status {
		return news
	}
	return append(news, raw)
}

// pages iterates over the newest runs, one page at a time, up to about maxReading runs. It ends
// with the first error.
func (t *tail) pages(ctx context.Context) func(func([]json.RawMessage, error) bool) {
	return func(yield func([]json.RawMessage, error) bool) {
		query := url.Values{"limit": {pageSize}}
		if agent := t.query.Get("agentId"); agent != "" {
			query.Set("agentId", agent)
		}
		for looked := 0; looked < maxReading; {
			var page struct {
				Data       []json.RawMessage `json:"data"`
				NextCursor *string           `json:"nextCursor"`
			}
			_, err := t.service.Get(ctx, "/api/runs", query, &page)
			if !yield(page.Data, err) || err != nil || page.NextCursor == nil {
				return
			}
			looked += len(page.Data)
			query.Set("cursor", *page.NextCursor)
		}
	}
}

// head contains the fields that tail needs from every run.
type head struct {
	ID     string           `json:"id"`
	Status domain.RunStatus `json:"status"`
}

// headFor decodes the fields that tail needs.
func headFor(raw []byte) (h head, err error) {
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("reading a run: %w", err)
	}
	return h, nil
}

// print prints the row of one run.
func (t *tail) print(raw json.RawMessage) error {
	if t.JSON {
		return t.con.JSON(raw)
	}
	var run struct {
		domain.Run

		Citations json.RawMessage `json:"citations"` // number of citations in lists; the citations themselves in run objects
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return fmt.Errorf("reading a run: %w", err)
	}
	return t.con.Printf("%s", runLine(&run.Run, t.con.Width()))
}

// runColumns contains the widths of the columns in characters. Longer values are truncated, which
// happens only to triggers and answers.
var runColumns = []int{len(stampLayout), 30, 15, 8, 29, 20, answerEnd}

// runLine formats a run as a row. room is the width of the terminal, or 0 for an unlimited width.
func runLine(run *domain.Run, room int) string {
	says := ""
	switch {
	case run.Error != nil:
		says = run.Error.Code + ": " + run.Error.Message
	case run.Message != nil:
		says = *run.Message
	}
	cells := []string{
		formatTime(&run.CreatedAt, ""), run.ID, string(run.Status), fmt.Sprintf("%8s", formatDuration(&run.CreatedAt, run.FinishedAt)),
		target(run), trigger(run), console.OneLine(says),
	}
	return foldRow(cells, runColumns, room)
}
