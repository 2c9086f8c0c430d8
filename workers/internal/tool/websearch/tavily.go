package websearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// tavily is a client for Tavily's search API. The field at is the base address. key is the API key.
type tavily struct {
	api
	at  *url.URL
	key string
}

// search implements provider. It uses the search depth basic, which costs the fewest credits.
func (t tavily) search(ctx context.Context, query string) ([]hit, error) {
	asked, err := json.Marshal(map[string]any{"query": query, "max_results": maxHits, "search_depth": "basic"})
	if err != nil {
		return nil, fmt.Errorf("encoding query: %w", err)
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.at.JoinPath("search").String(), bytes.NewReader(asked))
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.key)

	var answer struct {
		Results []struct {
			Title   string `json:"title"`
			URL     string `json:"url"`
			Content string `json:"content"`
		} `json:"results"`
	}

	if err := t.do(req, &answer); err != nil {
		return nil, err
	}
	hits := make([]hit, 0, len(answer.Results))
	for _, r := range answer.Results {
		hits = append(hits, hit{title: line(r.Title), url: r.URL, snippet: line(r.Content)})
	}
	return hits, nil
}
