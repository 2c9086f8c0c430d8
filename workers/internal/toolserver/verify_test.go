package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/signed/signedtest"
	"parley/workers/internal/tool"
)

// The configuration of the organization determines whether a tool may be called without the effect
// ledger.
func TestSideEffectsGoThroughTheLedger(t *testing.T) {
	t.Parallel()
	server := func(name string, effect domain.SideEffect) domain.MCPServer {
		return domain.MCPServer{Name: name, SideEffect: effect}
	}
	tools := endpoints
	tools.WebSearch = &domain.Switch{Enabled: true}
	tools.CodeExecution = &domain.CodeTool{Enabled: true, KeepFiles: true}
	tools.Knowledge = &domain.KnowledgeTool{Enabled: true}
	tools.MCP = &domain.MCPTool{Enabled: true, Servers: []domain.MCPServer{
		server("docs", domain.SideEffectNone), server("bank", ""), server("put", domain.SideEffectIdempotent),
		server("a", domain.SideEffectNone), server("a_b", domain.SideEffectUnsafe),
	}}
	o, made := newOffice(tools), 0
	var backends []tool.Backend
	for _, kind := range []string{contract.ToolWebSearch, contract.ToolHTTPRequest, contract.ToolMCP, contract.ToolCodeExecution, contract.ToolKnowledge} {
		backends = append(backends, backend{kind: kind, call: func(context.Context, tool.Request) (tool.Result, error) {
			made++
			return tool.Result{Output: json.RawMessage(`"made"`)}, nil
		}})
	}
	start(t, o, prometheus.NewRegistry(), backends...)
	ask := func(kind, name, body string) string {
		t.Helper()
		claims, before := capability(), made
		claims.Kind = kind
		m := sealed(t, claims, contract.ToolRequest{Operation: contract.OperationCall, CallID: "call_1", Name: name})
		if body != "" {
			raw, err := json.Marshal(claims)
			if err != nil {
				t.Fatal(err)
			}
			m = bus.ToolMessage{Capability: signedtest.Signer(t).Sign(raw, []byte(body)), Body: []byte(body)}
		}
		raw, ok := o.handlers[kind](t.Context(), m)
		if !ok {
			t.Fatalf("%s %s: the capability was refused", kind, name)
		}
		var reply contract.ToolReply
		if err := json.Unmarshal(raw, &reply); err != nil || (reply.Failure == nil) != (made > before) {
			t.Errorf("%s %s: %s, %v; the call was made: %v", kind, name, raw, err, made > before)
		}
		return replySummary(reply)
	}
	const refused = "failed: The call has a side effect and was not recorded, so the call was not made."
	for _, c := range []struct {
		kind, name string
		made       bool
	}{
		{contract.ToolWebSearch, "webSearch", true},
		{contract.ToolCodeExecution, "codeExecution", true},
		{contract.ToolKnowledge, "knowledge", true},
		{contract.ToolHTTPRequest, "look", true},
		{contract.ToolHTTPRequest, "pay", false},
		{contract.ToolHTTPRequest, "put", false},
		{contract.ToolHTTPRequest, "unsaid", false},
		{contract.ToolHTTPRequest, "twice", false},
		{contract.ToolHTTPRequest, "none", false},
		{contract.ToolHTTPRequest, "", false},
		{contract.ToolMCP, "docs_search", true},
		{contract.ToolMCP, "bank_search", false},
		{contract.ToolMCP, "put_it", false},
		{contract.ToolMCP, "a_c", true},
		{contract.ToolMCP, "a_b_c", false}, // may be a tool of server a or of server a_b
		{contract.ToolMCP, "docs", false},
		{contract.ToolMCP, "other_search", false},
		{contract.ToolMCP, "", false},
	} {
		want := refused
		if c.made {
			want = `"made"`
		}
		if got := ask(c.kind, c.name, ""); got != want {
			t.Errorf("%s %s: %s", c.kind, c.name, got)
		}
	}
	for _, said := range []string{`"none"`, `""`} {
		if got := ask(contract.ToolHTTPRequest, "pay", `{"operation":"call","callId":"call_1","name":"pay","sideEffect":`+said+`}`); got != refused {
			t.Errorf("a request that says %s of itself: %s", said, got)
		}
	}
	if got := o.answer(t, sealed(t, capability(), request(true))); replySummary(got) != `"made"` {
		t.Errorf("with an effect key: %s", replySummary(got))
	}
}

// The clocks of the host that signs and the host that verifies may differ.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	o, log := newOffice(endpoints), &bytes.Buffer{}
	startLogging(t, o, prometheus.NewRegistry(), zerolog.New(log).Level(zerolog.WarnLevel), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, _ tool.Request) (tool.Result, error) {
		return tool.Result{Output: json.RawMessage(`"made"`)}, ctx.Err()
	}})
	claims := capability()
	claims.Expires = time.Now().Add(-2 * time.Second)
	m := sealed(t, claims, request(false))
	if owner, ok := o.owners[contract.ToolHTTPRequest](m); !ok || owner != "org_1" {
		t.Errorf("two seconds late: %s, %v", owner, ok)
	}
	if got := replySummary(o.answer(t, m)); got != `"made"` || log.Len() > 0 {
		t.Errorf("two seconds late: %s; %s", got, log)
	}
	claims.Expires = time.Now().Add(-6 * time.Second)
	if _, ok := o.owners[contract.ToolHTTPRequest](sealed(t, claims, request(false))); ok || !strings.Contains(log.String(), "check that the clocks of all hosts are synchronized") {
		t.Errorf("six seconds late: %v; %s", ok, log)
	}
	log.Reset()
	claims = capability()
	claims.Kind = contract.ToolMCP
	if _, ok := o.owners[contract.ToolHTTPRequest](sealed(t, claims, request(false))); ok || log.Len() == 0 || strings.Contains(log.String(), "clocks") {
		t.Errorf("for another kind: %v; %s", ok, log)
	}
}
