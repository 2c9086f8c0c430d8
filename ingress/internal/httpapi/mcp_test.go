package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// directTransport calls the service's handler without a network. It checks each response against
// the OpenAPI document.
type directTransport struct {
	*runEnv
	headers []string
}

// RoundTrip sends a request and returns the complete response.
func (d directTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.RemoteAddr = "10.0.0.1:1"
	for _, h := range d.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	if req.Body == nil {
		req.Body = http.NoBody
	}
	return openapitest.Serve(d.t, d.handler, req).Result(), nil
}

// newWaitingRunEnv returns an environment in which requests wait for runs and events, unlike in
// other environments, in which the service is stopping.
func newWaitingRunEnv(tb testing.TB, limits ratelimit.Settings) *runEnv {
	tb.Helper()
	a := newRunEnvFor(tb, newTestEnv(tb, limits))
	d := dispatch.New(dispatch.Config{BacklogMax: 1_000_000}, a.store, a.bus, zerolog.Nop())
	hub := stream.New(a.store.Executions, a.bus.NewWatch(), zerolog.Nop())
	var wg sync.WaitGroup
	watch := newReaders(a.bus, d, hub)
	for _, run := range []func(context.Context) error{d.Run, hub.Run, watch.Run} {
		wg.Go(func() {
			if err := run(tb.Context()); err != nil {
				tb.Errorf("dispatcher or streams ended with %v", err)
			}
		})
	}
	tb.Cleanup(wg.Wait)
	a.rebuild(func(to *Deps) { to.Dispatch, to.Streams, to.Readers, to.WaitDefault = d, hub, watch, 55*time.Second })
	return a
}

// toolClient returns a client of the MCP SDK, connected with the given headers.
func (a *runEnv) toolClient(headers ...string) *mcp.ClientSession {
	a.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(a.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://parley.test/mcp", HTTPClient: &http.Client{Transport: directTransport{a, headers}},
		DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	must(a.t, err)
	a.t.Cleanup(func() { _ = session.Close() })
	return session
}

// startWorker calls the function do for each new run until the test ends.
func (a *runEnv) startWorker(do func(runID, message string)) {
	a.t.Helper()
	ctx, stop := context.WithCancel(a.t.Context())
	var wg sync.WaitGroup
	jobs, err := nats.Connect(a.nats)
	must(a.t, err)
	_, err = jobs.Subscribe(contract.SubjectsJobs, func(job *nats.Msg) {
		a.inboxes.Store(contract.RunIDFor(job.Subject), job.Header.Get(contract.HeaderReplyTo))
	})
	must(a.t, errors.Join(err, jobs.Flush()))
	a.t.Cleanup(func() { stop(); wg.Wait(); jobs.Close() })
	seen := map[string]bool{}
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for runID, message := range a.queued(ctx) {
				if !seen[runID] && ctx.Err() == nil {
					seen[runID] = true
					do(runID, message)
				}
			}
		}
	})
}

func (a *runEnv) queued(ctx context.Context) map[string]string {
	rows, err := a.sql.QueryContext(ctx, `SELECT r.id, r.input->>'message' FROM runs r JOIN open_runs o ON o.run_id = r.id WHERE o.status = 'queued'`)
	if err != nil {
		return nil // the test has ended
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var runID, message string
		if rows.Scan(&runID, &message) == nil {
			found[runID] = message
		}
	}
	if rows.Err() != nil {
		return nil
	}
	return found
}

// end finishes an accepted run like a worker. The function change sets the result of the run.
func (a *runEnv) end(runID string, change func(*domain.Run)) { a.endAfter(runID, "", change) }

// endAfter finishes an accepted run like a worker that has first published events. The argument
// events has the format of the stored log: each line contains one event. The events are numbered
// from 2 on. If startWorker was called before the run was accepted, endAfter also notifies the
// request that waits for the run.
func (a *runEnv) endAfter(runID, events string, change func(*domain.Run)) {
	claim := a.claim(a.t, runID)
	if claim.Run == nil {
		a.t.Errorf("run %s cannot be claimed: %+v", runID, claim)
		return
	}
	claimed, run := claim.Run, claim.Run.Run()
	run.Status = domain.RunCompleted
	change(&run)
	run.End(run.Status, run.Error, domain.At(claimed.Now), claimed.RetentionSecs)
	outcome, err := executiondb.NewOutcome(claimed.Held(), run)
	if outcome.EndN = 2; run.Message != nil {
		outcome.EndN = 3 // the last event follows the message
	}
	if n := strings.Count(events, "\n"); n > 0 {
		outcome.Events, outcome.EndN = executiondb.Chunk{FirstN: 2, LastN: n + 1, Events: events}, n+2
	}
	for range 5 { // a worker also repeats the statement, because a large result may exceed a timeout on a busy machine
		if err != nil {
			break
		}
		if _, err = a.store.Executions.Finish(a.t.Context(), []executiondb.Outcome{outcome}); err == nil {
			break
		}
		a.t.Logf("run %s is ended again: %v", runID, err)
	}
	if err != nil {
		a.t.Errorf("run %s cannot be ended: %v", runID, err)
	}
	if inbox, known := a.inboxes.Load(runID); known {
		inbox, _ := inbox.(string)
		a.bus.Done(runID, inbox, nil) // the message does not contain the rendered run, so the waiting request reads the run itself
	}
}

// parkForApproval parks an accepted run, which then waits for an approval, and stores the event.
func (a *runEnv) parkForApproval(runID string) {
	ctx, held := a.t.Context(), a.claimAccepted(runID)
	effect := domain.Effect{CallID: "call_1", Name: "publish", Input: json.RawMessage(`{"a":1}`), SideEffect: domain.SideEffectUnsafe, Key: "key " + runID}
	_, _, err := a.store.Executions.PrepareEffect(ctx, held, effect, true)
	must(a.t, err)
	action := domain.RequiredAction{Kind: domain.ActionApproval, ToolCallID: effect.CallID, Name: effect.Name, Input: effect.Input}
	data, err := json.Marshal(map[string]any{"requiredAction": action})
	must(a.t, err)
	_, err = a.store.Executions.Park(ctx, held, action, executiondb.Chunk{FirstN: 2, LastN: 2, Events: "run.requires_action " + string(data) + "\n"})
	must(a.t, err)
}

// answers returns a function that gives a run the result of a worker: an answer with citations.
func answers(text string, cited ...domain.Citation) func(*domain.Run) {
	return func(run *domain.Run) {
		run.Message, run.Output, run.Citations = &text, &domain.Output{Message: text}, cited
	}
}

func texts(result *mcp.CallToolResult) string {
	var said []string
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			said = append(said, text.Text)
		}
	}
	return strings.Join(said, "\n--\n")
}

// structured returns a field of the structured content of a tool result.
func structured(result *mcp.CallToolResult, name string) string {
	fields, _ := result.StructuredContent.(map[string]any)
	text, _ := fields[name].(string)
	return text
}

func toolFor(t *testing.T, session *mcp.ClientSession, title string) *mcp.Tool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	must(t, err)
	for _, tool := range list.Tools {
		if tool.Title == title {
			return tool
		}
	}
	t.Fatalf("no tool for %s", title)
	return nil
}

func call(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	must(t, err)
	return result
}

func TestToolsAreTheAgentsOfTheOrganization(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	home, other := a.newTestOrg("home"), a.newTestOrg("other")
	agentID := a.newAgent(home)
	a.newAgent(other)
	a.ok("POST", "/api/agents", `{"name":"Ünïcode & Co. (v2)","systemPrompt":"p","allowedCallers":["user"]}`, home.key)
	a.ok("POST", "/api/agents", `{"name":"Nightly","systemPrompt":"p","allowedCallers":["system"]}`, home.key)
	gone := a.newAgent(home)
	a.ok("DELETE", "/api/agents?id="+gone, "", home.key)
	for who, headers := range map[string][]string{
		"organization's key": {home.key}, "member's key": {home.memberKey, home.header}, "admin's key": {home.adminKey, home.header},
		"key as bearer": {"Authorization: Bearer " + strings.TrimPrefix(home.key, "X-Api-Key: ")},
	} {
		list, err := a.toolClient(headers...).ListTools(t.Context(), nil)
		must(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name[:len(tool.Name)-6]+" "+tool.Title+" "+tool.Description)
		}
		want := []string{"n_code_co_v2 Ünïcode & Co. (v2) Asks the agent Ünïcode & Co. (v2)", "home_agent home agent home"}
		if !slices.Equal(names, want) {
			t.Errorf("%s: tools %q, want %q", who, names, want)
		}
		if last := list.Tools[1].Name; last != "home_agent_"+agentID[len(agentID)-5:] {
			t.Errorf("%s: the tool of %s is %s", who, agentID, last)
		}
	}
}

func TestToolsAreCalledAndAnswer(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	page, document := 7, "doc_1"
	a.startWorker(func(runID, message string) {
		a.end(runID, answers("re: "+message+" [1]",
			domain.Citation{ID: 1, Type: "document", Title: "plan.pdf", CitedText: "x", EndIndex: 2, DocumentID: &document, Page: &page},
			domain.Citation{ID: 2, Type: "web", Title: "A page", URL: "https://example.com/"}, domain.Citation{ID: 1, Title: "plan.pdf"}))
	})
	session := a.toolClient(home.memberKey, home.header)
	tool := toolFor(t, session, "home agent")
	first := call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "one"}})
	if got := texts(first); got != "re: one [1]\n--\nSources:\n[1] plan.pdf, page 7\n[2] A page https://example.com/" || first.IsError {
		t.Errorf("answered %q", got)
	}
	runID, sessionID := structured(first, "runId"), structured(first, "sessionId")
	run := a.ok("GET", "/api/runs?id="+runID, "", home.memberKey, home.header)
	if run.text(t, "trigger.type") != "chat" || run.text(t, "agentId") != agentID || run.text(t, "sessionId") != sessionID || run.text(t, "expiresAt") == "" {
		t.Errorf("the run is %s", run.body)
	}
	second := call(t, session, &mcp.CallToolParams{
		Name: tool.Name, Arguments: map[string]any{"message": "two", "sessionId": sessionID}, Meta: mcp.Meta{"parley/idempotencyKey": "k1"},
	})
	again := call(t, session, &mcp.CallToolParams{
		Name: tool.Name, Arguments: map[string]any{"message": "two", "sessionId": sessionID}, Meta: mcp.Meta{"parley/idempotencyKey": "k1"},
	})
	if structured(second, "sessionId") != sessionID || structured(second, "runId") == runID || structured(again, "runId") != structured(second, "runId") ||
		texts(again) != texts(second) {
		t.Errorf("in the session came %v and %v", second.StructuredContent, again.StructuredContent)
	}
	other := call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "three"}, Meta: mcp.Meta{"parley/idempotencyKey": "k1"}})
	if !other.IsError || !strings.HasPrefix(texts(other), "idempotency_key_reused: ") {
		t.Errorf("another request under the key = %q", texts(other))
	}
	a.ok("PUT", "/api/agents?id="+agentID, `{"name":"Renamed"}`, home.key)
	if renamed := call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "four"}}); renamed.IsError {
		t.Errorf("a renamed agent's old tool = %q", texts(renamed))
	}
}

// A large answer counts as a large response over MCP, too. If there is no capacity, the error names
// the run.
func TestLargeAnswersOfToolsAreCounted(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	a.newAgent(home)
	long := strings.Repeat("x", 300<<10)
	a.startWorker(func(runID, _ string) { a.end(runID, answers(long)) })
	session := a.toolClient(home.key)
	tool := toolFor(t, session, "home agent")
	other, err := a.api.large.Enter(home.org, httpx.AnswersPerOrganization, http.NewResponseController(httptest.NewRecorder()))
	must(t, err)
	refused := call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "one"}})
	if got := texts(refused); !refused.IsError || !strings.HasPrefix(got, "rate_limited: the run run_") {
		t.Errorf("response without capacity = %.200q", got)
	}
	other.Leave()
	for range 2 { // the second call succeeds only if the first one has released its capacity
		if got := texts(call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "two"}})); got != long {
			t.Errorf("response with capacity has %d bytes: %.200q", len(got), got)
		}
	}
	if held := a.api.large.Bytes(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}

// Each caller has separate idempotency keys.
func TestToolsKeepIdempotencyKeysToTheirCallers(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	a.newAgent(home)
	a.startWorker(func(runID, message string) { a.end(runID, answers("re: "+message)) })
	second, _ := a.newKey(home, home.owner, domain.KeyScopeOrganization)
	ask := func(key string, how ...string) string {
		params := &mcp.CallToolParams{Arguments: map[string]any{"message": "one", "sessionId": "s"}}
		if len(how) == 0 {
			params.Meta = mcp.Meta{"parley/idempotencyKey": "k1"}
		}
		session := a.toolClient(append(how, key)...)
		params.Name = toolFor(t, session, "home agent").Name
		got := call(t, session, params)
		if got.IsError {
			t.Fatalf("%q", texts(got))
		}
		return structured(got, "runId")
	}
	first := ask(home.key)
	if again := ask(home.key); again != first {
		t.Errorf("the same key's same call gave the runs %s and %s", first, again)
	}
	if by := ask(home.key, "Idempotency-Key: k1"); by != first {
		t.Errorf("under the same key, named by the header, came the runs %s and %s", first, by)
	}
	if others := ask(second); others == first {
		t.Error("another API key's call was given the run of the first")
	}
}

func TestToolsSayWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	a.newAgent(home)
	a.startWorker(func(runID, message string) {
		if message == "park" {
			a.parkForApproval(runID)
			return
		}
		a.end(runID, func(run *domain.Run) {
			run.Status, run.Error = domain.RunStatus(message), &domain.RunError{Code: "model_error", Message: "The model is away."}
		})
	})
	session := a.toolClient(home.key)
	tool := toolFor(t, session, "home agent").Name
	for message, want := range map[string]string{
		"failed": "failed: The model is away.", "timed_out": "timed out: The model is away.", "cancelled": "was cancelled: The model is away.",
		"park": "waits for a person to decide about a call of the tool publish (approval).",
	} {
		got := call(t, session, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": message}})
		status := message
		if message == "park" {
			status = "requires_action"
		}
		if !got.IsError || !strings.Contains(texts(got), "The run "+structured(got, "runId")+" "+want) || structured(got, "status") != status {
			t.Errorf("%s: %v %q %v", message, got.IsError, texts(got), got.StructuredContent)
		}
	}
}

func TestToolsRefuseWhatTheyCannotTake(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	home, other := a.newTestOrg("home"), a.newTestOrg("other")
	a.newAgent(home)
	a.newAgent(other)
	foreign := toolFor(t, a.toolClient(other.key), "other agent").Name
	session := a.toolClient(home.key)
	tool := toolFor(t, session, "home agent").Name
	for name, tc := range map[string]struct {
		arguments any
		meta      mcp.Meta
		want      string
	}{
		"nothing":             {nil, nil, "invalid_request\nmessage: is required"},
		"several faults":      {map[string]any{"sessionId": "", "mesage": "x"}, nil, "invalid_request\nmesage: is unknown\nmessage: is required\nsessionId: must not be empty"},
		"wrong type":          {map[string]any{"message": 5}, nil, "invalid_request\nmessage: must be a string"},
		"hidden in a session": {map[string]any{"message": "x", "sessionId": "a\u200bb"}, nil, "invalid_request\nsessionId: " + domain.NameFault("\u200b")},
		"a blank session":     {map[string]any{"message": "x", "sessionId": " "}, nil, "invalid_request\nsessionId: must not be only white space"},
		"hidden in a key": {
			map[string]any{"message": "x"}, mcp.Meta{"parley/idempotencyKey": "a\u202eb"}, "invalid_request\nidempotencyKey: " + domain.NameFault("\u202e"),
		},
		"an empty key": {map[string]any{"message": "x"}, mcp.Meta{"parley/idempotencyKey": ""}, "invalid_request\nidempotencyKey: must not be empty"},
	} {
		got := call(t, session, &mcp.CallToolParams{Name: tool, Arguments: tc.arguments, Meta: tc.meta})
		if !got.IsError || texts(got) != tc.want || got.StructuredContent != nil {
			t.Errorf("%s: %q, want %q", name, texts(got), tc.want)
		}
	}
	for name, params := range map[string]*mcp.CallToolParams{
		"no tool":              {Name: "nobody_00000", Arguments: map[string]any{"message": "x"}},
		"another organization": {Name: foreign, Arguments: map[string]any{"message": "x"}},
		"a key of no text":     {Name: tool, Arguments: map[string]any{"message": "x"}, Meta: mcp.Meta{"parley/idempotencyKey": 5}},
	} {
		if got, err := session.CallTool(t.Context(), params); err == nil {
			t.Errorf("%s = %q", name, texts(got))
		}
	}
	var runs int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM runs`).Scan(&runs))
	if runs != 0 {
		t.Errorf("%d runs were made", runs)
	}
}

// A client receives progress notifications while its run is in progress. If the client disconnects,
// the run continues.
func TestToolCallsReportProgressAndOutliveTheirClients(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	a.newAgent(home)
	runs, over := make(chan string, 2), make(chan struct{})
	a.startWorker(func(runID, message string) {
		runs <- runID
		if message == "wait" {
			<-over
		}
		a.end(runID, answers("done"))
	})
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	heard := make(chan string, 16)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { heard <- req.Params.Message },
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: headerTransport{server.Client().Transport, home.key}}, MaxRetries: -1,
	}, nil)
	must(t, err)
	defer session.Close()
	tool := toolFor(t, session, "home agent").Name
	params := &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": "now"}}
	params.SetProgressToken("p1")
	if got := call(t, session, params); texts(got) != "done" {
		t.Errorf("answered %q", texts(got))
	}
	first := <-runs
	for _, want := range []string{"The run " + first + " was accepted.", "The agent has started."} {
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": "wait"}})
		ended <- err
	}()
	second := <-runs
	leave()
	if err := <-ended; err == nil {
		t.Error("a call that was given up has a result")
	}
	close(over)
	if got := a.ok("GET", "/api/runs?wait=10&id="+second, "", home.key); got.text(t, "status") != "completed" {
		t.Errorf("the run whose client disconnected: %s", got.body)
	}
}

// headerTransport sends requests with an additional header.
type headerTransport struct {
	http.RoundTripper

	header string
}

// RoundTrip sends the request with the additional header.
func (k headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	name, value, _ := strings.Cut(k.header, ": ")
	req = req.Clone(req.Context())
	req.Header.Set(name, value)
	return k.RoundTripper.RoundTrip(req)
}

func TestInvalidMessagesAreRejected(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	home := a.newTestOrg("home")
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	newer := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: prompts/get"}
	const inMessage = `{"jsonrpc":"2.0","id":1,"method":"burn/all","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		said    string // id and code of a JSON-RPC error, or problems of an API error
	}{
		"a batch":              {"[" + list + "," + list + "]", nil, 400, "null -32600"},
		"no JSON":              {"{", nil, 400, "null -32700"},
		"more than JSON":       {list + "x", nil, 400, "null -32700"},
		"a name twice":         {`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, nil, 400, "null -32600"},
		"no message":           {`{}`, nil, 400, "null -32600"},
		"another field":        {`{"jsonrpc":"2.0","id":"a","method":"ping","extra":1}`, nil, 400, `"a" -32600`},
		"an id of halves":      {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, "null -32600"},
		"no id to answer":      {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "null -32600"},
		"an answer":            {`{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, "1 -32600"},
		"another version":      {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, nil, 400, "1 -32600"},
		"a call without id":    {`{"jsonrpc":"2.0","method":"tools/list"}`, nil, 400, "null -32600"},
		"a call of nothing":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, nil, 400, "1 -32600"},
		"no such method":       {`{"jsonrpc":"2.0","id":1,"method":"tools/burn"}`, nil, 200, "1 -32601"},
		"an id of zero":        {`{"jsonrpc":"2.0","id":0,"method":"tools/burn"}`, nil, 200, "0 -32601"},
		"an empty id":          {`{"jsonrpc":"2.0","id":"","method":"tools/burn"}`, nil, 200, `"" -32601`},
		"no such notification": {`{"jsonrpc":"2.0","method":"notifications/burnt"}`, nil, 202, ""},
		"one kind only":        {list, []string{"Accept: text/event-stream"}, 400, "invalid_request"},
		"unknown version":      {list, []string{"Mcp-Protocol-Version: 1999-01-01"}, 400, "invalid_request"},
		"nothing":              {"", nil, 400, "invalid_request body:required"},
		"too much":             {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", httpx.MaxBody) + `"}`, nil, 413, "payload_too_large"},

		"newer, no such method":       {inMessage, []string{newer[0], "Mcp-Method: burn/all"}, 404, "1 -32601"},
		"newer, no such notification": {`{"jsonrpc":"2.0","method":"burnt"}`, []string{newer[0], "Mcp-Method: burnt"}, 202, ""},
		"newer, nothing said":         {list, []string{newer[0], "Mcp-Method: tools/list"}, 400, "1 -32602"},

		"a notification":    {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, nil, 202, ""},
		"unknown tool":      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody_00000"}}`, nil, 200, "1 -32602"},
		"good":              {list, nil, 200, ""},
		"good, of any kind": {list, []string{"Accept: */*"}, 200, ""},
	} {
		got := a.from("POST", "/mcp", tc.body, append(tc.headers, home.key)...)
		said := got.problems(t)
		if said == "" {
			said = protocolError(t, got)
		}
		if got.status != tc.status || said != tc.said {
			t.Errorf("%s: %d %q, want %d %q\n%s", name, got.status, said, tc.status, tc.said, got.body)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		a.from(method, "/mcp", "", home.key).want(t, method, 405, "method_not_allowed")
	}
	a.from("POST", "/mcp", "x", home.key, "Content-Type: text/plain").want(t, "text", 415, "unsupported_media_type")
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	got := a.from("POST", "/mcp", listen, home.key, newer[0], "Mcp-Method: subscriptions/listen")
	if got.status != 404 || !strings.Contains(string(got.body), "-32601") {
		t.Errorf("listening gave %d %s", got.status, got.body)
	}
}

// blames reports whether an error contains a problem, given as field and code. In a JSON-RPC error,
// the problem is part of the message.
func (a answer) blames(tb testing.TB, problem string) bool {
	tb.Helper()
	return strings.Contains(a.problems(tb)+" ", problem+" ") ||
		bytes.Contains(a.body, []byte(`"error":{"code":-32600`)) || bytes.Contains(a.body, []byte(`"error":{"code":-32700`))
}

// protocolError returns the id and code of a JSON-RPC error, or "" for any other response.
func protocolError(t *testing.T, a answer) string {
	t.Helper()
	var message struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body := a.body
	if _, event, isEvent := bytes.Cut(body, []byte("data: ")); isEvent {
		body = event
	}
	if len(body) == 0 {
		return ""
	}
	must(t, json.Unmarshal(body, &message))
	if message.Error == nil {
		return ""
	}
	if message.Version != "2.0" || message.Error.Message == "" {
		t.Errorf("an error is %s", body)
	}
	return fmt.Sprintf("%s %d", message.ID, message.Error.Code)
}

// Every request counts against the rate limit once, even if it starts a run.
func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	a.tallied(14)
	h := &testOrg{word: "home", owner: a.person("owner")}
	h.org, h.header = h.owner.org, "X-Organization-Id: "+h.owner.org
	key, _ := a.newKey(h, h.owner, domain.KeyScopeOrganization)
	agentID := a.newAgent(h)
	a.startWorker(func(runID, _ string) { a.end(runID, answers("done")) })
	tool := "x_" + agentID[len(agentID)-5:]
	for n := range 2 { // the first requests of this key
		got := a.from("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"message":"m"}}}`, key)
		if got.want(t, "a call", 200, ""); !strings.HasPrefix(got.header.Get(httpx.HeaderLimit), `"user";r=`+strconv.Itoa(13-n)+";") || !strings.Contains(string(got.body), "done") {
			t.Errorf("rate limit after %d calls = %s\n%s", n+1, got.header.Get(httpx.HeaderLimit), got.body)
		}
	}
	for range 12 {
		a.from("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, key).want(t, "a ping", 200, "")
	}
	got := a.from("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, key).want(t, "one too many", 429, "rate_limited")
	if got.header.Get("Retry-After") == "" {
		t.Error("the response has no Retry-After")
	}
}

func TestMessagesAreAnsweredForKeysOnly(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	home := a.newTestOrg("home")
	revoked, keyID := a.newKey(home, home.owner, domain.KeyScopeOrganization)
	a.ok("DELETE", "/api/keys?id="+keyID, "", home.owner.auth)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
	must(t, err)
	for name, tc := range map[string]struct {
		headers  []string
		status   int
		problems string
	}{
		"nothing":              {nil, 401, "api_key_required"},
		"a login session":      {[]string{home.owner.auth}, 401, "api_key_required"},
		"a cookie":             {[]string{home.owner.cookie}, 401, "api_key_required"},
		"a cookie from a page": {[]string{home.owner.cookie, "Origin: https://evil.example.com"}, 401, "api_key_required"},
		"the demo":             {[]string{"X-Tenant-Id: tenant_demo"}, 403, "demo_restricted"},
		"an unknown key":       {[]string{unknownKey()}, 401, "unauthenticated"},
		"a revoked key":        {[]string{revoked}, 401, "unauthenticated"},
		"two keys":             {[]string{home.key, home.key}, 400, "invalid_request x-api-key:duplicate"},
		"no organization":      {[]string{home.ownerKey}, 400, "organization_required"},
		"a foreign one":        {[]string{home.key, "X-Organization-Id: " + a.newTestOrg("other").org}, 403, "organization_mismatch"},
		"an application":       {[]string{home.key, "Origin: app://client"}, 200, ""},
	} {
		a.from("POST", "/mcp", string(body), tc.headers...).want(t, name, tc.status, tc.problems)
	}
}
