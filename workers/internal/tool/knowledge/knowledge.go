package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// Limits of a call.
const (
	maxQuery     = 1_000 // characters
	defaultLimit = 5
	maxLimit     = 10
	maxPassages  = 24 << 10 // bytes of all passages; limited because a cited passage is stored a second time
	shownText    = 200      // number of characters of a passage in the output; the source contains the whole passage
)

// schema allows a query and a limit, both of which are optional. It has no argument for documents,
// so the model cannot choose them.
const schema = `{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":1000,` +
	`"description":"The text to search for: a question, or words likely to be in the passage, in the language of the documents. ` +
	`Leave it out only for a question about the documents as a whole: then the beginnings of the newest documents are returned."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":10,"description":"Number of passages; default 5."}},` +
	`"additionalProperties":false}`

// Spec returns the tool's description for models.
func Spec() tool.Spec {
	return tool.Spec{
		Name: contract.ToolKnowledge,
		Description: "Searches the documents of this agent, and returns the passages that match the query best, with document " +
			"and page. The passages are numbered sources to cite. Use it before answering anything that the documents may say. " +
			"If its passages do not contain the answer, say so instead of answering without them.",
		Schema: json.RawMessage(schema),
	}
}

// Searcher searches an organization's documents. It omits passages that are not related to the
// query.
type Searcher interface {
	SearchFor(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error)

	// First returns the first passages of the newest documents. It ignores the query.
	First(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error)
}

// Backend executes searches. It is safe for concurrent use.
type Backend struct{ search Searcher }

// New creates a backend.
func New(search Searcher) *Backend { return &Backend{search: search} }

// Kind returns the kind knowledge.
func (b *Backend) Kind() string { return contract.ToolKnowledge }

// Call searches the documents that the agent may read. It returns the passages as sources, the best
// first. Without a query, it returns the beginnings of the newest documents.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	options := req.Config.Tools.Knowledge
	if options == nil || !options.Enabled {
		return tool.Result{}, &tool.Error{Message: "The agent has no documents to search."}
	}

	query, limit, err := readArguments(req.Call.Arguments)
	if err != nil {
		return tool.Result{}, err
	}

	// The scope of the search comes from the agent's configuration, so the model cannot extend it.
	search := b.search.SearchFor
	if query == "" {
		search = b.search.First
	}
	reply, err := search(ctx, req.OrganizationID, contract.SearchRequest{
		Query: query, DocumentIDs: options.DocumentIDs, Metadata: options.Metadata, Limit: limit,
	})
	if err != nil {
		return tool.Result{}, unavailable(ctx, err)
	}

	// Only text of documents that are recorded as given may reach the model. Passages of deleted
	// documents are omitted here.
	found, err := recordGiven(ctx, req.Documents, withinLimit(reply.Found))
	if err != nil {
		return tool.Result{}, unavailable(ctx, err)
	}
	return answer(found, reply.Without)
}

// readArguments parses and checks the arguments. The query is empty if it is omitted. The caller
// has already checked the arguments, but a tool worker does not trust its callers.
func readArguments(arguments json.RawMessage) (query string, limit int, err error) {
	args := struct {
		Query *string `json:"query"`
		Limit *int    `json:"limit"`
	}{}
	if err := json.Unmarshal(arguments, &args); err != nil {
		return "", 0, &tool.Error{Message: `The arguments must be {"query": "…", "limit": 5}, where both are optional.`, Err: err}
	}

	if args.Query != nil {
		query = strings.Join(strings.Fields(*args.Query), " ")
		// White space was collapsed, so a query of blanks is empty here.
		if n := utf8.RuneCountInString(query); n == 0 || n > maxQuery {
			return "", 0, &tool.Error{Message: fmt.Sprintf("The query must have 1 to %d characters.", maxQuery)}
		}
	}

	switch {
	case args.Limit == nil:
		return query, defaultLimit, nil
	case *args.Limit < 1 || *args.Limit > maxLimit:
		return "", 0, &tool.Error{Message: fmt.Sprintf("The limit must be between 1 and %d.", maxLimit)}
	}
	return query, *args.Limit, nil
}

// withinLimit returns as many of the first passages as fit into maxPassages, but at least one.
func withinLimit(found []domain.Found) []domain.Found {
	room := maxPassages
	for n, f := range found {
		// The passages are ordered by relevance, so the least relevant ones are dropped.
		if room -= len(f.Text); room < 0 {
			return found[:max(n, 1)]
		}
	}
	return found
}

// recordGiven records that the run receives text of the documents in found. It returns the passages
// of documents that still exist.
func recordGiven(ctx context.Context, documents tool.Documents, found []domain.Found) ([]domain.Found, error) {
	if len(found) == 0 {
		return nil, nil
	}
	var ids []string
	for _, f := range found {
		// Several passages often come from the same document.
		if !slices.Contains(ids, f.DocumentID) {
			ids = append(ids, f.DocumentID)
		}
	}

	there, err := documents.Give(ctx, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(found), func(f domain.Found) bool { return !slices.Contains(there, f.DocumentID) }), nil
}

// unavailable converts the error of a search to a retryable error. It does not change the error if
// ctx has ended or the run is stale.
func unavailable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("searching documents: %w", context.Cause(ctx))
	case errors.Is(err, tool.ErrStale):
		return err
	default:
		return &tool.Error{Message: "Document search is temporarily unavailable.", Retryable: true, Err: err}
	}
}

// address returns the address of a passage within its document: the page or, if the document has no
// pages, the chunk.
func address(p domain.Passage) string {
	at := "&chunk=" + strconv.Itoa(p.Chunk)
	if p.Page != nil {
		at = "&page=" + strconv.Itoa(*p.Page)
	}
	return "/api/knowledge?id=" + url.QueryEscape(p.DocumentID) + at
}
