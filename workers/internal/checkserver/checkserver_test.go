package checkserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/store/budgetdb"
	"parley/workers/internal/checkserver"
	"parley/workers/internal/llm"
	"parley/workers/internal/signed/signedtest"
	"parley/workers/internal/tool"
)

// testEnv is the environment of a check server. The name of each connection determines how the
// connection behaves.
type testEnv struct {
	*signedtest.Bus

	cfg     domain.Config
	noCfg   error
	budgets *budgets
}

func (e *testEnv) Config(_ context.Context, org, agentID string, version int) (domain.Config, error) {
	if org != "org_1" || agentID != "ag_1" || version != 3 {
		return domain.Config{}, fmt.Errorf("no configuration of %s %s %d", org, agentID, version)
	}
	return e.cfg, e.noCfg
}

func (e *testEnv) Provider() string { return "searxng" }

// try simulates an attempt to use a connection.
func (e *testEnv) try(ctx context.Context, name string) (string, error) {
	switch {
	case strings.Contains(name, "hangs"):
		<-ctx.Done()
		return "", ctx.Err()
	case strings.Contains(name, "panics"):
		panic("a secret")
	case strings.Contains(name, "breaks"):
		return "", errors.New("dial 10.0.0.1: a secret")
	case strings.Contains(name, "refuses"):
		return "", &tool.Error{Message: "The server rejected the credentials (status 401).", Err: errors.New("a secret")}
	case strings.Contains(name, "away"):
		return "", &outbound.Error{Message: "The host could not be reached.", Err: errors.New("a secret")}
	case strings.Contains(name, "refused"):
		return "", llm.NewUnused(llm.KindAuth, errors.New("a secret"))
	case strings.Contains(name, "unknown"):
		return "", llm.UnknownModel(name)
	case strings.Contains(name, "long"):
		return strings.Repeat("x", 1000), nil
	}
	return "works", nil
}

type search struct{ *testEnv }

func (s search) Check(ctx context.Context) (string, error) { return s.try(ctx, "search") }

type servers struct{ *testEnv }

func (s servers) Check(ctx context.Context, req tool.Request, server domain.MCPServer) (string, error) {
	if req.OrganizationID != "org_1" || req.TargetID != "ag_1" || req.Config.Tools.MCP == nil {
		return "", fmt.Errorf("a request of %s %s", req.OrganizationID, req.TargetID)
	}
	return s.try(ctx, server.Name)
}

type hosts struct{ *testEnv }

func (h hosts) Connect(ctx context.Context, origin string, _ time.Duration) error {
	_, err := h.try(ctx, origin)
	return err
}

type models struct{ *testEnv }

func (m models) Default() string { return "offline" }

func (m models) Resolve(name string) (llm.Model, error) {
	if strings.Contains(name, "unknown") {
		return nil, llm.UnknownModel(name)
	}
	return model{m.testEnv, name}, nil
}

type model struct {
	*testEnv

	name string
}

func (m model) Info() llm.Info { return llm.Info{Name: m.name} }

func (m model) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	if req.MaxTokens < 1 || req.MaxTokens > 64 {
		return llm.Response{}, fmt.Errorf("%d tokens", req.MaxTokens)
	}
	_, err := m.try(ctx, m.name)
	return llm.Response{Usage: llm.Usage{InputTokens: 20, OutputTokens: 2}}, err
}

// start runs a server until the test ends.
func (e *testEnv) start(t *testing.T, newServer func(checkserver.Deps) *checkserver.Server) {
	t.Helper()
	e.Bus = signedtest.NewBus()
	e.Start(t, newServer(checkserver.Deps{Bus: e, Records: e, Verifier: signedtest.Signer(t), Log: zerolog.Nop()}).Run)
}

func claims(kind string) contract.CheckClaims {
	return contract.CheckClaims{OrganizationID: "org_1", Kind: kind, AgentID: "ag_1", KeyID: "key_1", Version: 3, Expires: time.Now().Add(30 * time.Second)}
}

// check requests a check and returns the results as text, one per line, without their durations.
func (e *testEnv) check(t *testing.T) string {
	t.Helper()
	raw, ok := e.Handle(t.Context(), signedtest.Message(t, claims(e.Kind), ""))
	var reply contract.CheckReply
	if err := json.Unmarshal(raw, &reply); err != nil || !ok || reply.Unavailable {
		t.Fatalf("%s, %v, %v", raw, ok, err)
	}
	var lines []string
	for _, c := range reply.Checks {
		lines = append(lines, fmt.Sprintf("%s %s %v %s", c.Kind, c.Name, c.OK, c.Detail))
	}
	return strings.Join(lines, "\n")
}

func newTools(e *testEnv) func(checkserver.Deps) *checkserver.Server {
	return func(d checkserver.Deps) *checkserver.Server {
		return checkserver.NewTools(search{e}, servers{e}, hosts{e}, d)
	}
}

func newModels(e *testEnv) func(checkserver.Deps) *checkserver.Server {
	price := func(model string, used llm.Usage) int64 {
		if model != "offline" {
			return 0
		}
		return 2*used.InputTokens + 3*used.OutputTokens
	}
	return func(d checkserver.Deps) *checkserver.Server {
		return checkserver.NewModels(models{e}, e.budgets, price, d)
	}
}

// Each connection of an enabled tool has one result, whose reason may be shown to callers.
func TestConnectionsOfTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &testEnv{cfg: domain.Config{Tools: domain.Tools{
			WebSearch: &domain.Switch{Enabled: true},
			MCP: &domain.MCPTool{Enabled: true, Servers: []domain.MCPServer{
				{Name: "works"}, {Name: "refuses"}, {Name: "breaks"}, {Name: "panics"}, {Name: "hangs"},
			}},
			HTTPRequest: &domain.HTTPRequestTool{Enabled: true, Endpoints: []domain.Endpoint{
				{Name: "a", URL: "https://works.example.com/{x}"},
				{Name: "b", URL: "https://away.example.com/"},
				{Name: "c", URL: "https://works.example.com/other"},
				{Name: "d", URL: "https://user@example.com/"},
			}},
		}}}
		e.start(t, newTools(e))
		const want = `webSearch searxng true works
mcp works true works
mcp refuses false The server rejected the credentials (status 401).
mcp breaks false The check failed because of an internal error of the service.
mcp panics false The check failed because of an internal error of the service.
mcp hangs false The check returned no result within 8s.
httpRequest a true connected to the host; no request was sent
httpRequest c true connected to the host; no request was sent
httpRequest b false The host could not be reached.
httpRequest d false The endpoint's URL is not valid.`
		if got := e.check(t); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}

		e.cfg = domain.Config{Tools: domain.Tools{WebSearch: &domain.Switch{}, MCP: &domain.MCPTool{Servers: []domain.MCPServer{{Name: "works"}}}}}
		if got := e.check(t); got != "" {
			t.Errorf("disabled tools: %s", got)
		}
	})
}

// A check ends before its claims expire, even if all connections hang.
func TestManyConnectionsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hanging []domain.MCPServer
		for n := range 100 {
			hanging = append(hanging, domain.MCPServer{Name: fmt.Sprint("hangs", n)})
		}
		e := &testEnv{cfg: domain.Config{Tools: domain.Tools{MCP: &domain.MCPTool{Enabled: true, Servers: hanging}}}}
		e.start(t, newTools(e))
		began := time.Now()
		got := e.check(t)
		if took := time.Since(began); took > 30*time.Second || strings.Count(got, "false") != 100 || !strings.Contains(got, "Not checked") {
			t.Errorf("after %s: %s", took, got)
		}
	})
}

func TestModels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &testEnv{cfg: domain.Config{FallbackModels: []string{"openai/hangs", "openai/unknown", "openai/long"}}, budgets: &budgets{}}
		e.start(t, newModels(e))
		const want = `model offline true answered; 20 input and 2 output tokens
model openai/hangs false The check returned no result within 20s.
model openai/unknown false The model "openai/unknown" does not exist.
model openai/long true answered; 20 input and 2 output tokens`
		if got := e.check(t); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// budgets is a store that records the reservations and the usage of checks.
type budgets struct {
	lacking  *budgetdb.InsufficientBudget
	away     error
	reserved []budgetdb.Amounts
	charged  []chargedCall
}

type chargedCall struct {
	check    budgetdb.Call
	held     bool
	used     budgetdb.Amounts
	reported budgetdb.CallUsage
}

func (b *budgets) ReserveCall(_ context.Context, _ budgetdb.Call, _ string, maximum budgetdb.Amounts) (int, *budgetdb.InsufficientBudget, error) {
	if b.lacking != nil || b.away != nil {
		return 0, b.lacking, b.away
	}
	b.reserved = append(b.reserved, maximum)
	return 2, nil, nil
}

func (b *budgets) ChargeCall(_ context.Context, c budgetdb.Call, hold string, used budgetdb.Amounts, reported budgetdb.CallUsage) error {
	c.StartedAt = time.Time{}
	b.charged = append(b.charged, chargedCall{c, hold != "", used, reported})
	return nil
}

// All calls of a check are reserved together before the first call, and charged like the calls of a
// run.
func TestCallsOfModelsAreCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &testEnv{cfg: domain.Config{FallbackModels: []string{"openai/hangs", "openai/unknown", "openai/refused"}}, budgets: &budgets{}}
		e.start(t, newModels(e))
		e.check(t)
		if len(e.budgets.reserved) != 1 || len(e.budgets.charged) != 1 {
			t.Fatalf("reserved %v, charged %v", e.budgets.reserved, e.budgets.charged)
		}

		// Three models are called. For the model that does not respond, the reserved maximum is
		// charged. The call that the provider refused costs nothing.
		reserved := e.budgets.reserved[0]
		each := reserved.Tokens / 3
		want := chargedCall{
			budgetdb.Call{OrganizationID: "org_1", AgentID: "ag_1", KeyID: "key_1"},
			true,
			budgetdb.Amounts{Tokens: 22 + each, CostMicros: 46},
			budgetdb.CallUsage{InputTokens: 20, OutputTokens: 2, CostMicros: 46},
		}
		if got := e.budgets.charged[0]; got != want || each < 1024 || reserved.CostMicros != 2*(each-16)+3*16 {
			t.Errorf("reserved %+v, charged %+v, want %+v", reserved, got, want)
		}
	})
}

// If a budget does not have enough left, no model is called, and the reply contains the budget.
func TestBudgetsRefuseChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &testEnv{cfg: domain.Config{Model: "openai/hangs"}, budgets: &budgets{lacking: &budgetdb.InsufficientBudget{Budget: domain.Budget{ID: "bud_1"}, Later: true}}}
		e.start(t, newModels(e))
		began := time.Now()
		raw, _ := e.Handle(t.Context(), signedtest.Message(t, claims(e.Kind), ""))
		var reply contract.CheckReply
		if err := json.Unmarshal(raw, &reply); err != nil || reply.Lacking == nil || reply.Lacking.ID != "bud_1" || !reply.Later || reply.Checks != nil {
			t.Errorf("%s, %v", raw, err)
		}
		e.budgets.lacking, e.budgets.away = nil, errors.New("the database is away")
		if raw, _ = e.Handle(t.Context(), signedtest.Message(t, claims(e.Kind), "")); string(raw) != `{"unavailable":true}` {
			t.Errorf("without a database: %s", raw)
		}
		// The reservation may exist although storing it returned an error, so it must be replaced
		// by a charge of zero.
		if len(e.budgets.charged) != 1 || !e.budgets.charged[0].held || e.budgets.charged[0].used != (budgetdb.Amounts{}) {
			t.Errorf("charged %+v", e.budgets.charged)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a model was called: %s", took)
		}
	})
}

// The claims must be for this kind of check and name a version of an agent.
func TestClaims(t *testing.T) {
	t.Parallel()
	e := &testEnv{}
	e.start(t, newTools(e))
	good, other, noAgent, noVersion := claims(e.Kind), claims(contract.KindCheckModels), claims(e.Kind), claims(e.Kind)
	noAgent.AgentID, noVersion.Version = "", 0
	for name, c := range map[string]contract.CheckClaims{"another kind": other, "no agent": noAgent, "no version": noVersion} {
		if _, ok := e.Owner(signedtest.Message(t, c, "")); ok {
			t.Errorf("%s: accepted", name)
		}
		if _, ok := e.Handle(t.Context(), signedtest.Message(t, c, "")); ok {
			t.Errorf("%s: executed", name)
		}
	}

	e.noCfg = errors.New("the database is away")
	if raw, ok := e.Handle(t.Context(), signedtest.Message(t, good, "")); string(raw) != `{"unavailable":true}` || !ok {
		t.Errorf("without a database: %s, %v", raw, ok)
	}
}
