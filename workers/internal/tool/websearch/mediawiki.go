package websearch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"parley/workers/internal/tool"
)

// wikiQuery is how many characters the search of Wikipedia takes.
const wikiQuery = 300

// mediawiki asks a wiki's Action API; Wikipedia's by default. The language is that of the wiki.
type mediawiki struct {
	api
	at *url.URL
}

// wikiAnswer is a query's answer: results by title, and how titles become addresses there.
type wikiAnswer struct {
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
	Query struct {
		General struct {
			Server      string `json:"server"`
			ArticlePath string `json:"articlepath"`
		} `json:"general"`
		Search []struct {
			Title   string `json:"title"`
			Snippet string `json:"snippet"`
		} `json:"search"`
	} `json:"query"`
}

func (m mediawiki) search(ctx context.Context, query string) ([]hit, error) {
	params := url.Values{
		"action": {"query"}, "format": {"json"}, "formatversion": {"2"},
		"list": {"search"}, "srsearch": {cutRunes(query, wikiQuery)}, "srlimit": {strconv.Itoa(wanted)}, "srprop": {"snippet"},
		"meta": {"siteinfo"}, "siprop": {"general"},
	}
	var answer wikiAnswer
	if err := m.get(ctx, m.script(), params, http.Header{}, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil { // with status 200
		return nil, wikiFailure(answer.Error.Code)
	}
	hits := make([]hit, 0, len(answer.Query.Search))
	for _, r := range answer.Query.Search {
		hits = append(hits, hit{title: line(r.Title), url: m.page(answer, r.Title), snippet: markupLine(r.Snippet)})
	}
	return hits, nil
}

// script is the address of api.php: what is set may be that, the folder it is in, or only the wiki's host.
func (m mediawiki) script() *url.URL {
	switch path := strings.TrimRight(m.at.Path, "/"); {
	case strings.HasSuffix(path, "/api.php"):
		return m.at
	case path == "":
		return m.at.JoinPath("w/api.php")
	default:
		return m.at.JoinPath("api.php")
	}
}

// page is a title's address, as the wiki says that they are made.
func (m mediawiki) page(answer wikiAnswer, title string) string {
	general := answer.Query.General
	server := or(general.Server, m.at.Scheme+"://"+m.at.Host)
	if strings.HasPrefix(server, "//") { // on whichever scheme it is asked
		server = m.at.Scheme + ":" + server
	}
	name := (&url.URL{Path: "/" + strings.ReplaceAll(title, " ", "_")}).EscapedPath()[1:]
	return server + strings.ReplaceAll(or(general.ArticlePath, "/wiki/$1"), "$1", name)
}

// wikiFailure sorts the Action API's codes.
func wikiFailure(code string) error {
	cause := fmt.Errorf("wiki answered with error %.60q", code)
	switch {
	case code == "ratelimited":
		return &tool.Error{Message: "The search provider's rate limit is exceeded.", Retryable: true, Err: cause}
	case code == "maxlag", code == "readonly", strings.HasPrefix(code, "internal_api_error"), strings.HasPrefix(code, "cirrussearch-"):
		return &tool.Error{Message: "The search provider failed.", Retryable: true, Err: cause}
	case code == "readapidenied":
		return &tool.Error{Message: "The search provider rejects this service: check its settings.", Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not accept the query.", Err: cause}
	}
}
