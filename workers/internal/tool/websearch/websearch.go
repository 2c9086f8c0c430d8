package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
	"parley/shared/lifecycle"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
)

// Limits of a call.
const (
	maxQuery   = 400 // characters
	maxResults = 5   // pages that are read and shown to the model
	// askTimeout is the time limit for one request to the provider. retryAfter is the delay before
	// the second request. pageTimeout is the time limit for each page.
	askTimeout  = 7 * time.Second
	retryAfter  = 500 * time.Millisecond
	pageTimeout = 5 * time.Second
	readTimeout = 10 * time.Second // time limit for reading all pages of a call
	maxPage     = 2 << 20          // maximum size of a page in bytes, decompressed
	maxBodies   = 32               // pages in memory in one process, for all calls together
	maxRedirect = 3
)

// schema allows a query. It has no argument for addresses, so the model cannot choose pages.
const schema = `{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":400,` +
	`"description":"The text to search for: a few words, or a question, in the language of the wanted pages."}},` +
	`"required":["query"],"additionalProperties":false}`

// Spec returns the tool's description for models.
func Spec() tool.Spec {
	return tool.Spec{
		Name: contract.ToolWebSearch,
		Description: "Searches the web, reads the first results, and returns their passages that match the query. " +
			"The passages are numbered sources to cite. Use it for facts that may have changed or need a source.",
		Schema: json.RawMessage(schema),
	}
}

// Config contains the settings of the search providers. The first configured provider is used, in
// the order SearXNG, Brave, Tavily, MediaWiki. If none is configured, the English Wikipedia is
// used. The addresses come from the operator and may be private.
type Config struct {
	SearxngURL   string
	BraveAPIKey  string
	TavilyAPIKey string
	WikipediaURL string
	BraveURL     string // "" means Brave's own address
	TavilyURL    string // "" means Tavily's own address
}

// Backend executes searches. It is safe for concurrent use. Each tool worker has one Backend.
type Backend struct {
	// search is the provider, pages reads the pages of results, and readTime limits the reading of
	// all pages of a call.
	search   provider
	pages    *reader
	readTime time.Duration
}

// New creates a backend that uses the first configured provider. It fails if the provider's address
// is invalid.
func New(cfg Config, client *outbound.Client) (*Backend, error) {
	search, err := newProvider(cfg, client, askTimeout)
	if err != nil {
		return nil, err
	}
	return &Backend{
		search: search,
		pages: &reader{
			client: client.HTTP(outbound.Options{Timeout: pageTimeout, MaxBytes: maxPage, Redirects: maxRedirect}),
			bodies: make(chan struct{}, maxBodies),
			slots:  make(chan struct{}, runtime.GOMAXPROCS(0)),
		},
		readTime: readTimeout,
	}, nil
}

// Kind returns the kind webSearch.
func (b *Backend) Kind() string { return contract.ToolWebSearch }

// Call searches, reads the pages of the results, and returns them as sources in the order of the
// results. A search without results is not an error.
//
// Errors with a message for the model are of type *tool.Error. A search has no effects outside of
// the service, so a call may be repeated.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	query, err := queryFor(req.Call.Arguments)
	if err != nil {
		return tool.Result{}, err
	}

	hits, err := b.find(ctx, query)
	if err != nil {
		return tool.Result{}, failure(ctx, err)
	}

	// A page that cannot be read is represented by the snippet of its result.
	hits = distinct(hits, maxResults)
	return b.answer(ctx, req, query, hits, b.read(ctx, hits))
}

// find queries the provider. It repeats the query once after a retryable error, with a short delay.
// A remaining error is shown to the model, because a run is not requeued for the sake of a search.
func (b *Backend) find(ctx context.Context, query string) ([]hit, error) {
	hits, err := b.search.search(ctx, query)
	if public, ok := errors.AsType[*tool.Error](err); ok && public.Retryable && lifecycle.Sleep(ctx, retryAfter) == nil {
		hits, err = b.search.search(ctx, query)
	}
	return hits, err
}

// queryFor parses and checks the arguments. The caller has already checked them, but a tool worker
// does not trust its callers.
func queryFor(arguments json.RawMessage) (string, error) {
	var args struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", &tool.Error{Message: `The arguments must be an object with a text "query".`, Err: err}
	}
	query := line(args.Query)
	if n := utf8.RuneCountInString(query); n == 0 || n > maxQuery {
		return "", &tool.Error{Message: fmt.Sprintf("The query must have 1 to %d characters.", maxQuery)}
	}
	return query, nil
}

// failure converts the error of a search to an error that is not retryable. If ctx has ended,
// failure returns ctx's error.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("searching: %w", context.Cause(ctx))
	}
	if public, ok := errors.AsType[*tool.Error](err); ok {
		return &tool.Error{Message: public.Message, Err: public.Err}
	}
	return fmt.Errorf("searching: %w", err)
}

// distinct returns the first results that lead to different pages, at most limit. It drops results
// with invalid addresses and normalizes the other addresses. A result without a title has its host
// as the title.
func distinct(hits []hit, limit int) []hit {
	seen := make(map[string]bool, len(hits))
	kept := make([]hit, 0, limit)
	for _, h := range hits {
		u, ok := webURL(h.url)
		if !ok || seen[samePage(u)] || len(kept) == limit {
			continue
		}
		seen[samePage(u)] = true
		h.url = u.String()
		if h.title == "" {
			h.title = strings.TrimPrefix(u.Hostname(), "www.")
		}
		kept = append(kept, h)
	}
	return kept
}
