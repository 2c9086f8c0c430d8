package browser

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"sync"
)

// outside contains the external services that the tests use: a searchable web, a till, an MCP
// server, and a transcription provider.
type outside struct {
	url, host string
	desk      http.Handler

	mu    sync.Mutex
	paid  []string // bodies of the requests to the till
	pages map[string]webPage
}

type webPage struct{ title, text string }

// publish adds a web page. A search finds the page if the query contains the first word of its
// title.
func (o *outside) publish(path, title, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pages == nil {
		o.pages = map[string]webPage{}
	}
	o.pages[path] = webPage{title, text}
}

// payments returns the number of requests to the till whose body contains the given text.
func (o *outside) payments(with string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, body := range o.paid {
		if strings.Contains(body, with) {
			n++
		}
	}
	return n
}

// ServeHTTP serves all external services: a SearXNG at /search, a till at /pay, a tool with hostile
// results at /note, a removed endpoint at /gone, an MCP server at /mcp, and web pages.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/audio/transcriptions":
		ear(w, r)
		return
	case "/mcp":
		o.desk.ServeHTTP(w, r)
		return
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	switch found, is := o.pages[r.URL.Path]; {
	case r.URL.Path == "/search":
		o.search(w, r.URL.Query().Get("q"))
	case r.URL.Path == "/pay":
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		o.paid = append(o.paid, string(raw))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"paid":true}`)
	case r.URL.Path == "/gone":
		w.WriteHeader(http.StatusGone)
	case r.URL.Path == "/note":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"note":`+quoted(hostile)+`}`)
	case is:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><html lang=en><head><title>%s</title></head><body><article><h1>%s</h1><p>%s</p></article></body></html>",
			html.EscapeString(found.title), html.EscapeString(found.title), html.EscapeString(found.text))
	default:
		http.NotFound(w, r)
	}
}

// search responds in SearXNG's JSON format with the published pages that match a query. A page
// matches if the first word of its title occurs in the query.
func (o *outside) search(w http.ResponseWriter, query string) {
	results := []map[string]any{}
	for path, found := range o.pages {
		first, _, _ := strings.Cut(found.title, " ")
		if strings.Contains(strings.ToLower(query), strings.ToLower(first)) {
			results = append(results, map[string]any{
				"url": o.url + path, "title": found.title, "content": found.text, "engine": "stub", "engines": []string{"stub"},
				"score": 1.0, "category": "general", "parsed_url": []string{"http", o.host, path},
			})
		}
	}

	w.Header().Set("Content-Type", "application/json")
	raw, err := json.Marshal(map[string]any{
		"query": query, "number_of_results": len(results), "results": results, "answers": []any{}, "corrections": []any{},
		"infoboxes": []any{}, "suggestions": []any{}, "unresponsive_engines": []any{},
	})
	if err != nil { // strings and numbers always marshal
		panic(err)
	}

	_, _ = w.Write(raw)
}
