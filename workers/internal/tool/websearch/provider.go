package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/shared/outbound"
	"parley/workers/internal/tool"
)

// hit is one result of a search: its texts are one line each, without markup.
type hit struct {
	title   string
	url     string
	snippet string
}

// provider is a search engine. Its error is a *tool.Error, or the context's.
type provider interface {
	search(ctx context.Context, query string) ([]hit, error)
}

// wanted is how many results a provider is asked for: more than are read, for some lead to the same page.
const wanted = 10

// Addresses of the providers that have one of their own.
const (
	braveURL     = "https://api.search.brave.com"
	tavilyURL    = "https://api.tavily.com"
	wikipediaURL = "https://en.wikipedia.org"
)

// choose makes the first provider that is set.
func choose(cfg Config, client *outbound.Client, timeout time.Duration) (provider, error) {
	setting, address := "WIKIPEDIA_URL", or(cfg.WikipediaURL, wikipediaURL)
	switch {
	case cfg.SearxngURL != "":
		setting, address = "SEARXNG_URL", cfg.SearxngURL
	case cfg.BraveAPIKey != "":
		setting, address = "BRAVE_URL", or(cfg.BraveURL, braveURL)
	case cfg.TavilyAPIKey != "":
		setting, address = "TAVILY_URL", or(cfg.TavilyURL, tavilyURL)
	}
	at, err := endpoint(setting, address)
	if err != nil {
		return nil, err
	}
	// The operator chose this address: it may be private, and have any port, for this client alone.
	place, hostPort := origin(at)
	client1 := client.HTTP(outbound.Options{Timeout: timeout, Origin: place, Trusted: hostPort})
	switch setting {
	case "SEARXNG_URL":
		return searxng{api{client1}, at}, nil
	case "BRAVE_URL":
		return brave{api{client1}, at, cfg.BraveAPIKey}, nil
	case "TAVILY_URL":
		return tavily{api{client1}, at, cfg.TavilyAPIKey}, nil
	default:
		return mediawiki{api{client1}, at}, nil
	}
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// api asks a provider over HTTP.
type api struct{ client *http.Client }

// get asks with a query and reads the JSON of the answer.
func (a api) get(ctx context.Context, at *url.URL, query url.Values, header http.Header, into any) error {
	full := *at
	full.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, full.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("creating request: %w", err)
	}
	maps.Copy(req.Header, header)
	return a.do(req, into)
}

func (a api) do(req *http.Request, into any) error {
	req.Header.Set("Accept", "application/json")
	res, err := a.client.Do(req) //nolint:gosec // the address is the operator's, and the client stays there
	if err != nil {
		return unreached(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode != http.StatusOK: // what it says besides is no reason to forget this
		return refusal(res)
	case err != nil:
		return unreached(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &tool.Error{Message: "The search provider's answer could not be read.", Err: fmt.Errorf("reading answer: %w", err)}
	}
	return nil
}

// unreached is the error of a request without an answer. Its cause may be logged, and has neither address nor query.
func unreached(err error) error {
	cause := outbound.AsError(err)
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return &tool.Error{Message: "The search provider's address is not allowed.", Err: cause}
	case errors.Is(err, outbound.ErrTooLarge):
		return &tool.Error{Message: "The search provider's answer is too large.", Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not answer.", Retryable: true, Err: cause}
	}
}

// patience is the longest pause a provider may ask for with a run waiting for it.
const patience = 5 * time.Minute

// refusal is the error of an answer that is none. What a provider says in it is not passed on: it is written for whoever
// holds the key.
func refusal(res *http.Response) error {
	cause := fmt.Errorf("search provider answered with status %d", res.StatusCode)
	switch status := res.StatusCode; {
	case status == http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		soon := err != nil || time.Duration(seconds)*time.Second <= patience
		return &tool.Error{Message: "The search provider's rate limit is exceeded.", Retryable: soon, Err: cause}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &tool.Error{Message: "The search provider rejects this service: check its settings.", Err: cause}
	case status == http.StatusPaymentRequired, status == 432, status == 433: // the latter two are Tavily's
		return &tool.Error{Message: "The search provider's quota is used up.", Err: cause}
	case status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return &tool.Error{Message: "The search provider failed.", Retryable: true, Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not accept the query.", Err: cause}
	}
}
