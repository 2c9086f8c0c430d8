package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/agenttools"
	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/readers"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/rundb"
)

const (
	maxTools   = 200       // maximum number of agents that are listed as tools, because clients pass all tools to a model
	maxSchemas = 512 << 10 // maximum total bytes of the output schemas of the listed agents
)

// Deps contains the dependencies of the Handler. They are set once and never change.
type Deps struct {
	*httpx.Limiter
	*dispatch.Submitter
	httpx.SessionChecks
	// Agents, as tools.
	AgentsDB *agentdb.Store
	// States of runs.
	RunsDB *rundb.Store
	// Watches the clients that wait for runs, and cancels runs of cancelled calls.
	Readers *readers.Watch
}

// Handler handles POST /mcp. There is one per process. It is safe for concurrent use.
type Handler struct {
	Deps
	tools *agenttools.Server // presents agents as tools
}

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps, agenttools.New(openapi.Version())} }

// Routes returns the only route of the protocol. Only API keys are accepted, because assistants
// have no login session.
func (h *Handler) Routes() []httpx.Route {
	return []httpx.Route{{Method: "POST", Path: "/mcp", Need: auth.NeedUserKey, Role: domain.RoleMember, Handle: h.mcp}}
}

// mcp handles POST /mcp, the endpoint of an MCP server whose tools are the organization's agents.
// mcp returns when the response is complete. For a tool call, this is when the run has finished.
func (h *Handler) mcp(c *gin.Context) {
	var buf bytes.Buffer
	if err := httpx.ReadBody(c, &buf, httpx.MaxBody); err != nil {
		httpx.Fail(c, err)
		return
	}

	body := buf.Bytes()
	id, message, wrong := messageFor(body)
	if wrong != nil {
		writeFault(c, id, wrong)
		return
	}
	h.prepare(c, message)

	// Restore the body for the SDK, because the checks above have consumed it.
	c.Request.Body, c.Request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(c.Request.Header["Accept"]) == 0 { // a client without an Accept header accepts any type, but the SDK rejects its request
		c.Request.Header.Set("Accept", "*/*")
	}

	c.Header("X-Accel-Buffering", "no")
	out := &mcpWriter{ResponseWriter: c.Writer}
	// Release the room for a large response after the response was sent. Serve returns after the
	// tool calls of the request have ended, so the calls may use the request's context.
	defer out.leave()
	h.tools.Serve(out, c.Request, &agentTools{h: h, c: c, out: out, call: callName(c, id)})
	switch wrong, err := out.refusal(); {
	case wrong != nil:
		writeFault(c, id, wrong)
	case err != nil:
		httpx.Fail(c, err)
	}
}

// envelope contains the parts of a JSON-RPC message that are checked before the SDK handles it. The
// message is a request or a notification. It is never a response, because the server sends no
// requests. An unknown field is a problem.
type envelope struct {
	Version string          `json:"jsonrpc" required:"true"`
	ID      envelopeID      `json:"id"`
	Method  string          `json:"method" required:"true"`
	Params  json.RawMessage `json:"params"`
}

// envelopeID is the id of a message: a string or a number. For a request, one of the fields is set.
// For a notification, neither is set.
type envelopeID struct {
	Text   string
	Number int64
}

// Either makes envelopeID a union for the decoder, which sets only one of its fields.
func (envelopeID) Either() {}

// messageFor decodes and checks a message. It returns the message's id, and an error if the message
// is invalid. A body must contain a single message, because each message counts against the rate
// limit. Names must be unique, because the SDK silently uses the last of several equal names. body
// is not changed.
func messageFor(body []byte) (id json.RawMessage, message envelope, wrong *fault) {
	found := &httpx.Problems{}
	httpx.DecodeStrict(bytes.Clone(body), &message, found) // DecodeStrict may modify its input
	wrong = findFault(&message, found)
	return idFor(body, found), message, wrong
}

// agentTools provides the agents that the request's caller may call. Its methods run in goroutines
// of the SDK while the request's goroutine waits. There is one for each request. Errors are
// recorded for the request's log line.
type agentTools struct {
	h    *Handler
	c    *gin.Context
	out  *mcpWriter
	call string // name of the request for a later cancellation; see callName; empty: the request cannot be cancelled
}

// coded returns the error for the client; see httpx.Coded. It records err for the request's log
// line. The SDK passes the error's text to the client.
func (t *agentTools) coded(err error) error {
	httpx.StateFor(t.c).Err = err
	return httpx.Coded(t.c, err)
}

// List returns the newest agents of the organization that people may chat with. If the look-up
// fails, the whole response is replaced by the error.
func (t *agentTools) List(context.Context) ([]agenttools.Agent, error) {
	//nolint:contextcheck // the request's context ends when the client disconnects, the SDK's does not
	known, err := t.h.AgentsDB.CallableAgents(t.c.Request.Context(), httpx.Caller(t.c).OrganizationID, domain.CallerUser, maxTools)
	if err != nil {
		t.out.failure = t.coded(err)
		return nil, t.out.failure
	}

	agents := make([]agenttools.Agent, len(known))
	for i, agent := range known {
		agents[i] = agenttools.Agent{ID: agent.ID, Name: agent.Name, Description: agent.Description}
	}
	return agents, nil
}

// Schemas returns the output schemas of the agents that List returns. Agents without a schema have
// no entry. Schemas beyond maxSchemas bytes in total are left out.
func (t *agentTools) Schemas(context.Context) (map[string]json.RawMessage, error) {
	ctx, org := t.c.Request.Context(), httpx.Caller(t.c).OrganizationID
	schemas, err := t.h.AgentsDB.OutputSchemas(ctx, org, domain.CallerUser, maxTools, maxSchemas) //nolint:contextcheck // as in List
	if err != nil {
		t.out.failure = t.coded(err)
		return nil, t.out.failure
	}
	return schemas, nil
}

// toolArguments is the input of a tool call. The schema of the tool, in package agenttools,
// describes the same fields.
type toolArguments struct {
	// Message to the agent.
	Message string `json:"message" required:"true"`
	// Session of the run; missing: a new one.
	SessionID httpx.Optional[string] `json:"sessionId"`
	// Files for the agent.
	Attachments httpx.Optional[[]runbody.AttachmentBody] `json:"attachments"`
}

// Run starts a run of an agent and waits until it finishes or waits for a person. progress reports
// a text to the client while the run continues. The error is meant for the client. Even after an
// error, the run may exist.
func (t *agentTools) Run(_ context.Context, call agenttools.Call, progress func(string)) (*domain.Run, error) {
	s, err := t.submission(call)
	if err != nil {
		return nil, t.coded(err)
	}

	run, err := t.run(s, progress) //nolint:contextcheck // as in List
	if err == nil {
		err = t.out.count(t.c, run)
	}
	if err != nil {
		return nil, t.coded(err)
	}
	return run, nil
}

// submission returns the submission of a tool call. Problems of the arguments are returned as one
// error. An idempotency key in the call makes the submission idempotent.
func (t *agentTools) submission(call agenttools.Call) (*dispatch.Submission, error) {
	found, arguments := &httpx.Problems{}, toolArguments{}
	if call.Arguments == nil {
		call.Arguments = json.RawMessage("{}")
	}

	if !httpx.DecodeStrict(call.Arguments, &arguments, found) || found.Has(httpx.BodyPath) {
		return nil, found.Err()
	}

	options := runbody.OptionsBody{Attachments: arguments.Attachments}
	options.CheckMessage(found, "message", arguments.Message)
	who := httpx.Caller(t.c)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointMCP, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), AgentID: call.AgentID,
		SessionID: arguments.SessionID.Value, Message: arguments.Message, TriggerType: domain.TriggerChat, Traceparent: httpx.Traceparent(t.c),
		Attachments: options.AskedAttachments(found),
	}
	if arguments.SessionID.Set {
		runbody.CheckSession(found, "sessionId", s.SessionID)
	} else {
		s.Retention = dispatch.UnnamedRetention
	}

	key := httpx.Optional[string]{Set: call.Key != nil}
	if key.Set {
		key.Value = *call.Key
	}

	s.Key = runbody.IdempotencyKey(found, t.c, key)
	s.KeyScope = s.Target() + "\x00" + s.Principal
	return s, found.Err()
}

// run submits a tool call's run and waits for it. If the client disconnects, a run without an
// idempotency key is cancelled after a grace period. The call takes the slots of a stream, and
// reserves room for a large response.
func (t *agentTools) run(s *dispatch.Submission, progress func(string)) (*domain.Run, error) {
	seats, err := t.h.TakeStreams(s.Caller)
	if err != nil {
		return nil, err
	}
	defer t.h.LeaveStreams(seats)

	reader, run, err := t.h.Follow(t.c.Request.Context(), s, dispatch.Consumed{}, httpx.ReserveFunc(t.c)) // the message was already charged
	if run != nil {
		httpx.SetLogIDs(t.c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	if err != nil {
		return nil, capacityError(err, run)
	}

	// The watch cancels the run if no client reads it.
	reading := t.h.Readers.Begin(run, readers.Rules{Keep: s.Key != "", Grace: readers.Grace, Call: t.call})
	defer reading.End(t.c.Request.Context()) // runs after the reader is closed
	defer reader.Close()

	httpx.EndReservation(t.c) // the events before the wait have been read; the response is counted when the run has finished
	progress("The run " + run.Run.ID + " was accepted.")
	return t.await(reading.Follow(reader), run, progress)
}

// await follows a run until it finishes or waits for a person. It reports progress at least every
// httpx.PingEvery, so that clients do not give up. It ends with an error when the API key becomes
// invalid or the service stops.
func (t *agentTools) await(reader readers.Events, run *rundb.StoredRun, progress func(string)) (*domain.Run, error) {
	permit := t.h.SessionCheck(t.c)
	for ping := time.Now().Add(httpx.PingEvery); ; {
		events, err := reader.Next(t.c.Request.Context(), permit.Earlier(ping))
		if err != nil {
			return nil, streamError(err, run.Run.ID)
		}

		if now := time.Now(); !permit.Holds(now) {
			return nil, apierr.New(apierr.Unauthenticated, "the API key is no longer valid; the run %s continues", run.Run.ID)
		} else if !now.Before(ping) {
			t.out.ping()
			progress("The run continues.")
			ping = now.Add(httpx.PingEvery)
		}

		// Report the events in order; the last one may contain the run.
		for _, e := range events {
			done, err := t.take(e, run, progress)
			if done != nil || err != nil {
				return done, err
			}
		}
	}
}

// take reports an event as progress. It returns the run if the run has finished with this event or
// waits for a person; otherwise it returns nil. Text of the answer is not reported, because clients
// expect the result as a whole.
func (t *agentTools) take(e domain.Event, run *rundb.StoredRun, progress func(string)) (*domain.Run, error) {
	var data struct {
		ToolCall *domain.ToolCall `json:"toolCall"`
		Run      *domain.Run      `json:"run"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return nil, fmt.Errorf("reading event: %w", err)
	}

	switch e.Type {
	case domain.EventRunStarted:
		progress("The agent has started.")
	case domain.EventRunRestarted:
		progress("The agent has restarted.")
	case domain.EventToolStarted, domain.EventToolCompleted:
		if data.ToolCall != nil {
			progress(data.ToolCall.Name + ": " + data.ToolCall.Status)
		}
	case domain.EventRequiresAction: // by now, a person may have decided
		now, err := t.h.RunsDB.ShortRun(t.c.Request.Context(), run.OrganizationID, "", run.Run.ID)
		if err == nil && now.Run.Status == domain.RunRequiresAction {
			return &now.Run, nil
		}
		return nil, err
	}

	return data.Run, nil
}

// capacityError adds the run's id to an error that reports missing capacity for the response. With
// the id, a client can read the answer by another request. Other errors are returned unchanged. run
// may be nil.
func capacityError(err error, run *rundb.StoredRun) error {
	code := apierr.CodeFor(err)
	if run == nil || code != apierr.RateLimited && code != apierr.Overloaded {
		return err
	}
	return apierr.Wrap(code, err,
		"the run %s has a large answer, and too many large answers are being read simultaneously; GET /api/runs?id=%[1]s returns it", run.Run.ID)
}

// streamError returns the error of a tool call whose event stream ended with err before the run
// finished. The code of the error is erased for an erased run, and not_found for an expired run. An
// event log that ends early is an internal error. Any other error means that the service is
// stopping.
func streamError(err error, runID string) error {
	switch {
	case apierr.CodeFor(err) == apierr.Erased:
		return err
	case apierr.CodeFor(err) == apierr.NotFound:
		return apierr.Wrap(apierr.NotFound, err, "the run %s has expired", runID)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the event log of run %s has no final event", runID)
	}

	stopping := apierr.Wrap(apierr.Unavailable, err,
		"the service is stopping; the run %s continues, and GET /api/runs?id=%[1]s returns its answer", runID)
	stopping.RetryAfter = time.Second
	return stopping
}

// mcpWriter wraps the response that the SDK writes. It holds back the SDK's errors in plain text,
// and any response after a failed lookup. The handler can then respond with an error in the API's
// format instead. The methods may be called concurrently: the SDK writes the response, and another
// goroutine writes pings. There is one for each request.
type mcpWriter struct {
	gin.ResponseWriter

	mu sync.Mutex
	// Status of a rejection by the SDK; 0: none.
	refused int
	// Text of a rejection, or of the response that is held back.
	refusedBody bytes.Buffer
	failure     error // error to respond with
	// Room for a large response; nil: none was needed.
	large *httpx.LargeAnswer
}

// If the response with a run is large, count counts it as a large response. The response contains
// the message and the citations twice: as text, and as structured content. The error is that of
// httpx.CountAnswer, with the id of the run.
func (w *mcpWriter) count(c *gin.Context, run *domain.Run) error {
	bytes := 0
	if run.Message != nil {
		bytes = len(*run.Message)
	}

	for i := range run.Citations {
		bytes += len(run.Citations[i].Title) + len(run.Citations[i].URL) + len(run.Citations[i].CitedText)
	}

	large, err := httpx.CountAnswer(c, 2*bytes)
	if err != nil {
		return apierr.Wrap(apierr.CodeFor(err), err,
			"the run %s has finished, but too many large answers are being read simultaneously; GET /api/runs?id=%[1]s returns it", run.ID)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.large = large
	return nil
}

// leave stops counting the response. It is called once, when the response has been sent.
func (w *mcpWriter) leave() {
	if w.large != nil {
		w.large.Leave()
	}
}

// WriteHeader sends the status, unless the response is held back. A rejection by the SDK is
// recognized by its media type.
func (w *mcpWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status >= http.StatusBadRequest && w.Header().Get("Content-Type") == "text/plain; charset=utf-8" {
		w.refused = status
	}
	if w.refused == 0 && w.failure == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write writes b to the client, unless the response is held back. It implements io.Writer and
// reports the whole length even if the response is held back.
func (w *mcpWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(b)
}

// write writes to the client, or to refusedBody if the response is held back. The caller must hold
// w.mu. Large bodies are written in pieces, so that a slow client is detected.
func (w *mcpWriter) write(b []byte) (int, error) {
	if w.refused != 0 || w.failure != nil {
		return w.refusedBody.Write(b)
	}
	if w.large != nil && len(b) > httpx.AnswerPiece {
		if err := w.large.Write(w.ResponseWriter, b); err != nil {
			return 0, err
		}
		return len(b), nil
	}

	// The server's write timeout is too short for a stream. Setting the deadline fails only for the
	// response recorders of tests.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(httpx.WriteTime))
	return w.ResponseWriter.Write(b)
}

// Flush sends the written data to the client. Data that is held back is not flushed.
func (w *mcpWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == 0 && w.failure == nil {
		w.ResponseWriter.Flush()
	}
}

// ping writes a comment to an event stream, so that proxies and clients do not close the quiet
// connection. It does nothing for a response that is not an event stream.
func (w *mcpWriter) ping() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Header().Get("Content-Type") == httpx.ContentEvents {
		if _, err := w.write([]byte(": ping\n\n")); err == nil {
			w.ResponseWriter.Flush()
		}
	}
}

// refusal returns the error with which the handler must respond: a JSON-RPC error if the SDK has
// rejected the message, or an API error if a lookup has failed. It returns nil and nil if the SDK
// has responded. It must be called after the SDK has returned.
func (w *mcpWriter) refusal() (*fault, error) {
	if w.refused == 0 && w.failure == nil {
		return nil, nil //nolint:nilnil // no error
	}

	refusedBody := string(bytes.TrimSpace(w.refusedBody.Bytes()))
	w.Header().Del("Content-Type")
	if w.failure != nil {
		return nil, w.failure
	}

	switch w.refused {
	case http.StatusBadRequest:
		if code, about := agenttools.CodeFor(refusedBody); about {
			return &fault{code, refusedBody}, nil
		}
		return nil, apierr.New(apierr.InvalidRequest, "%s", refusedBody)
	case http.StatusUnsupportedMediaType:
		return nil, apierr.New(apierr.UnsupportedMediaType, "%s", refusedBody)
	default:
		return nil, fmt.Errorf("responding to an MCP message: %d %s", w.refused, refusedBody)
	}
}
