package websearch

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// braveWords is the maximum number of words in a query to Brave.
const braveWords = 50

// brave is the client of Brave's web search. The field at is the base address. key is the
// subscription token.
type brave struct {
	api
	at  *url.URL
	key string
}

// search implements provider. It truncates the query to braveWords words, because Brave rejects
// longer queries. Brave marks matches with HTML tags, which are removed.
func (b brave) search(ctx context.Context, query string) ([]hit, error) {
	var answer struct {
		Web struct {
			Results []struct {
				Title       string `json:"title"`
				URL         string `json:"url"`
				Description string `json:"description"`
			} `json:"results"`
		} `json:"web"`
	}
	if words := strings.Fields(query); len(words) > braveWords {
		query = strings.Join(words[:braveWords], " ")
	}

	params := url.Values{
		"q": {query}, "count": {strconv.Itoa(maxHits)}, "result_filter": {"web"}, "text_decorations": {"false"},
	}
	header := http.Header{"X-Subscription-Token": {b.key}}
	if err := b.get(ctx, b.at.JoinPath("res/v1/web/search"), params, header, &answer); err != nil {
		return nil, err
	}

	hits := make([]hit, 0, len(answer.Web.Results))
	for _, r := range answer.Web.Results {
		hits = append(hits, hit{title: markupLine(r.Title), url: r.URL, snippet: markupLine(r.Description)})
	}
	return hits, nil
}
