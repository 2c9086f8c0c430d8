package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

func modelError(kind llm.Kind, after time.Duration) error {
	e := llm.NewError(kind, errors.New("internal detail"))
	e.RetryAfter = after
	return e
}

func TestModelErrorsAreClassified(t *testing.T) {
	t.Parallel()
	tests := map[llm.Kind]struct {
		code      string
		retryable bool
	}{
		llm.KindRateLimited:   {agentloop.CodeModelRateLimited, true},
		llm.KindUnavailable:   {agentloop.CodeModelUnavailable, true},
		llm.KindTimeout:       {agentloop.CodeModelTimeout, true},
		llm.KindTruncated:     {agentloop.CodeModelTruncated, true},
		llm.KindBadResponse:   {agentloop.CodeModelUnavailable, true},
		llm.KindTooLarge:      {agentloop.CodeByteLimit, false},
		llm.KindInvalid:       {agentloop.CodeModelRejected, false},
		llm.KindAuth:          {agentloop.CodeModelRejected, false},
		llm.KindQuota:         {agentloop.CodeModelQuota, false},
		llm.KindContextLength: {agentloop.CodeContextTooLong, false},
		llm.KindFiltered:      {agentloop.CodeModelRejected, false},
		llm.KindUnknownModel:  {agentloop.CodeModelNotAvailable, false},
		llm.KindNotConfigured: {agentloop.CodeModelNotAvailable, false},
		llm.Kind("new"):       {agentloop.CodeModelUnavailable, false},
	}
	for kind, want := range tests {
		got := agentloop.Classify(fmt.Errorf("wrapped: %w", modelError(kind, 7*time.Second)))
		if got.Code != want.code || got.Retryable != want.retryable || got.RetryAfter != 7*time.Second || strings.Contains(got.Error(), "internal") {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
	if got := agentloop.Classify(errors.New("internal detail")); !got.Retryable || strings.Contains(got.Error(), "internal") {
		t.Errorf("got %+v", got)
	}
}

// TestRetriesInPlace checks how often a model call is retried within an attempt, and with which
// delays.
func TestRetriesInPlace(t *testing.T) {
	t.Parallel()
	ok := scripted.Call{Deltas: []string{"fine"}}
	tests := []struct {
		name  string
		calls []scripted.Call
		want  string // the answer's text, or the code of the error
		took  time.Duration
		made  int
	}{
		{"once", []scripted.Call{{Err: modelError(llm.KindUnavailable, 0)}, ok}, "fine", 100 * time.Millisecond, 2},
		{"twice", []scripted.Call{{Err: modelError(llm.KindBadResponse, 0)}, {Err: modelError(llm.KindTruncated, 0)}, ok}, "fine", 400 * time.Millisecond, 3},
		{
			"three times is the caller's",
			[]scripted.Call{{Err: modelError(llm.KindUnavailable, 0)}, {Err: modelError(llm.KindUnavailable, 0)}, {Err: modelError(llm.KindUnavailable, 0)}, ok},
			agentloop.CodeModelUnavailable, 400 * time.Millisecond, 3,
		},
		{"as the provider wishes", []scripted.Call{{Err: modelError(llm.KindRateLimited, time.Second)}, ok}, "fine", time.Second, 2},
		{"not if it wishes longer", []scripted.Call{{Err: modelError(llm.KindRateLimited, 2*time.Second)}, ok}, agentloop.CodeModelRateLimited, 0, 1},
		{"not after text", []scripted.Call{{Deltas: []string{"half"}, Err: modelError(llm.KindTruncated, 0)}, ok}, agentloop.CodeModelTruncated, 0, 1},
		{"not after a timeout", []scripted.Call{{Err: modelError(llm.KindTimeout, 0)}, ok}, agentloop.CodeModelTimeout, 0, 1},
		{"not what stays wrong", []scripted.Call{{Err: modelError(llm.KindAuth, 0)}, ok}, agentloop.CodeModelRejected, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := scripted.New("scripted", tt.calls...)
				loop := agentloop.New(agentloop.Config{Jitter: func() float64 { return 0 }})
				began := time.Now()
				out, err := loop.Run(t.Context(), agentloop.Input{Message: "m", Model: model}, newMemory(), nil)
				got := out.Text
				if err != nil {
					got = codeFor(t, err).Code
				}
				if got != tt.want || time.Since(began) != tt.took || len(model.Requests()) != tt.made {
					t.Errorf("got %q after %v and %d calls", got, time.Since(began), len(model.Requests()))
				}
			})
		})
	}
}

func TestRetriesStayWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := scripted.Forever("scripted", scripted.Call{Err: modelError(llm.KindUnavailable, time.Second)})
		loop := agentloop.New(agentloop.Config{Jitter: func() float64 { return 0.999 }})
		began := time.Now()
		_, err := loop.Run(t.Context(), agentloop.Input{Model: model}, newMemory(), nil)
		if took := time.Since(began); took > 2*time.Second || !codeFor(t, err).Retryable {
			t.Errorf("took %v: %v", took, err)
		}
	})
}

func TestTooLongPromptLosesHistory(t *testing.T) {
	t.Parallel()
	history := []agentloop.Turn{}
	for i := range 5 {
		history = append(history, agentloop.PlainTurn(fmt.Sprint("q", i), fmt.Sprint("a", i)))
	}
	long := scripted.Call{Err: modelError(llm.KindContextLength, 0)}
	model := scripted.New("scripted", long, long, scripted.Call{Deltas: []string{"fits"}})
	out, err := newLoop().Run(t.Context(), agentloop.Input{System: "S", Message: "m", Model: model, History: history, OmittedTurns: 2}, newMemory(), nil)
	if err != nil || out.Text != "fits" || out.OmittedTurns != 6 || len(out.Turn.Messages) != 2 {
		t.Fatalf("got %+v, %v", out, err)
	}
	last := model.Requests()[2]
	if len(last.Messages) != 3 || last.Messages[0].Text != "q4" || !strings.HasSuffix(last.System, "were omitted: 6.") || last.SessionStart {
		t.Errorf("got %+v", last)
	}

	never := scripted.Forever("scripted", long)
	_, err = newLoop().Run(t.Context(), agentloop.Input{Message: "m", Model: never, History: history}, newMemory(), nil)
	if e := codeFor(t, err); e.Code != agentloop.CodeContextTooLong || e.Retryable || len(never.Requests()) != 4 ||
		e.Message != "The provider rejected a prompt of 45 bytes (about 15 tokens) as too long for the model scripted, whose context is set to 100000 tokens." {
		t.Errorf("got %+v after %d calls", e, len(never.Requests()))
	}

	_, err = newLoop().Run(t.Context(), agentloop.Input{Message: strings.Repeat("m", 2<<20), Model: scripted.Forever("scripted", long)}, newMemory(), nil)
	if e := codeFor(t, err); e.Message != "The prompt has 2097152 bytes (about 699051 tokens), but the context of the model scripted has only 100000 tokens." {
		t.Errorf("got %+v", e)
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	again := scripted.Call{
		ToolCalls: []llm.ToolCall{{Name: "count", Arguments: json.RawMessage(`{}`)}}, Usage: llm.Usage{InputTokens: 60, OutputTokens: 40},
	}
	large := &fake{name: "count", do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)}, nil
	}}
	tests := []struct {
		code   string
		limits agentloop.Limits
		turns  int
	}{
		{agentloop.CodeTurnLimit, agentloop.Limits{}, 25},
		{agentloop.CodeTurnLimit, agentloop.Limits{MaxTurns: 3}, 3},
		{agentloop.CodeTokenLimit, agentloop.Limits{MaxTokens: 250}, 3},
		{agentloop.CodeByteLimit, agentloop.Limits{MaxBytes: 1500}, 2},
		{agentloop.CodeCostLimit, agentloop.Limits{MaxCostMicros: 250}, 3},
		{agentloop.CodeCostLimit, agentloop.Limits{MaxCostMicros: 300}, 3},
		{agentloop.CodeToolCallLimit, agentloop.Limits{MaxToolCalls: 2}, 3},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.code, tt.turns), func(t *testing.T) {
			t.Parallel()
			model := scripted.Forever("scripted", again)
			in := agentloop.Input{
				Model: model, Tools: registry(t, large), Limits: tt.limits,
				Price: func(_ string, u llm.Usage) int64 { return u.InputTokens + u.OutputTokens },
			}
			out, err := newLoop().Run(t.Context(), in, newMemory(), nil)
			if e := codeFor(t, err); e.Code != tt.code || e.Retryable {
				t.Errorf("got %+v", e)
			}
			calls := tt.turns - 1 // the calls of the last turn are not made, because no model would read their results
			if tt.code == agentloop.CodeByteLimit {
				calls = tt.turns
			}
			if out.Usage.CostMicros != int64(100*tt.turns) {
				t.Errorf("cost %d", out.Usage.CostMicros)
			}
			if out.Turns != tt.turns || len(model.Requests()) != tt.turns || out.Usage.InputTokens != int64(60*tt.turns) || len(out.ToolCalls) != calls {
				t.Errorf("got %d turns, %+v, %d calls", out.Turns, out.Usage, len(out.ToolCalls))
			}
		})
	}
}

// TestCost checks that each turn costs the price of the model that answered. The cost of a later
// attempt includes the cost of the earlier attempts. The usage names the model that gave the last
// answer.
func TestCost(t *testing.T) {
	t.Parallel()
	price := func(model string, _ llm.Usage) int64 { return map[string]int64{"dear": 70, "cheap": 2}[model] }
	journal := &memory{left: 2}
	in := agentloop.Input{Model: scripted.New("dear", asking("count")), Tools: registry(t, counting()), Price: price}
	if _, err := newLoop().Run(t.Context(), in, journal, nil); err == nil {
		t.Fatal("the script is not over")
	}
	journal.left = -1
	in.Model = scripted.New("cheap", done)
	in.Price = func(model string, u llm.Usage) int64 { return price(model, u) - 1 } // the recorded cost does not change
	out, err := newLoop().Run(t.Context(), in, journal, nil)
	if err != nil || out.Usage.CostMicros != 71 || out.Usage.Model != "cheap" {
		t.Errorf("got %+v, %v", out.Usage, err)
	}

	in = agentloop.Input{
		Model: scripted.Forever("dear", asking("count")), Tools: registry(t, counting()), Limits: agentloop.Limits{MaxTurns: 3},
		Price: func(string, llm.Usage) int64 { return math.MaxInt64 },
	}
	if out, err = newLoop().Run(t.Context(), in, newMemory(), nil); err == nil || out.Usage.CostMicros != math.MaxInt64 {
		t.Errorf("got %+v, %v", out.Usage, err)
	}
}

// TestRetryBudget checks that a call is not retried if the budget forbids it. A failure that is not
// retried does not use the budget.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind       llm.Kind
		left       int
		made, asks int
	}{
		"no leave":       {llm.KindUnavailable, 0, 1, 1},
		"leave for one":  {llm.KindUnavailable, 1, 2, 2},
		"leave for many": {llm.KindUnavailable, 9, 3, 2},
		"not asked":      {llm.KindAuth, 9, 1, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asks := 0
				model := scripted.Forever("scripted", scripted.Call{Err: modelError(tt.kind, 0)})
				loop := agentloop.New(agentloop.Config{Retry: func() bool { asks++; return asks <= tt.left }})
				_, err := loop.Run(t.Context(), agentloop.Input{Model: model}, newMemory(), nil)
				if err == nil || len(model.Requests()) != tt.made || asks != tt.asks {
					t.Errorf("%d calls, Retry called %d times: %v", len(model.Requests()), asks, err)
				}
			})
		})
	}
}

func TestBudgetCapsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limits agentloop.Limits
		want   int64
	}{
		{agentloop.Limits{}, 0},
		{agentloop.Limits{MaxAnswerTokens: 500}, 500},
		{agentloop.Limits{MaxTokens: 100}, 100},
		{agentloop.Limits{MaxTokens: 100, MaxAnswerTokens: 500}, 100},
		{agentloop.Limits{MaxTokens: 100, MaxAnswerTokens: 50}, 50},
	} {
		model := scripted.New("scripted", scripted.Call{Deltas: []string{"x"}})
		if _, err := newLoop().Run(t.Context(), agentloop.Input{Model: model, Limits: tt.limits}, newMemory(), nil); err != nil {
			t.Fatal(err)
		}
		if got := model.Requests()[0].MaxTokens; got != tt.want {
			t.Errorf("%+v: got %d", tt.limits, got)
		}
	}
}

func TestToolErrors(t *testing.T) {
	t.Parallel()
	ask := scripted.Call{ToolCalls: []llm.ToolCall{{ID: "a", Name: "count", Arguments: json.RawMessage(`{}`)}}}
	tests := []struct {
		name, output, code string
		result             tool.Result
		err                error
	}{
		{name: "told to the model", err: &tool.Error{Message: "No such \x00page.", Err: errors.New("secret")}, output: `{"error":"No such page."}`},
		{name: "internal", err: errors.New("secret"), output: `{"error":"The tool failed."}`},
		{name: "no output", output: `null`},
		{name: "broken output", result: tool.Result{Output: json.RawMessage(`{`)}, output: `{"error":"The tool's output could not be read."}`},
		{name: "output with NUL", result: tool.Result{Output: json.RawMessage(`"a\u0000b"`)}, output: `"ab"`},
		{name: "lost", err: fmt.Errorf("calling: %w", &tool.Error{Message: "x", Retryable: true}), code: agentloop.CodeToolUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{name: "count", do: func(context.Context, tool.Call) (tool.Result, error) { return tt.result, tt.err }}
			journal := newMemory()
			in := agentloop.Input{Model: scripted.New("scripted", ask, scripted.Call{Deltas: []string{"ok"}}), Tools: registry(t, f)}
			out, err := newLoop().Run(t.Context(), in, journal, nil)
			if tt.code != "" {
				if e := codeFor(t, err); e.Code != tt.code || !e.Retryable || len(journal.steps) != 1 {
					t.Errorf("got %+v, %d steps", e, len(journal.steps))
				}
				return
			}
			if err != nil || out.Text != "ok" || string(out.ToolCalls[0].Output) != tt.output {
				t.Errorf("got %q, %+v, %v", out.Text, out.ToolCalls, err)
			}
		})
	}
}

func TestContextEndsTheRun(t *testing.T) {
	t.Parallel()
	lease := errors.New("lease lost")
	ask := scripted.Call{ToolCalls: []llm.ToolCall{{ID: "a", Name: "count", Arguments: json.RawMessage(`{}`)}}}
	t.Run("in the model", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		model := scripted.New("scripted", scripted.Call{Deltas: []string{"x"}, Hang: true})
		_, err := newLoop().Run(ctx, agentloop.Input{Model: model}, newMemory(), func(agentloop.Event) { cancel(lease) })
		if !errors.Is(err, lease) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("in a tool", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &fake{name: "count", do: func(context.Context, tool.Call) (tool.Result, error) {
			cancel(lease)
			return tool.Result{Output: json.RawMessage(`1`)}, nil
		}}
		journal := newMemory()
		_, err := newLoop().Run(ctx, agentloop.Input{Model: scripted.New("scripted", ask), Tools: registry(t, f)}, journal, nil)
		if !errors.Is(err, lease) || len(journal.steps) != 1 {
			t.Errorf("got %v, %d steps", err, len(journal.steps))
		}
	})
	t.Run("in a retry's wait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			model := scripted.Forever("scripted", scripted.Call{Err: modelError(llm.KindUnavailable, 0)})
			began := time.Now()
			_, err := newLoop().Run(ctx, agentloop.Input{Model: model}, newMemory(), nil)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 50*time.Millisecond {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
	})
}

// TestLongCallIDs checks that long ids of tool calls are replaced by short ids. Approvals contain
// these ids.
func TestLongCallIDs(t *testing.T) {
	t.Parallel()
	model := scripted.New("scripted", scripted.Call{
		ToolCalls: []llm.ToolCall{{ID: strings.Repeat("x", 1500), Name: "webSearch", Arguments: json.RawMessage(`{}`)}},
	}, scripted.Call{Deltas: []string{"ok"}})
	out, err := newLoop().Run(t.Context(), agentloop.Input{Message: "m", Model: model}, newMemory(), nil)
	if err != nil || len(out.ToolCalls) != 1 || out.ToolCalls[0].ID != "call_1_1" {
		t.Errorf("%+v, %v", out.ToolCalls, err)
	}
}

// TestARejectedRetryKeepsTheProvidersResponse checks the error of a run if a circuit breaker
// rejects the retry of a call. The error must contain the provider's response to the first call,
// and the delay that the breaker demands.
func TestARejectedRetryKeepsTheProvidersResponse(t *testing.T) {
	t.Parallel()
	said := &domain.ProviderError{Status: 200, Message: "cut"}
	dropped := llm.NewError(llm.KindTruncated, nil)
	dropped.Provider = said
	rejected := llm.NewUnused(llm.KindUnavailable, nil)
	rejected.RetryAfter = 9 * time.Second
	model := scripted.New("m", scripted.Call{Err: dropped}, scripted.Call{Err: rejected})
	_, err := newLoop().Run(t.Context(), agentloop.Input{Message: "hi", Model: model}, newMemory(), nil)
	var e *agentloop.Error
	if !errors.As(err, &e) || e.Code != agentloop.CodeModelTruncated || e.Provider != said || e.RetryAfter != rejected.RetryAfter {
		t.Errorf("%+v", err)
	}
}
