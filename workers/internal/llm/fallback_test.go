package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/scripted"
)

func TestFallbacksConform(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		New: func(*testing.T) llm.Model {
			return llm.WithFallbacks(scripted.Forever("down", scripted.Call{Err: llm.NewError(llm.KindUnavailable, nil)}), renamed{offline.Echo{}})
		},
		NewSlow: func(*testing.T) llm.Model {
			return llm.WithFallbacks(scripted.New("slow", scripted.Call{Deltas: []string{"a"}, Hang: true}), offline.Echo{})
		},
	})
}

// renamed is a model whose answers name the first model, "down", as the model that answered. The
// common tests require that this name is the name in Info.
type renamed struct{ llm.Model }

func (r renamed) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	res, err := r.Model.Stream(ctx, req, emit)
	res.Model = "down"
	return res, err
}

func TestFallbacks(t *testing.T) {
	t.Parallel()
	fails := func(kind llm.Kind) scripted.Call { return scripted.Call{Err: llm.NewError(kind, nil)} }
	answers := scripted.Call{Deltas: []string{"fine"}}
	later := func(after time.Duration) scripted.Call {
		e := llm.NewError(llm.KindRateLimited, nil)
		e.RetryAfter = after
		return scripted.Call{Err: e}
	}
	tests := map[string]struct {
		models []scripted.Call
		model  string   // name of the model that answered
		kind   llm.Kind // expected kind of the error if no model answers
		asked  string
	}{
		"the first answers":         {[]scripted.Call{answers, answers}, "a", "", "a"},
		"unavailable":               {[]scripted.Call{fails(llm.KindUnavailable), answers}, "b", "", "ab"},
		"rate limited":              {[]scripted.Call{fails(llm.KindRateLimited), answers}, "b", "", "ab"},
		"timeout":                   {[]scripted.Call{fails(llm.KindTimeout), answers}, "b", "", "ab"},
		"bad response":              {[]scripted.Call{fails(llm.KindBadResponse), answers}, "b", "", "ab"},
		"truncated, nothing shown":  {[]scripted.Call{fails(llm.KindTruncated), answers}, "b", "", "ab"},
		"credentials":               {[]scripted.Call{fails(llm.KindAuth), answers}, "b", "", "ab"},
		"quota":                     {[]scripted.Call{fails(llm.KindQuota), answers}, "b", "", "ab"},
		"unknown":                   {[]scripted.Call{fails(llm.KindUnknownModel), fails(llm.KindNotConfigured), answers}, "c", "", "abc"},
		"something shown":           {[]scripted.Call{{Deltas: []string{"I"}, Err: llm.NewError(llm.KindTruncated, nil)}, answers}, "", llm.KindTruncated, "a"},
		"too long a prompt":         {[]scripted.Call{fails(llm.KindContextLength), answers}, "", llm.KindContextLength, "a"},
		"too long for the fallback": {[]scripted.Call{fails(llm.KindUnavailable), fails(llm.KindContextLength), answers}, "c", "", "abc"},
		"refused":                   {[]scripted.Call{fails(llm.KindInvalid), answers}, "", llm.KindInvalid, "a"},
		"withheld":                  {[]scripted.Call{fails(llm.KindFiltered), answers}, "", llm.KindFiltered, "a"},
		"withheld by the fallback":  {[]scripted.Call{fails(llm.KindTimeout), fails(llm.KindFiltered), answers}, "", llm.KindFiltered, "ab"},
		"too large":                 {[]scripted.Call{fails(llm.KindTooLarge), answers}, "", llm.KindTooLarge, "a"},
		"what may pass is reported": {[]scripted.Call{fails(llm.KindAuth), fails(llm.KindUnavailable), fails(llm.KindQuota)}, "", llm.KindUnavailable, "abc"},
		"what passes sooner":        {[]scripted.Call{later(time.Minute), fails(llm.KindTimeout)}, "", llm.KindTimeout, "ab"},
		"none of them":              {[]scripted.Call{fails(llm.KindAuth), fails(llm.KindQuota)}, "", llm.KindAuth, "ab"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var models []llm.Model
			var played []*scripted.Model
			for i, call := range tt.models {
				m := scripted.New(string(rune('a'+i)), call)
				models, played = append(models, m), append(played, m)
			}
			m := llm.WithFallbacks(models[0], models[1:]...)
			res, err := m.Stream(t.Context(), llm.Request{}, func(llm.Delta) {})
			var e *llm.Error
			if errors.As(err, &e) != (tt.kind != "") || (e != nil && e.Kind != tt.kind) || res.Model != tt.model || m.Info().Name != "a" {
				t.Errorf("got %+v, %v", res, err)
			}
			var asked strings.Builder
			for _, p := range played {
				if len(p.Requests()) > 0 {
					asked.WriteString(p.Info().Name)
				}
			}
			if asked.String() != tt.asked {
				t.Errorf("called %s", asked.String())
			}
		})
	}
}

func TestACancelledCallAsksNobodyElse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	first, second := scripted.New("a", scripted.Call{Hang: true}), scripted.New("b", scripted.Call{})
	cancel()
	_, err := llm.WithFallbacks(first, second).Stream(ctx, llm.Request{}, func(llm.Delta) {})
	if !errors.Is(err, context.Canceled) || len(second.Requests()) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestResolveAll(t *testing.T) {
	t.Parallel()
	r, err := llm.NewRegistry("offline", map[string]llm.Provider{"offline": offline.Provider{}}, "openai")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		model     string
		fallbacks []string
		want      string
		kind      llm.Kind
	}{
		{"", nil, "offline", ""},
		{"offline/echo", []string{"offline"}, "offline/echo", ""},
		{"openai/x", []string{"offline/echo"}, "offline/echo", ""},
		{"offline/echo", []string{"nonsense", "offline/echo", ""}, "offline/echo", ""},
		{"openai/x", []string{"nonsense"}, "", llm.KindNotConfigured},
		{"nonsense", nil, "", llm.KindUnknownModel},
	}
	for _, tt := range tests {
		m, err := r.ResolveAll(tt.model, tt.fallbacks)
		var e *llm.Error
		switch {
		case errors.As(err, &e) != (tt.kind != ""), e != nil && e.Kind != tt.kind:
			t.Errorf("%s %v: %v", tt.model, tt.fallbacks, err)
		case e == nil && m.Info().Name != tt.want:
			t.Errorf("%s %v: %s", tt.model, tt.fallbacks, m.Info().Name)
		}
	}
}

// spend uses up a budget and returns the number of retries that the budget allowed.
func spend(b *llm.Budget) int {
	n := 0
	for b.Spend() {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := llm.NewBudget(2)
	if n := spend(b); n != 2 {
		t.Errorf("%d retries", n)
	}
	for range 9 {
		b.Earn()
	}
	if b.Spend() {
		t.Error("nine answers pay for no retry")
	}
	b.Earn()
	if !b.Spend() {
		t.Error("ten answers pay for no retry")
	}
	for range 1000 {
		b.Earn()
	}
	if n := spend(b); n != 2 {
		t.Errorf("the budget has %d retries", n)
	}
	var none *llm.Budget
	none.Earn()
	if !none.Spend() {
		t.Error("no budget, no bound")
	}
	if b := llm.NewBudget(-1); !b.Spend() {
		t.Error("the smallest budget holds one retry")
	}
}
