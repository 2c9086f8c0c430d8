package toolset_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/tool"
	"parley/workers/internal/toolset"
)

// testEnv fakes the bus, the ledger and the journal.
type testEnv struct {
	answer  contract.ToolReply
	err     error
	state   domain.Effect
	lost    bool // the run belongs to another worker by now
	taken   bool // a tool worker has already taken the call
	kept    []byte
	asked   []contract.ToolRequest
	within  []time.Duration
	claims  []contract.Capability
	prepare []bool // one element for each call of PrepareEffect: whether approval was required
	voided  int
}

func (b *testEnv) Sign(claims, _ []byte) string { return string(claims) }

func (b *testEnv) Call(_ context.Context, _, capability string, body []byte, deadline time.Time) ([]byte, error) {
	b.within = append(b.within, time.Until(deadline).Round(time.Second))
	var request contract.ToolRequest
	var claim contract.Capability
	if err := errors.Join(json.Unmarshal(body, &request), json.Unmarshal([]byte(capability), &claim)); err != nil {
		return nil, err
	}
	b.asked, b.claims = append(b.asked, request), append(b.claims, claim)
	if b.err != nil {
		return nil, b.err
	}
	return json.Marshal(b.answer)
}

func (b *testEnv) PrepareEffect(_ context.Context, _ lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error) {
	b.prepare = append(b.prepare, ask)
	e.State, e.Sent, e.Outcome = b.state.State, b.state.Sent, b.state.Outcome
	return e, !b.lost, nil
}

func (b *testEnv) VoidEffect(context.Context, lease.Held, string) (bool, error) {
	b.voided++
	return !b.taken, nil
}

func (b *testEnv) ToolSet(context.Context, string, string) ([]byte, error) { return b.kept, nil }

func (b *testEnv) KeepToolSet(_ context.Context, _ lease.Held, tools []byte) (bool, error) {
	b.kept = tools
	return !b.lost, nil
}

func endpoints(approval domain.Approval) domain.Tools {
	schema := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []any{"n"}}
	endpoint := func(name string, effect domain.SideEffect) domain.Endpoint {
		return domain.Endpoint{Name: name, Method: "POST", URL: "https://api.example/x", InputSchema: schema, SideEffect: effect}
	}
	return domain.Tools{HTTPRequest: &domain.HTTPRequestTool{Enabled: true, Approval: approval, Endpoints: []domain.Endpoint{
		endpoint("read", domain.SideEffectNone), endpoint("put", domain.SideEffectIdempotent), endpoint("pay", domain.SideEffectUnsafe),
	}}}
}

func run() toolset.Run {
	return toolset.Run{
		Held:     lease.Held{RunID: "run_1", OrganizationID: "org_1", Fence: 3},
		TargetID: "ag_1", ConfigVersion: 2, Deadline: time.Now().Add(time.Minute), First: true, Log: zerolog.Nop(),
	}
}

func call(t *testing.T, b *testEnv, tools domain.Tools, name, arguments string) (tool.Result, error) {
	t.Helper()
	set, err := toolset.New(b, b, b, b, toolset.Code{}).For(t.Context(), run(), tools)
	if err != nil {
		t.Fatal(err)
	}
	found, ok := set.Registry.Lookup(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	return found.Call(t.Context(), tool.Call{ID: "call_1", Name: name, Arguments: json.RawMessage(arguments)})
}

// said describes an outcome as text: the output, the error for the model, the required action, or
// the error that ends the attempt.
func said(result tool.Result, err error) string {
	var failed *tool.Error
	var action *tool.ActionRequired
	switch {
	case errors.As(err, &action):
		return "asks " + string(action.Kind)
	case errors.As(err, &failed) && failed.Retryable:
		return "ends the attempt"
	case errors.As(err, &failed):
		return "tells: " + failed.Message
	case err != nil:
		return "error: " + err.Error()
	default:
		return string(result.Output)
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	answered := contract.ToolReply{Output: json.RawMessage(`"ok"`)}
	kept, err := json.Marshal(contract.ToolReply{Output: json.RawMessage(`"kept"`)})
	if err != nil {
		t.Fatal(err)
	}
	in := func(state domain.EffectState) domain.Effect { return domain.Effect{State: state, Outcome: kept} }
	unknown := contract.ToolReply{Failure: &contract.ToolFailure{Unknown: true}}
	for name, c := range map[string]struct {
		tool     string
		behind   testEnv
		approval domain.Approval
		want     string
		asked    int // number of calls sent to tool workers
	}{
		"read":                          {"read", testEnv{answer: answered}, "", `"ok"`, 1},
		"read, nobody there":            {"read", testEnv{err: bus.ErrNoToolWorker}, "", "tells: The tool read is not available at the moment.", 1},
		"read, the bus away":            {"read", testEnv{err: bus.ErrToolsAway}, "", "ends the attempt", 1},
		"put, the bus away":             {"put", testEnv{state: in(domain.EffectReady), err: bus.ErrToolsAway}, "", "ends the attempt", 1},
		"pay, the bus away":             {"pay", testEnv{state: in(domain.EffectReady), err: bus.ErrToolsAway}, "", "ends the attempt", 1},
		"read, lost":                    {"read", testEnv{err: bus.ErrToolLost}, "", "ends the attempt", 1},
		"read, refused":                 {"read", testEnv{err: bus.ErrToolRefused}, "", "tells: The tool read rejected the call.", 1},
		"read, failed":                  {"read", testEnv{answer: contract.ToolReply{Failure: &contract.ToolFailure{Message: "no."}}}, "", "tells: no.", 1},
		"read, stale":                   {"read", testEnv{answer: contract.ToolReply{Failure: &contract.ToolFailure{Stale: true}}}, "", "ends the attempt", 1},
		"read, interrupted":             {"read", testEnv{answer: contract.ToolReply{Failure: &contract.ToolFailure{Message: "no.", Retryable: true}}}, "", "ends the attempt", 1},
		"put, refused":                  {"put", testEnv{state: domain.Effect{State: domain.EffectReady}, err: bus.ErrToolRefused}, "", "tells: The tool put rejected the call.", 1},
		"put, too large":                {"put", testEnv{state: domain.Effect{State: domain.EffectReady}, err: bus.ErrToolTooLarge}, "", "tells: The arguments are too large.", 1},
		"read, always asked":            {"read", testEnv{state: domain.Effect{State: domain.EffectAwaiting}}, domain.ApprovalAlways, "asks approval", 0},
		"read, approved":                {"read", testEnv{state: in(domain.EffectReady), answer: answered}, domain.ApprovalAlways, `"ok"`, 1},
		"put":                           {"put", testEnv{state: in(domain.EffectReady), answer: answered}, "", `"ok"`, 1},
		"put, unsafe ones asked":        {"put", testEnv{state: in(domain.EffectReady), answer: answered}, domain.ApprovalUnsafe, `"ok"`, 1},
		"put, lost":                     {"put", testEnv{state: in(domain.EffectReady), err: bus.ErrToolLost}, "", "ends the attempt", 1},
		"put, unknown":                  {"put", testEnv{state: in(domain.EffectReady), answer: unknown}, "", "ends the attempt", 1},
		"pay":                           {"pay", testEnv{state: in(domain.EffectReady), answer: answered}, "", `"ok"`, 1},
		"pay, lost":                     {"pay", testEnv{state: in(domain.EffectReady), err: bus.ErrToolLost}, "", "asks unknown_outcome", 1},
		"pay, unknown":                  {"pay", testEnv{state: in(domain.EffectReady), answer: unknown}, "", "asks unknown_outcome", 1},
		"pay, nobody there":             {"pay", testEnv{state: in(domain.EffectReady), err: bus.ErrNoToolWorker}, "", "tells: The tool pay is not available at the moment.", 1},
		"pay, taken late":               {"pay", testEnv{state: in(domain.EffectReady), err: bus.ErrNoToolWorker, taken: true}, "", "asks unknown_outcome", 1},
		"pay, asked":                    {"pay", testEnv{state: domain.Effect{State: domain.EffectAwaiting}}, domain.ApprovalUnsafe, "asks approval", 0},
		"pay, done before":              {"pay", testEnv{state: in(domain.EffectDone)}, "", `"kept"`, 0},
		"pay, begun before":             {"pay", testEnv{state: domain.Effect{State: domain.EffectAwaiting, Sent: true}}, "", "asks unknown_outcome", 0},
		"pay, denied":                   {"pay", testEnv{state: in(domain.EffectDenied)}, domain.ApprovalUnsafe, "tells: A person refused this call; it was not made.", 0},
		"pay, happened":                 {"pay", testEnv{state: in(domain.EffectHappened)}, "", `{"note":"A person confirmed that this call was executed. Its result is unknown."}`, 0},
		"pay, taken over":               {"pay", testEnv{state: in(domain.EffectReady), lost: true}, "", "ends the attempt", 0},
		"pay, what the ledger withheld": {"pay", testEnv{state: in(domain.EffectSending)}, "", "ends the attempt", 0},
	} {
		b := c.behind
		if got := said(call(t, &b, endpoints(c.approval), c.tool, `{"n":1}`)); got != c.want || len(b.asked) != c.asked {
			t.Errorf("%s: %s after %d requests", name, got, len(b.asked))
		}
		for _, asked := range b.asked {
			if key := asked.EffectKey; (key != "") != (len(b.prepare) > 0) || key != "" && key != contract.EffectKey("run_1", "call_1") {
				t.Errorf("%s: effect key %q", name, asked.EffectKey)
			}
		}
		for _, claim := range b.claims {
			if claim.RunID != "run_1" || claim.OrganizationID != "org_1" || claim.TargetID != "ag_1" || claim.ConfigVersion != 2 || claim.Fence != 3 ||
				claim.Kind != contract.ToolHTTPRequest || claim.CallID != "call_1" || time.Until(claim.Expires) > 61*time.Second {
				t.Errorf("%s: capability %+v", name, claim)
			}
		}
	}
}

func TestArgumentsAreCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{}`, `{"n":"x"}`, `[]`} {
		b := testEnv{}
		got := said(call(t, &b, endpoints(domain.ApprovalAlways), "pay", arguments))
		if !strings.HasPrefix(got, "tells: The arguments do not fit the tool") || len(b.prepare)+len(b.asked) != 0 {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

func TestListedToolsAreFixedWhenTheRunStarts(t *testing.T) {
	t.Parallel()
	tools := domain.Tools{MCP: &domain.MCPTool{Enabled: true, Servers: []domain.MCPServer{{Name: "a"}, {Name: "b"}}}}
	spec := contract.ToolSpec{Name: "a_x", Schema: json.RawMessage(`{"type":"object"}`), SideEffect: domain.SideEffectNone}
	foreign := contract.ToolSpec{Name: "elsewhere_x", Schema: spec.Schema}
	b := &testEnv{answer: contract.ToolReply{
		Tools:  []contract.ToolSpec{spec, foreign, spec, {Name: "a_broken", Schema: json.RawMessage(`{"type":7}`)}},
		Absent: []contract.AbsentServer{{Name: "b", Reason: "The host could not be reached."}},
	}}
	sets := toolset.New(b, b, b, b, toolset.Code{})
	set, err := sets.For(t.Context(), run(), tools)
	if err != nil || len(set.Registry.Specs()) != 1 || !slices.Equal(set.Absent, []domain.RunWarning{{Kind: domain.CheckMCP, Name: "b", Message: "The host could not be reached."}}) {
		t.Fatalf("%+v, %v", set, err)
	}
	if got := set.Registry.Specs()[0]; got.Name != "a_x" || got.SideEffect != domain.SideEffectUnsafe {
		t.Errorf("the list determines the side effect: %+v", got)
	}
	b.answer.Tools = nil // the server offers other tools by now
	later := run()
	later.First = false
	if set, err = sets.For(t.Context(), later, tools); err != nil || len(set.Registry.Specs()) != 1 || len(b.asked) != 1 {
		t.Fatalf("%+v, %v after %d requests", set, err, len(b.asked))
	}
	nobody := &testEnv{err: bus.ErrNoToolWorker}
	if set, err = toolset.New(nobody, nobody, nobody, nobody, toolset.Code{}).For(t.Context(), run(), tools); err != nil || set.Registry != nil || len(set.Absent) != 2 {
		t.Fatalf("%+v, %v", set, err)
	}
	gone := &testEnv{lost: true}
	if _, err = toolset.New(gone, gone, gone, gone, toolset.Code{}).For(t.Context(), run(), tools); !errors.Is(err, tool.ErrStale) {
		t.Fatal(err)
	}
}

func TestAgentsWithoutToolsHaveNone(t *testing.T) {
	t.Parallel()
	for _, tools := range []domain.Tools{{}, {WebSearch: &domain.Switch{}}, {HTTPRequest: &domain.HTTPRequestTool{Enabled: true}}, {MCP: &domain.MCPTool{Enabled: true}}} {
		b := &testEnv{}
		set, err := toolset.New(b, b, b, b, toolset.Code{}).For(t.Context(), run(), tools)
		if err != nil || len(set.Registry.Specs()) != 0 || len(b.asked) != 0 {
			t.Errorf("%+v: %+v, %v", tools, set, err)
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{CPU: 7 * time.Second}
	late := run()
	late.Deadline = time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		options domain.CodeTool
		code    toolset.Code
		alone   bool
		within  time.Duration
		prepare bool // true if the ledger accepts the call
	}{
		"plain":      {domain.CodeTool{Enabled: true}, toolset.Code{Limits: limits, CallTime: 100 * time.Second}, false, 100 * time.Second, false},
		"keeping":    {domain.CodeTool{Enabled: true, KeepFiles: true}, toolset.Code{Limits: limits, CallTime: 100 * time.Second}, true, 100 * time.Second, false},
		"by default": {domain.CodeTool{Enabled: true}, toolset.Code{Limits: limits}, false, 2 * time.Minute, false},
		"approved":   {domain.CodeTool{Enabled: true, Approval: domain.ApprovalAlways}, toolset.Code{Limits: limits}, true, 2 * time.Minute, true},
		"if unsafe":  {domain.CodeTool{Enabled: true, Approval: domain.ApprovalUnsafe}, toolset.Code{Limits: limits}, false, 2 * time.Minute, false},
	} {
		failure := json.RawMessage(`{"error":"no.","stdout":"1"}`)
		b := &testEnv{
			state: domain.Effect{State: domain.EffectReady}, answer: contract.ToolReply{Output: failure, Failure: &contract.ToolFailure{Message: "no."}},
		}
		set, err := toolset.New(b, b, b, b, c.code).For(t.Context(), late, domain.Tools{CodeExecution: &c.options})
		if err != nil {
			t.Fatal(err)
		}
		found, ok := set.Registry.Lookup(contract.ToolCodeExecution)
		if !ok || found.Spec().Alone != c.alone || !strings.Contains(found.Spec().Description, "7 s of CPU time") {
			t.Fatalf("%s: %v, %+v", name, ok, set.Registry.Specs())
		}
		_, err = found.Call(t.Context(), tool.Call{ID: "call_1", Name: contract.ToolCodeExecution, Arguments: json.RawMessage(`{"code":"print(1)"}`)})
		reported, isReported := errors.AsType[*tool.Error](err)
		if !isReported || reported.Message != "no." || string(reported.Output) != string(failure) || reported.Retryable {
			t.Errorf("%s: %+v", name, err)
		}
		if len(b.asked) != 1 || b.claims[0].Kind != contract.ToolCodeExecution || b.within[0] != c.within || (len(b.prepare) == 1) != c.prepare {
			t.Errorf("%s: %d requests, within %v, prepared %v", name, len(b.asked), b.within, b.prepare)
		}
		_, err = found.Call(t.Context(), tool.Call{ID: "call_2", Arguments: json.RawMessage(`{"code":"","files":"x"}`)})
		if got := said(tool.Result{}, err); !strings.HasPrefix(got, "tells: The arguments do not fit the tool") || len(b.asked) != 1 {
			t.Errorf("%s: %s", name, got)
		}
	}
	off := &testEnv{}
	if set, err := toolset.New(off, off, off, off, toolset.Code{}).For(t.Context(), run(), domain.Tools{CodeExecution: &domain.CodeTool{}}); err != nil || set.Registry != nil {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestKnowledge(t *testing.T) {
	t.Parallel()
	late := run()
	late.Deadline = time.Now().Add(time.Hour)
	b := &testEnv{answer: contract.ToolReply{Output: json.RawMessage(`"ok"`)}}
	set, err := toolset.New(b, b, b, b, toolset.Code{}).For(t.Context(), late, domain.Tools{
		Knowledge: &domain.KnowledgeTool{Enabled: true, DocumentIDs: []string{"doc_a"}}, CodeExecution: &domain.CodeTool{Enabled: true},
	})
	if err != nil || len(set.Registry.Specs()) != 2 {
		t.Fatalf("%+v, %v", set, err)
	}
	code, _ := set.Registry.Lookup(contract.ToolCodeExecution)
	found, ok := set.Registry.Lookup(contract.ToolKnowledge)
	if !ok || found.Spec().Alone || !strings.Contains(code.Spec().Description, "documentId") {
		t.Fatalf("%+v, %+v", found.Spec(), code.Spec())
	}
	result, err := found.Call(t.Context(), tool.Call{ID: "call_1", Name: contract.ToolKnowledge, Arguments: json.RawMessage(`{"query":"q","limit":10}`)})
	if err != nil || said(result, err) != `"ok"` || b.claims[0].Kind != contract.ToolKnowledge || b.within[0] != 30*time.Second || len(b.prepare) != 0 {
		t.Errorf("%v; %+v within %v, prepared %v", err, b.claims, b.within, b.prepare)
	}
	for _, arguments := range []string{`{"limit":0}`, `{"query":""}`, `{"query":"q","limit":11}`, `{"query":"q","documentIds":["doc_b"]}`} {
		_, err := found.Call(t.Context(), tool.Call{ID: "call_2", Arguments: json.RawMessage(arguments)})
		if got := said(tool.Result{}, err); !strings.HasPrefix(got, "tells: The arguments do not fit the tool") || len(b.asked) != 1 {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	for _, none := range []*domain.KnowledgeTool{nil, {DocumentIDs: []string{"doc_a"}}} {
		set, err := toolset.New(b, b, b, b, toolset.Code{}).For(t.Context(), late, domain.Tools{Knowledge: none, CodeExecution: &domain.CodeTool{Enabled: true}})
		if err != nil || len(set.Registry.Specs()) != 1 || strings.Contains(set.Registry.Specs()[0].Description, "documentId") {
			t.Errorf("%+v, %v", set, err)
		}
	}
	asked := &testEnv{state: domain.Effect{State: domain.EffectAwaiting}}
	set, err = toolset.New(asked, asked, asked, asked, toolset.Code{}).For(t.Context(), late, domain.Tools{
		Knowledge: &domain.KnowledgeTool{Enabled: true, Approval: domain.ApprovalAlways},
	})
	if err != nil {
		t.Fatal(err)
	}
	found, _ = set.Registry.Lookup(contract.ToolKnowledge)
	_, err = found.Call(t.Context(), tool.Call{ID: "call_1", Name: contract.ToolKnowledge, Arguments: json.RawMessage(`{"query":"q"}`)})
	if said(tool.Result{}, err) != "asks approval" || !found.Spec().Alone {
		t.Errorf("always with approval: %v", err)
	}
}

// TestARecordedFailureIsShownAgain checks that a recorded failure has the same form for the model
// as the original failure.
func TestARecordedFailureIsShownAgain(t *testing.T) {
	t.Parallel()
	kept := json.RawMessage(`{"output":{"error":"no.","stdout":"1"},"failure":{"message":"no."}}`)
	b := &testEnv{state: domain.Effect{State: domain.EffectDone, Outcome: kept}}
	_, err := call(t, b, endpoints(""), "pay", `{"n":1}`)
	if reported, ok := errors.AsType[*tool.Error](err); !ok || reported.Message != "no." || string(reported.Output) != `{"error":"no.","stdout":"1"}` {
		t.Errorf("%+v", err)
	}
}
