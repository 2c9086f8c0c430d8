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

// hit is one search result. Its texts are single lines without markup. The address is not checked
// yet; see distinct.
type hit struct {
	title   string
	url     string
	snippet string
}

// provider is a client of a search engine. An error is a *tool.Error or ctx's error.
// Implementations are safe for concurrent use and make one request for each call of search.
type provider interface {
	// search returns the results in the order of the search engine.
	search(ctx context.Context, query string) ([]hit, error)
}

// maxHits is the number of results requested from a provider. It is larger than the number of pages
// that are read, because several results may lead to the same page.
const maxHits = 10

// Addresses of the hosted providers.
const (
	braveURL     = "https://api.search.brave.com"
	tavilyURL    = "https://api.tavily.com"
	wikipediaURL = "https://en.wikipedia.org"
)

// newProvider creates a client for the first provider in cfg that is configured. timeout is the
// time limit of each request. newProvider makes no request. It fails if the provider's address is
// invalid.
func newProvider(cfg Config, client *outbound.Client, timeout time.Duration) (provider, error) {
	setting, address := "WIKIPEDIA_URL", orDefault(cfg.WikipediaURL, wikipediaURL)
	switch {
	case cfg.SearxngURL != "":
		setting, address = "SEARXNG_URL", cfg.SearxngURL
	case cfg.BraveAPIKey != "":
		setting, address = "BRAVE_URL", orDefault(cfg.BraveURL, braveURL)
	case cfg.TavilyAPIKey != "":
		setting, address = "TAVILY_URL", orDefault(cfg.TavilyURL, tavilyURL)
	}

	at, err := endpoint(setting, address)
	if err != nil {
		return nil, err
	}

	// The operator has configured this address. So this client, and no other, may connect to it
	// even if the address is private or has an unusual port.
	target, hostPort := origin(at)
	client1 := client.HTTP(outbound.Options{Timeout: timeout, Origin: target, Trusted: hostPort})

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

// orDefault returns value or, if value is empty, fallback.
func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// api is the HTTP client of a provider. It may connect only to the provider's address.
type api struct{ client *http.Client }

// get sends a query and decodes the JSON response into the value to which the argument into points.
// It returns the errors of do.
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

// do sends a request and stores the decoded JSON response in the value to which the argument into
// points. A status other than 200 is an error. Errors are of type *tool.Error.
func (a api) do(req *http.Request, into any) error {
	req.Header.Set("Accept", "application/json")
	res, err := a.client.Do(req) //nolint:gosec // the operator configured the address, and the client connects to no other
	if err != nil {
		return unreachable(err)
	}
	defer res.Body.Close()

	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode != http.StatusOK: // after an error status, it does not matter whether the body was readable
		return refusal(res)
	case err != nil:
		return unreachable(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &tool.Error{Message: "The search provider's response could not be read.", Err: fmt.Errorf("reading answer: %w", err)}
	}
	return nil
}

// unreachable returns the error for a request that got no response. Its cause may be logged,
// because it contains neither the address nor the query.
func unreachable(err error) error {
	cause := outbound.AsError(err)
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return &tool.Error{Message: "The search provider's address is not allowed.", Err: cause}
	case errors.Is(err, outbound.ErrTooLarge):
		return &tool.Error{Message: "The search provider's response is too large.", Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not respond.", Retryable: true, Err: cause}
	}
}

// patience is the longest delay that a provider may request with Retry-After. A run does not wait
// longer.
const patience = 5 * time.Minute

// refusal returns the error for a response with an error status. The error omits the provider's
// text, which is meant for the owner of the key. Rate limits, timeouts and server errors are
// retryable, unless the provider asks for a longer delay than patience.
func refusal(res *http.Response) error {
	cause := fmt.Errorf("the search provider responded with status %d", res.StatusCode)
	switch status := res.StatusCode; {
	case status == http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		soon := err != nil || time.Duration(seconds)*time.Second <= patience
		return &tool.Error{Message: "The search provider's rate limit is exceeded.", Retryable: soon, Err: cause}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &tool.Error{Message: "The search provider rejects the requests of this service: check the service's search settings.", Err: cause}
	case status == http.StatusPaymentRequired, status == 432, status == 433: // Tavily sends the last two
		return &tool.Error{Message: "The search provider's quota is used up.", Err: cause}
	case status == http.StatusRequestTimeout, status >= http.StatusInternalServerError:
		return &tool.Error{Message: "The search provider failed.", Retryable: true, Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not accept the query.", Err: cause}
	}
}
