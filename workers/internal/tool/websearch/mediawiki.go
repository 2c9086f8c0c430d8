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

// wikiQuery is the maximum length of a query to Wikipedia in characters.
const wikiQuery = 300

// mediawiki is a client for the Action API of a wiki, by default Wikipedia. The results are in the
// language of the wiki. The field at is the address from the settings; see script.
type mediawiki struct {
	api
	at *url.URL
}

// wikiAnswer is the response to a query. It contains the results by title, and the pattern of page
// addresses.
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

// search implements provider. It truncates the query to wikiQuery characters.
func (m mediawiki) search(ctx context.Context, query string) ([]hit, error) {
	// One request returns both the results and the pattern of page addresses, which differs between
	// wikis.
	params := url.Values{
		"action": {"query"}, "format": {"json"}, "formatversion": {"2"},
		"list": {"search"}, "srsearch": {truncateRunes(query, wikiQuery)}, "srlimit": {strconv.Itoa(maxHits)}, "srprop": {"snippet"},
		"meta": {"siteinfo"}, "siprop": {"general"},
	}
	var answer wikiAnswer
	if err := m.get(ctx, m.script(), params, http.Header{}, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil { // the response is an error, although its HTTP status is 200
		return nil, wikiFailure(answer.Error.Code)
	}
	hits := make([]hit, 0, len(answer.Query.Search))
	for _, r := range answer.Query.Search {
		hits = append(hits, hit{title: line(r.Title), url: m.page(answer, r.Title), snippet: markupLine(r.Snippet)})
	}
	return hits, nil
}

// script returns the address of the wiki's file api.php. The setting contains this address, the
// address of its folder, or only the host.
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

// page returns the address of the page with the given title, following the pattern in the response.
// The response is untrusted, so the address is checked later, like the addresses from other
// providers.
func (m mediawiki) page(answer wikiAnswer, title string) string {
	general := answer.Query.General
	server := orDefault(general.Server, m.at.Scheme+"://"+m.at.Host)
	if strings.HasPrefix(server, "//") { // prepend the scheme of the request to an address without a scheme
		server = m.at.Scheme + ":" + server
	}
	name := (&url.URL{Path: "/" + strings.ReplaceAll(title, " ", "_")}).EscapedPath()[1:]
	return server + strings.ReplaceAll(orDefault(general.ArticlePath, "/wiki/$1"), "$1", name)
}

// wikiFailure returns the error for an error code of the Action API. Temporary errors are
// retryable. The message is public and omits the wiki's own text.
func wikiFailure(code string) error {
	cause := fmt.Errorf("the wiki returned the error %.60q", code)
	switch {
	case code == "ratelimited":
		return &tool.Error{Message: "The search provider's rate limit is exceeded.", Retryable: true, Err: cause}
	case code == "maxlag", code == "readonly", strings.HasPrefix(code, "internal_api_error"), strings.HasPrefix(code, "cirrussearch-"):
		return &tool.Error{Message: "The search provider failed.", Retryable: true, Err: cause}
	case code == "readapidenied":
		return &tool.Error{Message: "The search provider rejects the requests of this service: check the service's search settings.", Err: cause}
	default:
		return &tool.Error{Message: "The search provider did not accept the query.", Err: cause}
	}
}
