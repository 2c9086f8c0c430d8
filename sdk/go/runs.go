package parley

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"
)

const (
	runsPath    = "/api/runs"
	longestWait = 55 // maximum seconds for which the service waits in one request
	shortWait   = 500 * time.Millisecond
)

// Runs reads runs, waits for them, cancels them, and sends the decisions that they require. Members
// use their own runs; admins use all runs of the organization.
type Runs struct{ group }

// RunQuery is a filter for runs. Empty fields select everything.
type RunQuery struct {
	Paging

	// The agent, session or automation of the runs, and the type of their trigger.
	AgentID, SessionID, AutomationID, TriggerType string

	// Current status.
	Status   RunStatus
	WaitsFor string    // "person": only runs that wait for a decision; "client": only runs that wait for results of tool calls
	From, To time.Time // range of the time of acceptance; To is not included
	Search   string    // only finished runs that contain these words
}

// RunDecision is a decision about a run's required action. The kind of the action determines which
// decisions are possible.
type RunDecision string

// These constants are the decisions: they approve or deny a call that needs approval, or they
// resolve a call whose outcome is unknown.
const (
	// Approve executes the call.
	Approve RunDecision = "approve"
	// Deny informs the model that the call is not executed.
	Deny RunDecision = "deny"
	// Happened states that the call was executed, so it is not repeated.
	Happened RunDecision = "happened"
	// Resend executes the call again.
	Resend RunDecision = "resend"
	// Abandon ends the run with an error.
	Abandon RunDecision = "abandon"
)

// Get reads a run's current state. If the run does not exist or the caller may not read it, the
// error is an *APIError with the status 404.
func (r Runs) Get(ctx context.Context, id string) (*Run, error) {
	return one[Run](ctx, r.group, runsPath, id)
}

// List lists runs in short form, newest first. Get returns a complete run. No request is made
// before the first page is read.
func (r Runs) List(query RunQuery) Pages[RunSummary] {
	filter := params("agentId", query.AgentID, "sessionId", query.SessionID, "automationId", query.AutomationID,
		"triggerType", query.TriggerType, "status", string(query.Status), "waitsFor", query.WaitsFor, "q", query.Search)
	for name, at := range map[string]time.Time{"from": query.From, "to": query.To} {
		if !at.IsZero() {
			set(filter, name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return list[RunSummary](r.group, runsPath, filter, query.Paging)
}

// Timeline returns the parts of a run's time: queue, attempts, model turns, tool calls and waits.
// An erased run has none.
func (r Runs) Timeline(ctx context.Context, id string) (*Timeline, error) {
	return act[Timeline](ctx, r.group, Request{Method: http.MethodGet, Path: runsPath, Query: params("timeline", "1")}, id, "")
}

// Wait waits until a run has finished or requires an action, and returns it. If ctx ends first, the
// error is a *WaitError, and the run continues. Wait polls the service with requests that wait for
// up to 55 seconds.
func (r Runs) Wait(ctx context.Context, id string) (*Run, error) {
	if id == "" {
		return nil, errNoID
	}
	return r.await(ctx, pollRequest(id), id)
}

// Stream returns a run's events, from the first event, or after the event with the id lastEventID.
// The stream ends with the run. No request is made before the Stream is read.
func (r Runs) Stream(id, lastEventID string) *Stream {
	request := Request{Method: http.MethodGet, Path: runsPath, Query: params("id", id, "stream", "1")}
	if lastEventID != "" {
		request.Header = map[string]string{"Last-Event-ID": lastEventID}
	}
	return &Stream{client: r.client, request: request, runID: id}
}

// Cancel cancels a run. A finished run is returned unchanged.
func (r Runs) Cancel(ctx context.Context, id string) (*Run, error) {
	return act[Run](ctx, r.group, Request{Method: http.MethodPost, Path: runsPath, Keyed: true}, id, "cancel")
}

// Act decides about the action that a run requires. The run then continues. The error is an
// *APIError if the run does not wait for a decision about the call with the id toolCallID.
// Repeating the same decision is safe.
func (r Runs) Act(ctx context.Context, id string, decision RunDecision, toolCallID string) (*Run, error) {
	request := Request{Method: http.MethodPost, Path: runsPath, Query: params("toolCallId", toolCallID), Keyed: true}
	return act[Run](ctx, r.group, request, id, string(decision))
}

// SubmitToolResults sends the results of all tool calls that the client must make for a run. The
// calls are listed in the run's required action of the kind client_tools. The run then continues.
// Wait returns the run's next state. The client is the program that sent the message with Tools.
func (r Runs) SubmitToolResults(ctx context.Context, id string, results []ToolResult) (*Run, error) {
	request := Request{Method: http.MethodPost, Path: runsPath, Body: map[string]any{"results": results}, Keyed: true}
	return act[Run](ctx, r.group, request, id, "tool-results")
}

// pollRequest returns the request that waits for a run.
func pollRequest(id string) Request {
	return Request{Method: http.MethodGet, Path: runsPath, Query: params("id", id, "wait", number(longestWait))}
}

// submit starts a run. If the argument wait is set, submit returns the run when it has finished or
// requires an action. The request must have an idempotency key.
func (r Runs) submit(ctx context.Context, request Request, wait bool) (*Run, error) {
	preferring := func(preference string) Request {
		preferred := request
		preferred.Header = withHeader(request.Header, "Prefer", preference)
		return preferred
	}

	// If the caller ends the wait, the error must contain the run's id. Therefore the first request
	// returns without waiting.
	run, err := call[Run](ctx, r.group, preferring("respond-async"))
	if err != nil || !wait || run.waitOver() {
		return run, err
	}

	poll := pollRequest(run.ID)

	// A visitor may not read runs, but a repeated message returns its run.
	if r.client.isVisitor() {
		poll = preferring(fmt.Sprintf("wait=%d", longestWait))
	}
	return r.await(ctx, poll, run.ID)
}

// await repeats the request poll until the run has finished or requires an action. An error of ctx
// becomes a *WaitError with the run's id.
func (r Runs) await(ctx context.Context, poll Request, id string) (*Run, error) {
	for {
		asked := time.Now()
		run, err := call[Run](ctx, r.group, poll)
		if err == nil && run.waitOver() {
			return run, nil
		}

		if err == nil && time.Since(asked) < shortWait { // a service that is shutting down responds immediately
			err = r.client.options.pause(ctx, shortWait)
		}

		if ctx.Err() != nil {
			return nil, &WaitError{RunID: id, Err: context.Cause(ctx)}
		}
		if err != nil {
			return nil, err
		}
	}
}

// Automations runs agents for schedulers and services, and lists their automations. Run needs an
// API key.
type Automations struct{ group }

const automationsPath = "/api/automations"

// AutomationParams contains the message and the data with which a system starts a run. Target and
// Message are required.
type AutomationParams struct {
	Target         string         // ID of the agent, whose AllowedCallers must contain "system"
	Message        string         // text of the message; it becomes Input["message"]
	Input          map[string]any // further data; may be nil
	Output         any            // the JSON Schema that the answer must match; default: the agent's own
	AutomationID   string         // caller's name for the automation, by which runs can be filtered
	TriggerType    string         // default: api
	SessionID      string         // default: a separate session
	TTLOverride    int            // seconds for which the result is kept; at least a day, which is the default
	Settings       *ModelSettings // take precedence over the agent's settings
	IdempotencyKey string         // default: a new key
	NoWait         bool           // whether Run returns as soon as the run is accepted

	Tools       []ClientTool    // tools that this program executes itself; see Runs.SubmitToolResults
	Attachments []NewAttachment // images and documents of the message
}

// Run starts a run of an agent, waits until the run has finished or requires an action, and returns
// it. Calls with the same IdempotencyKey and payload, from any process, return the same run. If ctx
// ends first, the error is a *WaitError, and the run continues. A failed run is not an error of
// Run: use Run.Completed.
func (a Automations) Run(ctx context.Context, trigger AutomationParams) (*Run, error) {
	// Copy the map, which belongs to the caller.
	input := map[string]any{}
	maps.Copy(input, trigger.Input)
	if trigger.Message != "" {
		input["message"] = trigger.Message
	}

	body := map[string]any{"target": trigger.Target, "input": input}
	addOptions(body, trigger.Output, trigger.Settings, trigger.Tools, trigger.Attachments)
	if trigger.TTLOverride != 0 {
		body["ttlOverride"] = trigger.TTLOverride
	}
	if trigger.SessionID != "" {
		body["sessionId"] = trigger.SessionID
	}

	header := map[string]string{"Idempotency-Key": keyOr(trigger.IdempotencyKey)}
	for name, value := range map[string]string{"X-Automation-Id": trigger.AutomationID, "X-Trigger-Type": trigger.TriggerType} {
		if value != "" {
			header[name] = value
		}
	}
	request := Request{Method: http.MethodPost, Path: "/api/internal/run-automation", Header: header, Body: body, Keyed: true}
	return a.client.Runs.submit(ctx, request, !trigger.NoWait)
}

// Get reads an automation with its newest run. The argument id is the name of the automation.
func (a Automations) Get(ctx context.Context, id string) (*Automation, error) {
	return one[Automation](ctx, a.group, automationsPath, id)
}

// List lists automations, sorted by name. An automation is listed from its first run on.
func (a Automations) List(paging Paging) Pages[Automation] {
	return list[Automation](a.group, automationsPath, url.Values{}, paging)
}
