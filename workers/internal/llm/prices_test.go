package llm_test

import (
	"math"
	"testing"

	"parley/workers/internal/llm"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	p, err := llm.ParsePrices(" openai/gpt-5-mini=0.25/2, anthropic/*=3/15,anthropic/claude-haiku-*=.1/0.5,openai/gpt-5*=1.25/10, free/x=0/0,tiny/x=0.000001/1,")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		model   string
		in, out int64
		want    int64
	}{
		{"openai/gpt-5-mini", 1_000_000, 1_000_000, 2_250_000},
		{"openai/gpt-5-mini", 4, 0, 1},
		{"openai/gpt-5-mini", 1, 0, 1}, // a quarter, rounded up
		{"openai/gpt-5-mini", 0, 0, 0},
		{"openai/gpt-5-mini-2025", 100, 10, 225}, // the price of the prefix applies
		{"openai/gpt-5", 100, 10, 225},
		{"anthropic/claude-opus-5-5", 1000, 100, 4500},
		{"anthropic/claude-haiku-5-5", 1000, 100, 150},
		{"free/x", 1000, 100, 0},
		{"tiny/x", 1, 0, 1},
		{"offline", 1000, 100, 0},
		{"anthropic/x", -5, -5, 0},
		{"anthropic/x", math.MaxInt64, math.MaxInt64, math.MaxInt64},
	}
	for _, tt := range tests {
		if got := p.Cost(tt.model, llm.Usage{InputTokens: tt.in, OutputTokens: tt.out}); got != tt.want {
			t.Errorf("%s %d/%d: got %d, want %d", tt.model, tt.in, tt.out, got, tt.want)
		}
	}
	if got := (llm.Prices{}).Cost("any", llm.Usage{InputTokens: 5}); got != 0 {
		t.Errorf("without prices: %d", got)
	}
}

func TestAnExactNameBeatsAPatternOfItsLength(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"a/b*=1/1,a/b=2/2,*=9/9", "*=9/9,a/b=2/2,a/b*=1/1"} {
		p, err := llm.ParsePrices(setting)
		if err != nil {
			t.Fatal(err)
		}
		for model, want := range map[string]int64{"a/b": 2, "a/bc": 1, "c": 9} {
			if got := p.Cost(model, llm.Usage{InputTokens: 1}); got != want {
				t.Errorf("%s: %s costs %d", setting, model, got)
			}
		}
	}
}

func TestBadPrices(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"openai/x", "openai/x=", "openai/x=1", "=1/2", "a*b=1/2", "a**=1/2", "x=-1/2", "x=1e3/2", "x=1/NaN", "x=1/.", "x=1/2/3",
		"x=0.0000001/1", "x=1/2,x=1/2", "x=9999999999/1", "x=99999999999999999999/1", "x=0x1/1", "x=1 000/1",
	} {
		if _, err := llm.ParsePrices(setting); err == nil {
			t.Errorf("%q was accepted", setting)
		}
	}
}
