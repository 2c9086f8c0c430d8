package websearch

import (
	"context"
	"fmt"
)

// checkQuery is the query of a check. Every search engine finds pages for it.
const checkQuery = "weather"

// Provider returns the name of the search provider.
func (b *Backend) Provider() string {
	switch b.search.(type) {
	case searxng:
		return "searxng"
	case brave:
		return "brave"
	case tavily:
		return "tavily"
	default:
		return "mediawiki"
	}
}

// Check searches once, without reading the pages, and returns the result in words. The message of a
// *tool.Error is public.
func (b *Backend) Check(ctx context.Context) (string, error) {
	hits, err := b.search.search(ctx, checkQuery)
	if err != nil {
		return "", failure(ctx, err)
	}
	return fmt.Sprintf("%d results", len(hits)), nil
}
