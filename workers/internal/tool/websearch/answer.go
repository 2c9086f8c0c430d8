package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// output is the part of the result that the model sees in addition to the sources. It lists all
// results, including those without a source.
type output struct {
	Query   string   `json:"query"`
	Results []result `json:"results"`
}

// result is a result of the search as the model sees it. Its texts are single lines.
type result struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet"`
}

const maxSnippet = 500 // number of characters shown in the output; the source may contain more

// answer stores the texts of the pages and returns the call's result. If a page could not be read,
// answer stores the search provider's snippet instead, so that every citation has a stored text.
//
// pages[i] is the page of hits[i], or nil. The sources have the order of the results, with the best
// passage of each page first. An error means that the result must not be used.
func (b *Backend) answer(ctx context.Context, req tool.Request, query string, hits []hit, pages []*page) (tool.Result, error) {
	out := output{Query: query, Results: make([]result, 0, len(hits))}

	var sources []domain.Citation
	kept := map[string]bool{}
	for i, h := range hits {
		p := pages[i]
		if p == nil {
			p = &page{url: h.url, text: h.snippet}
			p.finish("")
		}
		p.title = orDefault(p.title, h.title)
		out.Results = append(out.Results, result{Title: p.title, URL: p.url, Snippet: truncateRunes(h.snippet, maxSnippet)})
		if p.text == "" {
			continue
		}

		id, err := keep(ctx, req, p)
		if err != nil {
			return tool.Result{}, err
		}
		if kept[id] { // the page has the same text as an earlier page
			continue
		}
		kept[id] = true
		for _, passage := range passages(p.text, query) {
			sources = append(sources, domain.Citation{Type: "web", Title: p.title, URL: p.url, CitedText: passage, SourceID: &id})
		}
	}

	raw, err := json.Marshal(out)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding results: %w", err)
	}
	return tool.Result{Output: raw, Sources: sources}, nil
}

// keep stores the text of a page and returns its source id. Equal texts have the same id. If ctx
// has ended, the error wraps the cause of ctx. Otherwise the error wraps tool.ErrStale or is a
// retryable *tool.Error.
func keep(ctx context.Context, req tool.Request, p *page) (string, error) {
	id, err := req.Keep(ctx, domain.Source{
		URL: p.url, Title: p.title, Language: p.language, Text: p.text,
		Characters: utf8.RuneCountInString(p.text), Truncated: p.truncated, ReadAt: domain.At(time.Now()),
	})
	switch {
	case err == nil:
		return id, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("keeping source: %w", context.Cause(ctx))
	case errors.Is(err, tool.ErrStale):
		return "", fmt.Errorf("keeping source: %w", err)
	default:
		return "", &tool.Error{Message: "The pages could not be stored.", Retryable: true, Err: fmt.Errorf("keeping source: %w", err)}
	}
}
