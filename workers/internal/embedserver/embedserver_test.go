package embedserver_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/budgetdb"
	"parley/workers/internal/embed"
	"parley/workers/internal/embedserver"
	"parley/workers/internal/llm"
	"parley/workers/internal/signed/signedtest"
)

// testEnv is the environment of a server: the bus, the budgets and the embedder.
type testEnv struct {
	*signedtest.Bus

	compute  func(embed.Request) (embed.Vectors, error)
	lacking  *budgetdb.InsufficientBudget
	reserved []budgetdb.Amounts
	charged  []budgetdb.Amounts
	reported []budgetdb.CallUsage
	call     budgetdb.Call
}

func (e *testEnv) Find(model string) (string, error) {
	if model == "unknown" {
		return "", llm.NewUnused(llm.KindUnknownModel, errors.New("a secret"))
	}
	return "openai/" + model, nil
}

func (e *testEnv) Compute(_ context.Context, r embed.Request) (embed.Vectors, error) {
	return e.compute(r)
}

func (e *testEnv) ReserveCall(_ context.Context, c budgetdb.Call, _ string, maximum budgetdb.Amounts) (int, *budgetdb.InsufficientBudget, error) {
	if e.lacking != nil {
		return 0, e.lacking, nil
	}
	e.call, e.reserved = c, append(e.reserved, maximum)
	return 1, nil, nil
}

func (e *testEnv) ChargeCall(_ context.Context, _ budgetdb.Call, _ string, used budgetdb.Amounts, reported budgetdb.CallUsage) error {
	e.charged, e.reported = append(e.charged, used), append(e.reported, reported)
	return nil
}

// start runs a server until the test ends. Each token costs 3 millionths of the currency unit.
func start(t *testing.T, compute func(embed.Request) (embed.Vectors, error)) *testEnv {
	t.Helper()
	e := &testEnv{Bus: signedtest.NewBus(), compute: compute}
	e.Start(t, embedserver.New(embedserver.Deps{
		Bus: e, Embedder: e, Budgets: e, Verifier: signedtest.Signer(t), Log: zerolog.Nop(),
		Price: func(_ string, used llm.Usage) int64 { return 3 * used.InputTokens },
	}).Run)
	return e
}

func claims() contract.EmbedClaims {
	return contract.EmbedClaims{OrganizationID: "org_1", KeyID: "key_1", Kind: contract.KindEmbed, Expires: time.Now().Add(30 * time.Second)}
}

func (e *testEnv) embed(t *testing.T, body string) (reply contract.EmbedReply) {
	t.Helper()
	raw, ok := e.Handle(t.Context(), signedtest.Message(t, claims(), body))
	if err := json.Unmarshal(raw, &reply); err != nil || !ok || len(raw) > 1<<20 {
		t.Fatalf("%s, %v, %v", raw[:min(len(raw), 200)], ok, err)
	}
	return reply
}

func TestVectors(t *testing.T) {
	t.Parallel()
	e := start(t, func(r embed.Request) (embed.Vectors, error) {
		if r.Model != "m" || r.Dimensions != 2 {
			t.Errorf("%+v", r)
		}
		return embed.Vectors{Model: "openai/m", List: [][]float32{{1, -2}, {0.5, 3}}, InputTokens: 7}, nil
	})
	reply := e.embed(t, `{"model":"m","texts":["a","bc"],"dimensions":2}`)
	if reply.Model != "openai/m" || len(reply.Vectors) != 2 || reply.InputTokens != 7 ||
		math.Float32frombits(binary.LittleEndian.Uint32(reply.Vectors[0][4:])) != -2 {
		t.Errorf("%+v", reply)
	}
	// The reservation is one token for each byte, plus an overhead for each text. The charge is the
	// number of tokens that the service reports.
	if e.reserved[0].Tokens != 3+2*16 || e.reserved[0].CostMicros != 3*35 || e.charged[0] != (budgetdb.Amounts{Tokens: 7, CostMicros: 21}) ||
		e.reported[0] != (budgetdb.CallUsage{InputTokens: 7, CostMicros: 21}) || e.call.OrganizationID != "org_1" || e.call.KeyID != "key_1" || e.call.AgentID != "" {
		t.Errorf("reserved %+v, charged %+v, reported %+v for %+v", e.reserved, e.charged, e.reported, e.call)
	}
}

// A reply contains as many vectors as fit into a message, but at least one.
func TestManyVectors(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{4096: 40, 16_384: 10} {
		e := start(t, func(r embed.Request) (embed.Vectors, error) {
			v := embed.Vectors{InputTokens: 1}
			for range r.Texts {
				v.List = append(v.List, make([]float32, size))
			}
			return v, nil
		})
		if got := len(e.embed(t, `{"model":"m","texts":["a"`+strings.Repeat(`,"a"`, 39)+`]}`).Vectors); got != want {
			t.Errorf("%d vectors of %d numbers, want %d", got, size, want)
		}
	}
}

// The reply contains an error code for the caller. A failed call is free only if the service has
// done no work.
func TestFailures(t *testing.T) {
	t.Parallel()
	limited := llm.NewUnused(llm.KindRateLimited, errors.New("a secret"))
	limited.RetryAfter = time.Minute
	unknownThere := llm.NewUnused(llm.KindUnknownModel, errors.New("a secret"))
	unknownThere.Provider = &domain.ProviderError{Status: 404}
	for name, c := range map[string]struct {
		err  error
		want string
		free bool
	}{
		"rate limited":           {limited, "rate_limited ", true},
		"too long":               {llm.NewUnused(llm.KindContextLength, errors.New("a secret")), "invalid_request input", true},
		"rejected":               {llm.NewUnused(llm.KindInvalid, errors.New("a secret")), "invalid_request input", true},
		"timeout":                {llm.NewError(llm.KindTimeout, errors.New("a secret")), "unavailable ", false},
		"credentials":            {llm.NewUnused(llm.KindAuth, errors.New("a secret")), "unavailable ", true},
		"unknown to the service": {unknownThere, "unavailable ", true},
		"internal":               {errors.New("a secret"), "unavailable ", false},
	} {
		e := start(t, func(embed.Request) (embed.Vectors, error) { return embed.Vectors{}, c.err })
		f := e.embed(t, `{"model":"m","texts":["a"]}`).Failure
		if f == nil || string(f.Code)+" "+f.Field != c.want || strings.Contains(f.Message, "secret") || f.Message == "" {
			t.Errorf("%s: %+v", name, f)
		}
		if charged := e.charged[0]; (charged == budgetdb.Amounts{}) != c.free || e.reported[0] != (budgetdb.CallUsage{}) || !c.free && charged != e.reserved[0] {
			t.Errorf("%s: charged %+v of %+v", name, charged, e.reserved)
		}
	}

	panics := start(t, func(embed.Request) (embed.Vectors, error) { panic("a secret") })
	if f := panics.embed(t, `{"model":"m","texts":["a"]}`).Failure; f == nil || f.Code != "unavailable" || len(panics.charged) != 1 {
		t.Errorf("after a panic: %+v, charged %+v", f, panics.charged)
	}

	unused := start(t, func(embed.Request) (embed.Vectors, error) { return embed.Vectors{}, errors.New("called") })
	if f := unused.embed(t, `{"model":"unknown","texts":["a"]}`).Failure; f == nil || f.Code != "not_found" || f.Field != "model" || len(unused.reserved) > 0 {
		t.Errorf("an unknown model: %+v, reserved %+v", f, unused.reserved)
	}
	unused.lacking = &budgetdb.InsufficientBudget{Budget: domain.Budget{ID: "bud_1"}, Later: true}
	if reply := unused.embed(t, `{"model":"m","texts":["a"]}`); reply.Lacking == nil || reply.Lacking.ID != "bud_1" || !reply.Later || reply.Failure != nil {
		t.Errorf("without room in a budget: %+v", reply)
	}
}

// If the service reports no number of tokens, the maximum is charged to the budgets, and the usage
// contains an estimate.
func TestEstimatedTokens(t *testing.T) {
	t.Parallel()
	e := start(t, func(embed.Request) (embed.Vectors, error) {
		return embed.Vectors{List: [][]float32{{1}}, InputTokens: 2, Estimated: true}, nil
	})
	e.embed(t, `{"model":"m","texts":["some text"]}`)
	if e.charged[0] != e.reserved[0] || e.reported[0].InputTokens != 2 {
		t.Errorf("charged %+v of %+v, reported %+v", e.charged, e.reserved, e.reported)
	}
}

// A request needs claims for embeddings and at least one text.
func TestClaims(t *testing.T) {
	t.Parallel()
	e := start(t, func(embed.Request) (embed.Vectors, error) { return embed.Vectors{}, errors.New("called") })
	const body = `{"model":"m","texts":["a"]}`
	other := claims()
	other.Kind = contract.KindSearch
	for name, m := range map[string]bus.ToolMessage{"another kind": signedtest.Message(t, other, body), "no JSON": signedtest.Message(t, claims(), "x")} {
		if _, ok := e.Owner(m); ok {
			t.Errorf("%s: accepted", name)
		}
		if _, ok := e.Handle(t.Context(), m); ok {
			t.Errorf("%s: executed", name)
		}
	}
	if owner, ok := e.Owner(signedtest.Message(t, claims(), body)); owner != "org_1" || !ok {
		t.Errorf("owner = %s, %v", owner, ok)
	}
}
