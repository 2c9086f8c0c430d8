package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/lease"
	"parley/shared/testkit/running"
	"parley/workers/internal/signed/signedtest"
	"parley/workers/internal/tool"
	"parley/workers/internal/toolserver"
)

// backend is a backend whose calls run a function of the test.
type backend struct {
	kind string
	call func(ctx context.Context, r tool.Request) (tool.Result, error)
	list func(ctx context.Context, r tool.Request) ([]tool.Spec, error)
	// absent contains the absent servers that List returns.
	absent []contract.AbsentServer
}

func (b backend) Kind() string { return b.kind }

func (b backend) Call(ctx context.Context, r tool.Request) (tool.Result, error) {
	return b.call(ctx, r)
}

// lister is a backend that can list its tools.
type lister struct{ backend }

func (l lister) List(ctx context.Context, r tool.Request) (tool.Listing, error) {
	specs, err := l.list(ctx, r)
	return tool.Listing{Specs: specs, Absent: l.absent}, err
}

// faults contains the failures that are simulated during a call.
type faults struct {
	noConfig error
	stale    bool  // true if the run belongs to another worker
	noBegin  error // error of BeginSend
	noEnd    int   // number of calls of EndSend and CancelSend that fail
}

// fakeEnv contains the bus, the store and the ledger of a server under test.
type fakeEnv struct {
	faults
	tools domain.Tools
	files fakeFiles
	docs  fakeDocuments

	mu       sync.Mutex
	handlers map[string]func(context.Context, bus.ToolMessage) ([]byte, bool)
	owners   map[string]func(bus.ToolMessage) (string, bool)
	serving  map[string]bus.ToolOptions
	cancel   func(runID string)
	ready    chan struct{}
	wanted   int
	stopped  []string
	state    string // state of the effect
	sender   string
	outcome  []byte
	kept     []domain.Source
	held     []lease.Held
	loaded   int
}

func newOffice(tools domain.Tools) *fakeEnv {
	return &fakeEnv{
		tools: tools, state: "ready", ready: make(chan struct{}),
		handlers: map[string]func(context.Context, bus.ToolMessage) ([]byte, bool){},
		owners:   map[string]func(bus.ToolMessage) (string, bool){}, serving: map[string]bus.ToolOptions{},
	}
}

func (o *fakeEnv) ServeTool(kind string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool)) (func(context.Context), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handlers[kind], o.owners[kind], o.serving[kind] = handle, cfg.Owner, cfg
	if len(o.handlers) == o.wanted {
		close(o.ready)
	}
	return func(ctx context.Context) {
		left := time.Duration(0)
		if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil {
			left = time.Until(deadline).Round(time.Second)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.stopped = append(o.stopped, fmt.Sprint(kind, " within ", left))
	}, nil
}

func (o *fakeEnv) OnCancelled(f func(string)) (func(), error) {
	o.cancel = f
	return func() {}, nil
}

func (o *fakeEnv) Config(_ context.Context, org, target string, version int) (domain.Config, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.loaded++
	if org != "org_1" || target != "ag_1" || version != 4 {
		return domain.Config{}, errors.New("another configuration was asked for")
	}
	return domain.Config{Name: "a", Tools: o.tools}, o.noConfig
}

func (o *fakeEnv) KeepSource(_ context.Context, held lease.Held, s domain.Source) (string, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept, o.held = append(o.kept, s), append(o.held, held)
	return "src_1", !o.stale, nil
}

func (o *fakeEnv) BeginSend(_ context.Context, held lease.Held, callID, sender string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, held)
	if callID != "call_1" || o.stale || o.state != "ready" {
		return false, nil
	}
	o.state, o.sender = "sending", sender
	return o.noBegin == nil, o.noBegin // simulates a commit whose reply was lost
}

func (o *fakeEnv) EndSend(ctx context.Context, held lease.Held, callID string, outcome []byte) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, held)
	if o.noEnd > 0 {
		o.noEnd--
		return false, errors.New("the database is away")
	}
	if ctx.Err() != nil || callID != "call_1" || o.state != "sending" {
		return false, ctx.Err()
	}
	o.state, o.outcome = "done", outcome
	return true, nil
}

func (o *fakeEnv) CancelSend(ctx context.Context, _ lease.Held, callID, sender string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.noEnd > 0 {
		o.noEnd--
		return false, errors.New("the database is away")
	}
	if ctx.Err() != nil || callID != "call_1" || o.state != "sending" || o.sender != sender {
		return false, ctx.Err()
	}
	o.state = "ready"
	return true, nil
}

// start runs a server in the environment o until the test ends.
func start(t *testing.T, o *fakeEnv, metrics prometheus.Registerer, backends ...tool.Backend) {
	t.Helper()
	startLogging(t, o, metrics, zerolog.Nop(), backends...)
}

// startLogging does the same as start, but the server has a logger.
func startLogging(t *testing.T, o *fakeEnv, metrics prometheus.Registerer, log zerolog.Logger, backends ...tool.Backend) {
	t.Helper()
	o.wanted = len(backends)
	s, err := toolserver.New(toolserver.Config{Concurrency: 8, FilesPerOrganization: 1000}, toolserver.Deps{
		Bus: o, Records: o, Sources: o, Files: &o.files, Documents: &o.docs, Ledger: o, Verifier: signedtest.Signer(t), Backends: backends, Metrics: metrics, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Start(t, s.Run)
	<-o.ready
}

func capability() contract.Capability {
	return contract.Capability{
		OrganizationID: "org_1", RunID: "run_1", TargetID: "ag_1", ConfigVersion: 4, Fence: 3,
		Kind: contract.ToolHTTPRequest, CallID: "call_1", Expires: time.Now().Add(time.Minute),
	}
}

func request(effect bool) contract.ToolRequest {
	r := contract.ToolRequest{Operation: contract.OperationCall, CallID: "call_1", Name: "look", Arguments: json.RawMessage(`{"n":1}`)}
	if effect {
		r.Name, r.EffectKey = "pay", contract.EffectKey("run_1", "call_1")
	}
	return r
}

func sealed(t *testing.T, c contract.Capability, r contract.ToolRequest) bus.ToolMessage {
	t.Helper()
	claims, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return bus.ToolMessage{Capability: signedtest.Signer(t).Sign(claims, body), Body: body, Deadline: c.Expires}
}

func (o *fakeEnv) answer(t *testing.T, m bus.ToolMessage) contract.ToolReply {
	t.Helper()
	raw, ok := o.handlers[contract.ToolHTTPRequest](t.Context(), m)
	if !ok {
		t.Fatal("the call was refused")
	}
	var reply contract.ToolReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

var endpoints = domain.Tools{HTTPRequest: &domain.HTTPRequestTool{Enabled: true, Endpoints: []domain.Endpoint{
	{Name: "look", SideEffect: domain.SideEffectNone},
	{Name: "pay", SideEffect: domain.SideEffectUnsafe},
	{Name: "put", SideEffect: domain.SideEffectIdempotent},
	{Name: "unsaid"},
	{Name: "twice", SideEffect: domain.SideEffectNone},
	{Name: "twice", SideEffect: domain.SideEffectUnsafe},
}}}

// replySummary summarizes a reply.
func replySummary(r contract.ToolReply) string {
	f := r.Failure
	switch {
	case f == nil:
		return string(r.Output)
	case f.Unknown:
		return "unknown"
	case f.Stale:
		return "stale"
	case f.Retryable:
		return "again: " + f.Message
	default:
		return "failed: " + f.Message
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	type call = func(context.Context, tool.Request) (tool.Result, error)
	ok := tool.Result{Output: json.RawMessage(`"ok"`)}
	boom := errors.New("dial tcp 10.0.0.1: secret")
	gives := func(result tool.Result, err error) call {
		return func(context.Context, tool.Request) (tool.Result, error) { return result, err }
	}
	sends := func(result tool.Result, err error) call {
		return func(ctx context.Context, r tool.Request) (tool.Result, error) {
			if err := r.Sending(ctx); err != nil {
				return tool.Result{}, err
			}
			return result, err
		}
	}
	panics := func(context.Context, tool.Request) (tool.Result, error) { panic("secret") }
	sendsAndPanics := func(ctx context.Context, r tool.Request) (tool.Result, error) {
		if err := r.Sending(ctx); err != nil {
			return tool.Result{}, err
		}
		panic("secret")
	}
	sendsTwice := func(ctx context.Context, r tool.Request) (tool.Result, error) {
		if err := r.Sending(ctx); err != nil {
			return tool.Result{}, err
		}
		err := r.Sending(ctx)
		return tool.Result{}, &tool.Error{Message: "no second time", NotSent: true, Err: err}
	}
	keeps := func(ctx context.Context, r tool.Request) (tool.Result, error) {
		id, err := r.Keep(ctx, domain.Source{Text: "words"})
		return tool.Result{Output: json.RawMessage(`"` + id + `"`)}, err
	}
	for name, c := range map[string]struct {
		call   call
		effect bool
		with   faults
		want   string
		state  string // state of the effect after the call
		kept   string // the recorded outcome
	}{
		"read":                   {call: gives(ok, nil), want: `"ok"`},
		"read, failed":           {call: gives(ok, &tool.Error{Message: "no", Err: boom}), want: "failed: no"},
		"read, may pass":         {call: gives(ok, &tool.Error{Message: "later", Retryable: true}), want: "again: later"},
		"read, without a word":   {call: gives(ok, &tool.Error{}), want: "failed: The tool failed."},
		"read, internal":         {call: gives(ok, boom), want: "failed: The tool failed."},
		"read, wrapped":          {call: gives(ok, fmt.Errorf("x: %w", &tool.Error{Message: "no"})), want: "failed: no"},
		"read, panic":            {call: panics, want: "failed: The tool failed."},
		"read, kept":             {call: keeps, want: `"src_1"`},
		"read, kept too late":    {call: keeps, with: faults{stale: true}, want: "stale"},
		"not JSON":               {call: gives(tool.Result{Output: json.RawMessage(`{`)}, nil), want: "failed: The tool's output is not JSON."},
		"sent":                   {call: sends(ok, nil), effect: true, want: `"ok"`, state: "done", kept: `"ok"`},
		"sent, not JSON":         {call: sends(tool.Result{Output: json.RawMessage(`{`)}, nil), effect: true, want: "failed: The tool's output is not JSON.", state: "done", kept: "failed: The tool's output is not JSON."},
		"not sent in the end":    {call: sends(ok, &tool.Error{Message: "refused", NotSent: true, Retryable: true}), effect: true, want: "failed: refused", state: "done", kept: "failed: refused"},
		"sent, failed":           {call: sends(ok, &tool.Error{Message: "cut"}), effect: true, want: "unknown", state: "sending"},
		"sent, answered":         {call: sends(ok, &tool.Error{Message: "sold out", Answered: true}), effect: true, want: "failed: sold out", state: "done", kept: "failed: sold out"},
		"sent, internal":         {call: sends(ok, boom), effect: true, want: "unknown", state: "sending"},
		"sent, cancelled":        {call: sends(ok, context.Canceled), effect: true, want: "unknown", state: "sending"},
		"sent, panic":            {call: sendsAndPanics, effect: true, want: "unknown", state: "sending"},
		"sent, stale afterwards": {call: sends(ok, tool.ErrStale), effect: true, want: "unknown", state: "sending"},
		"sent twice":             {call: sendsTwice, effect: true, want: "failed: no second time", state: "done", kept: "failed: no second time"},
		"before it was sent":     {call: gives(ok, &tool.Error{Message: "no such"}), effect: true, want: "failed: no such", state: "ready"},
		"before it was sent, ok": {call: gives(ok, nil), effect: true, want: `"ok"`, state: "ready"},
		"panic before it":        {call: panics, effect: true, want: "failed: The tool failed.", state: "ready"},
		"not held":               {call: sends(ok, nil), effect: true, with: faults{stale: true}, want: "stale", state: "ready"},
		"sending not known":      {call: sends(ok, nil), effect: true, with: faults{noBegin: boom}, want: "again: The call could not be recorded, so the call was not made.", state: "ready"},
		"nothing known":          {call: sends(ok, nil), effect: true, with: faults{noBegin: boom, noEnd: 1000}, want: "again: The call could not be recorded, so the call was not made.", state: "sending"},
		"kept the second time":   {call: sends(ok, nil), effect: true, with: faults{noEnd: 2}, want: `"ok"`, state: "done", kept: `"ok"`},
		"never kept":             {call: sends(ok, nil), effect: true, with: faults{noEnd: 1000}, want: `"ok"`, state: "sending"},
		"no configuration":       {call: gives(ok, nil), with: faults{noConfig: boom}, want: "again: The tool is not available at the moment."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(endpoints)
			o.faults = c.with
			start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: c.call})
			reply := o.answer(t, sealed(t, capability(), request(c.effect)))
			if got := replySummary(reply); got != c.want || strings.Contains(got, "secret") {
				t.Errorf("got %s", got)
			}
			if o.state != c.state && (c.state != "" || o.state != "ready") {
				t.Errorf("the effect is %s", o.state)
			}
			kept := ""
			if o.outcome != nil {
				var outcome contract.ToolReply
				if err := json.Unmarshal(o.outcome, &outcome); err != nil {
					t.Fatal(err)
				}
				kept = replySummary(outcome)
			}
			if kept != c.kept {
				t.Errorf("kept %s", kept)
			}
			for _, held := range o.held {
				if held != (lease.Held{RunID: "run_1", OrganizationID: "org_1", Fence: 3}) {
					t.Errorf("held %+v", held)
				}
			}
		})
	}
}

func TestABackendReceivesTheCapabilitysIDs(t *testing.T) {
	t.Parallel()
	o := newOffice(endpoints)
	var got []tool.Request
	start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		got = append(got, r)
		deadline, _ := ctx.Deadline()
		return tool.Result{Output: json.RawMessage(fmt.Sprint(time.Until(deadline).Round(time.Second).Seconds()))}, nil
	}})
	for _, effect := range []bool{false, true} {
		c := capability()
		c.Expires = time.Now().Add(20 * time.Second)
		if reply := replySummary(o.answer(t, sealed(t, c, request(effect)))); reply != "25" { // within the tolerance for clocks
			t.Errorf("got %s", reply)
		}
	}
	plain, effect := got[0], got[1]
	if plain.OrganizationID != "org_1" || plain.RunID != "run_1" || plain.TargetID != "ag_1" || plain.Fence != 3 || plain.Config.Name != "a" ||
		plain.Call.ID != "call_1" || plain.Call.Name != "look" || string(plain.Call.Arguments) != `{"n":1}` || plain.EffectKey != "" || plain.Sending != nil {
		t.Errorf("request %+v", plain)
	}
	if effect.EffectKey != contract.EffectKey("run_1", "call_1") || effect.Sending == nil || o.loaded != 1 {
		t.Errorf("request %+v, %d configurations loaded", effect, o.loaded)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	o, metrics := newOffice(endpoints), prometheus.NewRegistry()
	called := 0
	start(t, o, metrics, backend{kind: contract.ToolHTTPRequest, call: func(context.Context, tool.Request) (tool.Result, error) {
		called++
		return tool.Result{}, nil
	}})
	foreign, err := secrets.NewSigner(strings.Repeat("00", 32))
	if err != nil {
		t.Fatal(err)
	}
	with := func(f func(*contract.Capability, *contract.ToolRequest)) bus.ToolMessage {
		c, r := capability(), request(true)
		f(&c, &r)
		return sealed(t, c, r)
	}
	good := sealed(t, capability(), request(true))
	raw := func(claims, body string) bus.ToolMessage {
		return bus.ToolMessage{Capability: signedtest.Signer(t).Sign([]byte(claims), []byte(body)), Body: []byte(body)}
	}
	for name, m := range map[string]bus.ToolMessage{
		"none":          {Body: good.Body},
		"another body":  {Capability: good.Capability, Body: append([]byte(" "), good.Body...)},
		"foreign":       {Capability: foreign.Sign([]byte(`{}`), good.Body), Body: good.Body},
		"not JSON":      raw(`x`, string(good.Body)),
		"unknown claim": raw(`{"org":"org_1","admin":true}`, string(good.Body)),
		"two":           raw(`{} {}`, string(good.Body)),
		"body not JSON": raw(`{}`, `x`),
		"expired": with(func(c *contract.Capability, _ *contract.ToolRequest) {
			c.Expires = time.Now().Add(-5001 * time.Millisecond)
		}),
		"never expires":   with(func(c *contract.Capability, _ *contract.ToolRequest) { c.Expires = time.Time{} }),
		"another kind":    with(func(c *contract.Capability, _ *contract.ToolRequest) { c.Kind = contract.ToolMCP }),
		"no organization": with(func(c *contract.Capability, _ *contract.ToolRequest) { c.OrganizationID = "" }),
		"no run":          with(func(c *contract.Capability, r *contract.ToolRequest) { c.RunID, r.EffectKey = "", "" }),
		"no target":       with(func(c *contract.Capability, _ *contract.ToolRequest) { c.TargetID = "" }),
		"no version":      with(func(c *contract.Capability, _ *contract.ToolRequest) { c.ConfigVersion = 0 }),
		"no fence":        with(func(c *contract.Capability, _ *contract.ToolRequest) { c.Fence = 0 }),
		"another call":    with(func(_ *contract.Capability, r *contract.ToolRequest) { r.CallID = "call_2" }),
		"no call":         with(func(c *contract.Capability, r *contract.ToolRequest) { c.CallID, r.CallID, r.EffectKey = "", "", "" }),
		"another's effect": with(func(_ *contract.Capability, r *contract.ToolRequest) {
			r.EffectKey = contract.EffectKey("run_2", "call_1")
		}),
		"no operation":      with(func(_ *contract.Capability, r *contract.ToolRequest) { r.Operation = "" }),
		"another operation": with(func(_ *contract.Capability, r *contract.ToolRequest) { r.Operation = "delete" }),
		"list of an effect": with(func(_ *contract.Capability, r *contract.ToolRequest) { r.Operation = contract.OperationList }),
	} {
		if _, ok := o.handlers[contract.ToolHTTPRequest](t.Context(), m); ok {
			t.Errorf("%s: carried out", name)
		}
		if owner, ok := o.owners[contract.ToolHTTPRequest](m); ok {
			t.Errorf("%s: accepted for %s", name, owner)
		}
	}
	if called != 0 || o.loaded != 0 {
		t.Errorf("%d calls, %d configurations loaded", called, o.loaded)
	}
	if owner, ok := o.owners[contract.ToolHTTPRequest](good); !ok || owner != "org_1" {
		t.Errorf("owner %s, %v", owner, ok)
	}
	if _, ok := o.handlers[contract.ToolHTTPRequest](t.Context(), good); !ok || called != 1 {
		t.Errorf("%v after %d calls", ok, called)
	}
	want := "parley_tool_call_seconds{httpRequest} 1, parley_tool_calls_running{httpRequest} 0, parley_tool_calls_total{completed httpRequest} 1, parley_tool_calls_total{refused httpRequest} 42, parley_tool_calls_waiting{httpRequest} 0"
	if got := counted(t, metrics); got != want {
		t.Errorf("counted %s", got)
	}
}

// counted returns the values of the given counters, in the same order.
func counted(t *testing.T, metrics prometheus.Gatherer) string {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all = append(all, fmt.Sprintf("%s{%s} %g", family.GetName(), strings.Join(labels, " "), n))
		}
	}
	return strings.Join(all, ", ")
}

func TestOnlyToolsThatTheAgentHas(t *testing.T) {
	t.Parallel()
	all := []string{contract.ToolWebSearch, contract.ToolHTTPRequest, contract.ToolMCP, contract.ToolCodeExecution, contract.ToolKnowledge, "other"}
	for _, c := range []struct {
		tools domain.Tools
		has   string
	}{
		{domain.Tools{}, ""},
		{domain.Tools{WebSearch: &domain.Switch{}, HTTPRequest: &domain.HTTPRequestTool{}, MCP: &domain.MCPTool{}, CodeExecution: &domain.CodeTool{}}, ""},
		{domain.Tools{WebSearch: &domain.Switch{Enabled: true}}, contract.ToolWebSearch},
		{endpoints, contract.ToolHTTPRequest},
		{domain.Tools{MCP: &domain.MCPTool{Enabled: true}}, contract.ToolMCP},
		{domain.Tools{CodeExecution: &domain.CodeTool{Enabled: true}}, contract.ToolCodeExecution},
		{domain.Tools{Knowledge: &domain.KnowledgeTool{DocumentIDs: []string{"doc_1"}}}, ""},
		{domain.Tools{Knowledge: &domain.KnowledgeTool{Enabled: true}}, contract.ToolKnowledge},
	} {
		o := newOffice(c.tools)
		var backends []tool.Backend
		for _, kind := range all {
			backends = append(backends, lister{backend{
				kind: kind, call: func(context.Context, tool.Request) (tool.Result, error) { return tool.Result{}, nil },
				list: func(context.Context, tool.Request) ([]tool.Spec, error) { return nil, nil },
			}})
		}
		start(t, o, prometheus.NewRegistry(), backends...)
		for _, kind := range all {
			for _, operation := range []string{contract.OperationCall, contract.OperationList} {
				claims, r := capability(), request(false)
				claims.Kind, r.Operation = kind, operation
				raw, ok := o.handlers[kind](t.Context(), sealed(t, claims, r))
				if has := !strings.Contains(string(raw), "does not have this tool"); !ok || has != (kind == c.has) {
					t.Errorf("%s of an agent with %q: %s, %v", kind, c.has, raw, ok)
				}
			}
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 600<<10)
	absent := []contract.AbsentServer{{Name: "s", Reason: "The host could not be reached."}}
	for name, c := range map[string]struct {
		list func(context.Context, tool.Request) ([]tool.Spec, error)
		want string
	}{
		"two": {func(context.Context, tool.Request) ([]tool.Spec, error) {
			return []tool.Spec{{Name: "a", Description: "d", Schema: json.RawMessage(`{}`), SideEffect: domain.SideEffectUnsafe}, {Name: "b"}}, nil
		}, `{"tools":[{"name":"a","description":"d","schema":{},"sideEffect":"unsafe"},{"name":"b","description":"","schema":null}],"absent":[{"name":"s","reason":"The host could not be reached."}]}`},
		"none":     {func(context.Context, tool.Request) ([]tool.Spec, error) { return nil, nil }, `{"absent":[{"name":"s","reason":"The host could not be reached."}]}`},
		"failed":   {func(context.Context, tool.Request) ([]tool.Spec, error) { return nil, errors.New("secret") }, `{"failure":{"message":"The tool failed."}}`},
		"panicked": {func(context.Context, tool.Request) ([]tool.Spec, error) { panic("secret") }, `{"failure":{"message":"The tool failed."}}`},
		"too long": {func(context.Context, tool.Request) ([]tool.Spec, error) { return []tool.Spec{{Name: long}}, nil }, `{"failure":{"message":"The tool's output is too large."}}`},
		"unlisted": {nil, `{"failure":{"message":"This kind of tool cannot be listed."}}`},
	} {
		o := newOffice(endpoints)
		b := backend{kind: contract.ToolHTTPRequest, list: c.list, absent: absent}
		if c.list == nil {
			start(t, o, prometheus.NewRegistry(), b)
		} else {
			start(t, o, prometheus.NewRegistry(), lister{b})
		}
		claims := capability()
		claims.CallID = ""
		raw, ok := o.handlers[contract.ToolHTTPRequest](t.Context(), sealed(t, claims, contract.ToolRequest{Operation: contract.OperationList}))
		if !ok || string(raw) != c.want {
			t.Errorf("%s: %.300s, %v", name, raw, ok)
		}
	}
}

func TestResultsAreCapped(t *testing.T) {
	t.Parallel()
	o := newOffice(endpoints)
	start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		var sources []domain.Citation
		for range 30 {
			sources = append(sources, domain.Citation{Title: strings.Repeat("\x01", 9000), CitedText: strings.Repeat("\x01", 9000)})
		}
		return tool.Result{Output: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), Sources: sources}, r.Sending(ctx)
	}})
	raw, ok := o.handlers[contract.ToolHTTPRequest](t.Context(), sealed(t, capability(), request(true)))
	if !ok || len(raw) > 512<<10 || !strings.Contains(string(raw), `"truncated":true`) || string(o.outcome) != string(raw) {
		t.Errorf("%d bytes, %d kept: %.200s", len(raw), len(o.outcome), raw)
	}
}

func TestCallsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send bool
		end  string // how the call ends
		want string
	}{
		"cancelled":           {false, "cancel", "again: The tool call was interrupted."},
		"cancelled when sent": {true, "cancel", "unknown"},
		"stopped":             {false, "stop", "again: The tool call was interrupted."},
		"late":                {false, "expiry", "failed: The tool took too long."},
		"late when sent":      {true, "expiry", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, entered := newOffice(endpoints), make(chan struct{})
			start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
				if c.send {
					if err := r.Sending(ctx); err != nil {
						return tool.Result{}, err
					}
				}
				close(entered)
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			}})
			claims := capability()
			if c.end == "expiry" {
				claims.Expires = time.Now().Add(5 * time.Second)
			}
			m := sealed(t, claims, request(true))
			ctx, stop := context.WithDeadline(t.Context(), m.Deadline) // the bus sets the same deadline
			defer stop()
			answers := make(chan []byte, 1)
			go func() {
				raw, _ := o.handlers[contract.ToolHTTPRequest](ctx, m)
				answers <- raw
			}()
			<-entered
			switch c.end {
			case "cancel":
				o.cancel("run_2")
				o.cancel("run_1")
			case "stop":
				stop()
			}
			var reply contract.ToolReply
			if err := json.Unmarshal(<-answers, &reply); err != nil || replySummary(reply) != c.want {
				t.Errorf("%s, %v", replySummary(reply), err)
			}
		})
	}
}

func TestAServerStopsAllKindsWithin20Seconds(t *testing.T) {
	t.Parallel()
	o := newOffice(endpoints)
	o.wanted = 2
	kinds := []tool.Backend{backend{kind: "a"}, backend{kind: "b"}}
	deps := toolserver.Deps{Bus: o, Records: o, Sources: o, Ledger: o, Verifier: signedtest.Signer(t), Backends: kinds, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop()}
	s, err := toolserver.New(toolserver.Config{Concurrency: 8}, deps)
	if err != nil {
		t.Fatal(err)
	}
	stop := running.Start(t, s.Run)
	<-o.ready
	if got := o.serving["a"]; got.Slots != 8 || got.Queue != 2 {
		t.Errorf("serving %+v", got)
	}
	stop()
	if got := strings.Join(o.stopped, ", "); !strings.Contains(got, "a within 20s") || !strings.Contains(got, "b within 20s") {
		t.Errorf("stopped %s", got)
	}
	deps.Backends, deps.Metrics = []tool.Backend{backend{kind: "a"}, backend{kind: "a"}}, prometheus.NewRegistry()
	if _, err := toolserver.New(toolserver.Config{}, deps); err == nil {
		t.Error("two backends of one kind")
	}
}
