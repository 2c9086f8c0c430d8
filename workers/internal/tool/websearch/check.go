package websearch

import (
	"context"
	"fmt"
)

// checkQuery is the query that checks a provider. Every search engine finds pages for it.
const checkQuery = "weather"

// Provider returns the name of the configured search provider: searxng, brave, tavily or mediawiki.
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

// Check sends one query to the search provider, without reading pages. It returns a short
// description of the result, for an operator who checks the settings. If the error is a
// *tool.Error, its message is public. Check does not repeat the query.
func (b *Backend) Check(ctx context.Context) (string, error) {
	hits, err := b.search.search(ctx, checkQuery)
	if err != nil {
		return "", failure(ctx, err)
	}
	return fmt.Sprintf("%d results", len(hits)), nil
}
