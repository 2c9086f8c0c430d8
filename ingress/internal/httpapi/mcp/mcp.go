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
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/rundb"
)

const maxTools = 200 // agents that are listed as tools: clients show models all of them

// Deps is what the handler of MCP needs.
type Deps struct {
	*httpx.Limiter
	*dispatch.Submitter
	httpx.SessionChecks
	AgentsDB *agentdb.Store
	RunsDB   *rundb.Store
}

// Handler answers /mcp.
type Handler struct {
	Deps
	tools *agenttools.Server // agents as tools
}

// New makes the handler of MCP.
func New(deps Deps) *Handler { return &Handler{deps, agenttools.New(openapi.Version())} }

// Routes is the one route of the protocol.
func (h *Handler) Routes() []httpx.Route {
	return []httpx.Route{{Method: "POST", Path: "/mcp", Need: auth.NeedUserKey, Role: domain.RoleMember, Handle: h.mcp}}
}

// mcp is POST /mcp: the organization's agents as the tools of an MCP server.
func (h *Handler) mcp(c *gin.Context) {
	var buf bytes.Buffer
	if err := httpx.ReadBody(c, &buf, httpx.MaxBody); err != nil {
		httpx.Fail(c, err)
		return
	}
	body := buf.Bytes()
	id, wrong := messageFor(body)
	if wrong != nil {
		writeFault(c, id, wrong)
		return
	}
	c.Request.Body, c.Request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(c.Request.Header["Accept"]) == 0 { // whoever accepts anything
		c.Request.Header.Set("Accept", "*/*")
	}
	c.Header("X-Accel-Buffering", "no")
	out := &mcpWriter{ResponseWriter: c.Writer}
	// It returns when the calls of the request have: these may use its context until then.
	defer out.leave()
	h.tools.Serve(out, c.Request, &callable{h: h, c: c, out: out})
	switch wrong, err := out.refusal(); {
	case wrong != nil:
		writeFault(c, id, wrong)
	case err != nil:
		httpx.Fail(c, err)
	}
}

// envelope is a message of JSON-RPC, as far as it is looked at before the SDK does: a request, or a notification. Answers have
// nobody to go to, for clients are asked nothing.
type envelope struct {
	Version string          `json:"jsonrpc" need:"yes"`
	ID      envelopeID      `json:"id"`
	Method  string          `json:"method" need:"yes"`
	Params  json.RawMessage `json:"params"`
}

type envelopeID struct {
	Text   string
	Number int64
}

// Either says that it is a text or a number.
func (envelopeID) Either() {}

// messageFor reads a message of the protocol: one, for each is counted against the caller's limit. Names may come once in it,
// where the SDK would take the last. It returns the message's id, and what is wrong with the message.
func messageFor(body []byte) (id json.RawMessage, wrong *fault) {
	found, message := &httpx.Problems{}, envelope{}
	httpx.DecodeStrict(bytes.Clone(body), &message, found) // which may change it
	wrong = faultIn(&message, found)
	return idFor(body, found), wrong
}

// callable are the agents that the caller of a request may call. Its methods are called by other goroutines than the
// request's, which waits for them.
type callable struct {
	h   *Handler
	c   *gin.Context
	out *mcpWriter
}

// coded is an error as callers may see it; the log has all of it.
func (t *callable) coded(err error) error {
	httpx.StateFor(t.c).Err = err
	return httpx.Coded(t.c, err)
}

// List gives the newest agents of the organization that people may chat with.
func (t *callable) List(context.Context) ([]agenttools.Agent, error) {
	//nolint:contextcheck // the request's ends with its client, the SDK's does not
	known, err := t.h.AgentsDB.CallableAgents(t.c.Request.Context(), httpx.Caller(t.c).OrganizationID, domain.CallerUser, maxTools)
	if err != nil {
		t.out.instead = t.coded(err)
		return nil, t.out.instead
	}
	agents := make([]agenttools.Agent, len(known))
	for i, agent := range known {
		agents[i] = agenttools.Agent{ID: agent.ID, Name: agent.Name, Description: agent.Description}
	}
	return agents, nil
}

// toolArguments are what a tool is called with.
type toolArguments struct {
	Message   string                 `json:"message" need:"yes"`
	SessionID httpx.Optional[string] `json:"sessionId"`
}

// Run runs an agent, and waits for the run's end for as long as the client does. The run goes on without it.
func (t *callable) Run(_ context.Context, call agenttools.Call, progress func(string)) (*domain.Run, error) {
	s, err := t.submission(call)
	if err != nil {
		return nil, t.coded(err)
	}
	run, err := t.run(s, progress) //nolint:contextcheck // as above
	if err == nil {
		err = t.out.count(t.c, run)
	}
	if err != nil {
		return nil, t.coded(err)
	}
	return run, nil
}

func (t *callable) submission(call agenttools.Call) (*dispatch.Submission, error) {
	found, said := &httpx.Problems{}, toolArguments{}
	if call.Arguments == nil {
		call.Arguments = json.RawMessage("{}")
	}
	if !httpx.DecodeStrict(call.Arguments, &said, found) || found.Has(httpx.BodyPath) {
		return nil, found.Err()
	}
	httpx.CheckMessage(found, "message", said.Message)
	who := httpx.Caller(t.c)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointMCP, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), AgentID: call.AgentID,
		SessionID: said.SessionID.Value, Message: said.Message, TriggerType: domain.TriggerChat, Traceparent: httpx.Traceparent(t.c),
	}
	if said.SessionID.Set {
		httpx.CheckSession(found, "sessionId", s.SessionID)
	} else {
		s.Retention = dispatch.UnnamedRetention
	}
	key := httpx.Optional[string]{Set: call.Key != nil}
	if key.Set {
		key.Value = *call.Key
	}
	s.Key = httpx.IdempotencyKey(found, t.c, key)
	s.KeyScope = s.Target() + "\x00" + s.Principal
	return s, found.Err()
}

func (t *callable) run(s *dispatch.Submission, progress func(string)) (*domain.Run, error) {
	seats, err := t.h.TakeSeats(s.Caller)
	if err != nil {
		return nil, err
	}
	defer t.h.LeaveSeats(seats)
	reader, run, err := t.h.Follow(t.c.Request.Context(), s, dispatch.Consumed{}, httpx.Reserving(t.c)) // the message was counted
	if run != nil {
		httpx.About(t.c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	if err != nil {
		return nil, noRoom(err, run)
	}
	defer reader.Close()
	httpx.EndReservation(t.c) // the log has been read; the answer is counted once the run has ended
	progress("The run " + run.Run.ID + " was accepted.")
	return t.await(reader, run, progress)
}

// await follows a run to its end, or until it waits for a person.
func (t *callable) await(reader *stream.Reader, run *rundb.StoredRun, progress func(string)) (*domain.Run, error) {
	may := t.h.Permit(t.c)
	for ping := time.Now().Add(httpx.PingEvery); ; {
		events, err := reader.Next(t.c.Request.Context(), may.Earlier(ping))
		if err != nil {
			return nil, cutOff(err, run.Run.ID)
		}
		if now := time.Now(); !may.Holds(now) {
			return nil, apierr.New(apierr.Unauthenticated, "the API key is no longer valid; the run %s continues", run.Run.ID)
		} else if !now.Before(ping) {
			t.out.ping()
			progress("The run continues.")
			ping = now.Add(httpx.PingEvery)
		}
		for _, e := range events {
			done, err := t.take(e, run, progress)
			if done != nil || err != nil {
				return done, err
			}
		}
	}
}

// take tells of an event, and gives the run when that is its end or it waits for a person.
func (t *callable) take(e domain.Event, run *rundb.StoredRun, progress func(string)) (*domain.Run, error) {
	var told struct {
		ToolCall *domain.ToolCall `json:"toolCall"`
		Run      *domain.Run      `json:"run"`
	}
	if err := json.Unmarshal(e.Data, &told); err != nil {
		return nil, fmt.Errorf("reading event: %w", err)
	}
	switch e.Type {
	case domain.EventRunStarted:
		progress("The agent has started.")
	case domain.EventRunRestarted:
		progress("The agent has restarted.")
	case domain.EventToolStarted, domain.EventToolCompleted:
		if told.ToolCall != nil {
			progress(told.ToolCall.Name + ": " + told.ToolCall.Status)
		}
	case domain.EventRequiresAction: // it may have been decided since
		now, err := t.h.RunsDB.ShortRun(t.c.Request.Context(), run.OrganizationID, "", run.Run.ID)
		if err == nil && now.Run.Status == domain.RunRequiresAction {
			return &now.Run, nil
		}
		return nil, err
	}
	return told.Run, nil
}

// noRoom names the run in the refusal of an answer that there is no room for. run is nil if it is not known.
func noRoom(err error, run *rundb.StoredRun) error {
	code := apierr.CodeFor(err)
	if run == nil || code != apierr.RateLimited && code != apierr.Overloaded {
		return err
	}
	return apierr.Wrap(code, err,
		"the run %s has a large answer, and too many large answers are being read simultaneously; GET /api/runs?id=%[1]s returns it", run.Run.ID)
}

// cutOff returns the error of a call whose reader ended before its run did.
func cutOff(err error, runID string) error {
	switch {
	case apierr.CodeFor(err) == apierr.Erased:
		return err
	case apierr.CodeFor(err) == apierr.NotFound:
		return apierr.Wrap(apierr.NotFound, err, "the run %s has expired", runID)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the log of run %s has no final event", runID)
	}
	stopping := apierr.Wrap(apierr.Unavailable, err,
		"the service is stopping; the run %s continues, and GET /api/runs?id=%[1]s returns its answer", runID)
	stopping.RetryAfter = time.Second
	return stopping
}

// mcpWriter is a response as the SDK writes it. Its refusals, which are plain text, are kept back, to be answered as ours are,
// and so is what it says when nothing could be looked up. A call's goroutine writes pings between what the SDK writes.
type mcpWriter struct {
	gin.ResponseWriter

	mu      sync.Mutex
	refused int
	why     bytes.Buffer
	instead error // is answered
	large   *httpx.LargeAnswer
}

// count counts a run's answer if it is large. An answer holds the message and the citations twice: as text and as structured content.
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

func (w *mcpWriter) leave() {
	if w.large != nil {
		w.large.Leave()
	}
}

// WriteHeader keeps a refusal back.
func (w *mcpWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status >= http.StatusBadRequest && w.Header().Get("Content-Type") == "text/plain; charset=utf-8" {
		w.refused = status
	}
	if w.refused == 0 && w.instead == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write gives the client its time to take what is written.
func (w *mcpWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(b)
}

func (w *mcpWriter) write(b []byte) (int, error) {
	if w.refused != 0 || w.instead != nil {
		return w.why.Write(b)
	}
	if w.large != nil && len(b) > httpx.AnswerPiece {
		if err := w.large.Write(w.ResponseWriter, b); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	// The server's own limit is for answers that come at once; tests' recorders have none.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(httpx.WriteTime))
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written.
func (w *mcpWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == 0 && w.instead == nil {
		w.ResponseWriter.Flush()
	}
}

// ping writes a comment, so that proxies and clients know that the stream lives.
func (w *mcpWriter) ping() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Header().Get("Content-Type") == httpx.ContentEvents {
		if _, err := w.write([]byte(": ping\n\n")); err == nil {
			w.ResponseWriter.Flush()
		}
	}
}

// refusal returns the error to answer with if the SDK refused the message, or if an error is to be answered instead: a fault of the
// protocol or an error of this API. It returns neither if the SDK has answered.
func (w *mcpWriter) refusal() (*fault, error) {
	if w.refused == 0 && w.instead == nil {
		return nil, nil //nolint:nilnil // nothing was refused
	}
	why := string(bytes.TrimSpace(w.why.Bytes()))
	w.Header().Del("Content-Type")
	if w.instead != nil {
		return nil, w.instead
	}
	switch w.refused {
	case http.StatusBadRequest:
		if code, about := agenttools.CodeFor(why); about {
			return &fault{code, why}, nil
		}
		return nil, apierr.New(apierr.InvalidRequest, "%s", why)
	case http.StatusUnsupportedMediaType:
		return nil, apierr.New(apierr.UnsupportedMediaType, "%s", why)
	default:
		return nil, fmt.Errorf("answering a message of MCP: %d %s", w.refused, why)
	}
}
