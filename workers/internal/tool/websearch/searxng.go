package websearch

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"parley/workers/internal/tool"
)

// searxng is a client for a SearXNG instance. The settings of the instance must allow the format
// json. The field at is the address of the instance.
type searxng struct {
	api
	at *url.URL
}

// search implements provider. The instance determines the number of results.
func (s searxng) search(ctx context.Context, query string) ([]hit, error) {
	var answer struct {
		Results []struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		} `json:"results"`
		Unresponsive [][]any `json:"unresponsive_engines"`
	}

	params := url.Values{"q": {query}, "format": {"json"}}
	if err := s.get(ctx, s.at.JoinPath("search"), params, http.Header{}, &answer); err != nil {
		return nil, err
	}

	// If there are no results and some engines did not respond, the search has failed.
	if len(answer.Results) == 0 && len(answer.Unresponsive) > 0 {
		return nil, &tool.Error{
			Message:   "None of the search engines responded.",
			Retryable: true,
			Err:       errors.New("searxng: no results, and some engines did not respond"),
		}
	}

	hits := make([]hit, 0, len(answer.Results))
	for _, r := range answer.Results {
		hits = append(hits, hit{title: line(r.Title), url: r.URL, snippet: line(r.Content)})
	}
	return hits, nil
}
