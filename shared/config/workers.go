package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
)

// Workers contains the settings of workers.
type Workers struct {
	WorkerConcurrency int     `name:"worker-concurrency" env:"WORKER_CONCURRENCY" default:"0" help:"Runs executed simultaneously in each lane (chats, automations), plus an eighth in reserve; 0: 2500 per core, or fewer if memory is small."`
	RunMaxTurns       int     `name:"run-max-turns" env:"RUN_MAX_TURNS" default:"25" help:"Maximum model calls of a run."`
	RunMaxTokens      int64   `name:"run-max-tokens" env:"RUN_MAX_TOKENS" default:"1000000" help:"Maximum model tokens of a run, input and output together."`
	RunMaxCost        float64 `name:"run-max-cost" env:"RUN_MAX_COST" default:"0" help:"Maximum cost of a run, in PRICES_CURRENCY; 0: no limit."`
	RunMaxBytes       int64   `name:"run-max-bytes" env:"RUN_MAX_BYTES" default:"8388608" help:"Maximum bytes of model and tool output in a run."`
	OpenAIAPIKey      string  `name:"openai-api-key" env:"OPENAI_API_KEY" help:"API key for OpenAI or a compatible service."`
	OpenAIBaseURL     string  `name:"openai-base-url" env:"OPENAI_BASE_URL" help:"URL of an OpenAI-compatible service, including /v1."`
	AnthropicAPIKey   string  `name:"anthropic-api-key" env:"ANTHROPIC_API_KEY" help:"API key for Anthropic."`
	AnthropicBaseURL  string  `name:"anthropic-base-url" env:"ANTHROPIC_BASE_URL" help:"URL of another service that implements Anthropic's Messages API."`
	ModelPrices       string  `name:"model-prices" env:"MODEL_PRICES" help:"Prices of a million input and output tokens, as in openai/gpt-5-mini=0.25/2,anthropic/*=3/15; the longest matching name applies."`
	ToolConcurrency   int     `name:"tool-concurrency" env:"TOOL_CONCURRENCY" default:"0" help:"Tool calls executed simultaneously, of each kind; 0: 32 per core."`
	SearxngURL        string  `name:"searxng-url" env:"SEARXNG_URL" help:"Address of a SearXNG for web search; its JSON format must be enabled."`
	BraveAPIKey       string  `name:"brave-api-key" env:"BRAVE_API_KEY" help:"API key for Brave Search."`
	TavilyAPIKey      string  `name:"tavily-api-key" env:"TAVILY_API_KEY" help:"API key for Tavily."`
	WikipediaURL      string  `name:"wikipedia-url" env:"WIKIPEDIA_URL" default:"https://en.wikipedia.org" help:"MediaWiki site to search if no search service is configured."`
	MetricsAddr       string  `name:"metrics-addr" env:"METRICS_ADDR" help:"Address (host:port) for workers' /metrics, /healthz and /readyz; empty: none."`
	Outbound
	Sandbox
	Ingest
	Speech
}

const (
	// upper bound of RUN_MAX_TURNS
	maxTurns = 1000
	// upper bound of RUN_MAX_COST; the bound in millionths fits into 64 bits
	maxCost  = 1e9
	minBytes = 64 << 10 // the largest output of a tool
)

// Check returns an error for the first invalid setting. Zero limits mean the default.
// workers.CheckModels checks MODEL_PRICES.
func (w Workers) Check() error {
	switch {
	case w.WorkerConcurrency < 0:
		return fmt.Errorf("WORKER_CONCURRENCY must not be negative: %d", w.WorkerConcurrency)
	case w.ToolConcurrency < 0:
		return fmt.Errorf("TOOL_CONCURRENCY must not be negative: %d", w.ToolConcurrency)
	case w.RunMaxTurns < 0 || w.RunMaxTurns > maxTurns:
		return fmt.Errorf("RUN_MAX_TURNS must be between 1 and %d, not %d", maxTurns, w.RunMaxTurns)
	case w.RunMaxTokens < 0:
		return fmt.Errorf("RUN_MAX_TOKENS must be at least 1, not %d", w.RunMaxTokens)
	case math.IsNaN(w.RunMaxCost) || w.RunMaxCost < 0 || w.RunMaxCost > maxCost:
		return fmt.Errorf("RUN_MAX_COST must be between 0 and %.0f, not %g", float64(maxCost), w.RunMaxCost)
	case w.RunMaxBytes != 0 && w.RunMaxBytes < minBytes:
		return fmt.Errorf("RUN_MAX_BYTES must be at least %d, the limit of one tool result, not %d", minBytes, w.RunMaxBytes)
	}

	// Without this check, a wrong address would be noticed only when the first run fails.
	for _, a := range []struct{ name, address string }{
		{"OPENAI_BASE_URL", w.OpenAIBaseURL},
		{"ANTHROPIC_BASE_URL", w.AnthropicBaseURL},
		{"SEARXNG_URL", w.SearxngURL},
		{"WIKIPEDIA_URL", w.WikipediaURL},
	} {
		if err := checkAddress(a.name, a.address); err != nil {
			return err
		}
	}

	return cmp.Or(checkListen("METRICS_ADDR", w.MetricsAddr), w.Outbound.Check(), w.Sandbox.Check(), w.Ingest.Check(), w.checkSpeech())
}

// RunMaxCostMicros returns RunMaxCost in millionths, the unit of the costs of runs.
func (w Workers) RunMaxCostMicros() int64 { return int64(math.Round(w.RunMaxCost * 1e6)) }

// SearchEngine returns the name of the configured web search engine. If several are configured, the
// first of SearXNG, Brave and Tavily is used. If none is configured, Wikipedia is used.
func (w Workers) SearchEngine() string {
	switch {
	case w.SearxngURL != "":
		return "searxng"
	case w.BraveAPIKey != "":
		return "brave"
	case w.TavilyAPIKey != "":
		return "tavily"
	default:
		return "wikipedia"
	}
}

// checkListen returns an error if an address is set and is not a valid address to listen on.
func checkListen(name, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s must be host:port, not %q", name, address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s must end in a port, not %q", name, address)
	}
	return nil
}

// checkAddress returns an error if an address is set and is not an http:// or https:// URL.
func checkAddress(name, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s must begin with http:// or https://, not %q", name, address)
	}
	return nil
}
