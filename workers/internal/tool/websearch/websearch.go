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
	"parley/shared/outbound"
	"parley/workers/internal/tool"
)

// Limits of a call.
const (
	maxQuery    = 400 // characters
	maxResults  = 5   // read, and given to the model
	askTimeout  = 7 * time.Second
	againAfter  = 500 * time.Millisecond
	pageTimeout = 5 * time.Second
	readTimeout = 10 * time.Second // of all pages together
	maxPage     = 2 << 20          // bytes, decompressed
	maxBodies   = 32               // pages that a process holds at a time, all calls together
	maxRedirect = 3
)

// schema is what a model may ask for: no address, only words.
const schema = `{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":400,` +
	`"description":"The text to search for: a few words, or a question, in the language of the wanted pages."}},` +
	`"required":["query"],"additionalProperties":false}`

// Spec describes the tool to a model.
func Spec() tool.Spec {
	return tool.Spec{
		Name: contract.ToolWebSearch,
		Description: "Searches the web, reads the first results, and returns their passages that match the query. " +
			"The passages are numbered sources to cite. Use it for facts that may have changed or need a source.",
		Schema: json.RawMessage(schema),
	}
}

// Config says where to search. The first provider that is set is used: SearXNG, Brave, Tavily, MediaWiki, where
// English Wikipedia is the last one's default.
type Config struct {
	SearxngURL   string
	BraveAPIKey  string
	TavilyAPIKey string
	WikipediaURL string
	BraveURL     string // "" is Brave's own
	TavilyURL    string // "" is Tavily's own
}

// Backend carries searches out; it is safe for concurrent use.
type Backend struct {
	search  provider
	pages   *reader
	reading time.Duration
}

// New makes the backend of the first provider that is set; it fails on an address that is none.
func New(cfg Config, client *outbound.Client) (*Backend, error) {
	search, err := choose(cfg, client, askTimeout)
	if err != nil {
		return nil, err
	}
	return &Backend{
		search: search,
		pages: &reader{
			client: client.HTTP(outbound.Options{Timeout: pageTimeout, MaxBytes: maxPage, Redirects: maxRedirect}),
			bodies: make(chan struct{}, maxBodies),
			places: make(chan struct{}, runtime.GOMAXPROCS(0)),
		},
		reading: readTimeout,
	}, nil
}

// Kind is webSearch.
func (b *Backend) Kind() string { return contract.ToolWebSearch }

// Call searches, reads and gives the sources, in the order of the search's results.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	query, err := queryFor(req.Call.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	hits, err := b.find(ctx, query)
	if err != nil {
		return tool.Result{}, failure(ctx, err)
	}
	hits = distinct(hits, maxResults)
	return b.answer(ctx, req, query, hits, b.read(ctx, hits))
}

// find asks the provider, and once more after a moment when its fault may pass. What does not pass is told to the model, which
// may do without: a run is not put off for a search.
func (b *Backend) find(ctx context.Context, query string) ([]hit, error) {
	hits, err := b.search.search(ctx, query)
	if public, ok := errors.AsType[*tool.Error](err); ok && public.Retryable {
		timer := time.NewTimer(againAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
			hits, err = b.search.search(ctx, query)
		case <-ctx.Done():
		}
	}
	return hits, err
}

// queryFor takes the query out of the arguments. The schema was checked where the model is; a tool worker trusts
// nobody.
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

// failure tells the caller's end from the provider's.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("searching: %w", context.Cause(ctx))
	}
	if public, ok := errors.AsType[*tool.Error](err); ok {
		return &tool.Error{Message: public.Message, Err: public.Err}
	}
	return fmt.Errorf("searching: %w", err)
}

// distinct keeps the first results that lead to different pages of the web.
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
