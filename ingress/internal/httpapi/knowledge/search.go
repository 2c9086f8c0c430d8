package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/telemetry/tracing"
)

const (
	maxQuery = 1_000 // maximum characters of a search query
	// Number of results if the query names no limit.
	defaultFound = 10
	// Maximum number of results that a query may request.
	maxFound           = 50
	maxSearchDocuments = 100 // maximum number of documents that a search can name
	// Maximum duration of a search.
	searchTime = 10 * time.Second
	// Retry-After if no worker can search.
	searchRetry       = 2 * time.Second
	searchUnavailable = "document search is unavailable; try again shortly"
)

// SearchCaller calls a worker over NATS and returns its reply. Call returns bus.ErrNoToolWorker if
// no worker accepted the call. capability contains the signed claims.
type SearchCaller interface {
	Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error)
}

// ClaimSigner signs claims together with the body to which they belong. Workers verify the
// signature before they act for the organization in the claims.
type ClaimSigner interface {
	Sign(claims, body []byte) string
}

// searchResults is the result of a search in the form of a list without a next page.
type searchResults struct {
	httpx.List[domain.Found]

	// Parts of the search that failed, as the worker reported them.
	Without []string `json:"without,omitempty"`
}

// search handles GET /api/knowledge?query=: it searches the organization's documents. Members may
// search all documents of their organization. The best passage is first.
func (h *Handler) search(c *gin.Context, found *httpx.Problems) error {
	request := readSearch(c, found)

	err := h.CheckDocuments(c, found, "documentId", request.DocumentIDs, nil)
	if err == nil {
		err = found.Err()
	}
	if err != nil {
		return err
	}

	reply, err := h.callSearch(c.Request.Context(), httpx.Caller(c).OrganizationID, request)
	if err != nil {
		return err
	}

	// Lists in responses are never null, but a worker's reply may omit empty lists.
	shown := searchResults{List: httpx.List[domain.Found]{Data: []domain.Found{}}, Without: reply.Without}
	for _, f := range reply.Found {
		if f.Headings == nil {
			f.Headings = []string{}
		}
		if f.MatchedBy == nil {
			f.MatchedBy = []string{}
		}
		shown.Data = append(shown.Data, f)
	}

	return httpx.JSON(c, http.StatusOK, shown)
}

// readSearch reads the parameters of a search. Problems are added to found. Missing parameters get
// their defaults; an empty list of documents means all documents.
func readSearch(c *gin.Context, found *httpx.Problems) contract.SearchRequest {
	r := contract.SearchRequest{Limit: defaultFound}
	var present bool
	if r.Query, present = httpx.QueryValue(c, "query", found); present {
		found.Text("query", r.Query, 1, maxQuery)
		if strings.TrimSpace(r.Query) == "" {
			found.Add("query", httpx.CodeTooShort, "must not be empty")
		}
	}

	if text, limited := httpx.QueryValue(c, "limit", found); limited {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxFound || strconv.Itoa(n) != text {
			found.Add("limit", httpx.CodeInvalidValue, "must be a whole number from 1 to %d", maxFound)
		}
		r.Limit = n
	}

	r.DocumentIDs = searchedDocuments(httpx.Query(c)["documentId"], found)
	r.Metadata = searchedMetadata(httpx.Query(c)["metadata"], found)
	return r
}

// searchedDocuments reads and checks the ids of the documents to search. The returned list contains
// invalid ids if there are problems; the caller checks found.
func searchedDocuments(ids []string, found *httpx.Problems) []string {
	seen := map[string]bool{}

	// Check only as many ids as permitted, so that the error has a bounded size.
	for i, documentID := range ids[:min(len(ids), maxSearchDocuments)] {
		switch at := httpx.Element("documentId", i); {
		case !id.Valid(id.Document, documentID):
			found.Add(at, httpx.CodeInvalidValue, "must be the id of a document")
		case seen[documentID]:
			found.Add(at, httpx.CodeDuplicate, "is given twice")
		}
		seen[documentID] = true
	}

	found.Count("documentId", len(ids), maxSearchDocuments)
	return ids
}

// searchedMetadata reads and checks conditions on the metadata of documents, in the form
// name:value. Names must be unique, because a document has one value for each name.
func searchedMetadata(pairs []string, found *httpx.Problems) map[string]string {
	out := map[string]string{}
	for i, pair := range pairs[:min(len(pairs), httpx.MaxMetadata)] {
		name, value, cut := strings.Cut(pair, ":")
		at := httpx.Element("metadata", i)
		if _, known := out[name]; known {
			found.Add(at, httpx.CodeDuplicate, "repeats a name: a document has only one value for each name")
		}
		if !cut || !httpx.MetadataName.MatchString(name) {
			found.Add(at, httpx.CodeInvalidValue,
				"must be a name, a colon and a value; names have 1 to 64 letters, digits, dots, underscores and hyphens")
			continue
		}
		found.Text(at, value, 0, httpx.MaxMetadataValue)
		out[name] = value
	}

	found.Count("metadata", len(pairs), httpx.MaxMetadata)
	return out
}

// callSearch lets a worker search. The signed claims contain the organization, which the worker
// therefore need not take from the request. The error has the code unavailable if the call or the
// search fails. A reply that is not JSON results in an internal error.
func (h *Handler) callSearch(ctx context.Context, org string, request contract.SearchRequest) (reply contract.SearchReply, err error) {
	deadline := time.Now().Add(searchTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return reply, fmt.Errorf("writing search: %w", err)
	}

	// The claims expire with the request, so that no one can use them later.
	claims, err := json.Marshal(contract.SearchClaims{OrganizationID: org, Kind: contract.KindSearch, Expires: deadline.UTC()})
	if err != nil {
		return reply, fmt.Errorf("writing claims: %w", err)
	}

	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	answer, err := h.Searches.Call(ctx, contract.KindSearch, h.Signer.Sign(claims, body), body, deadline)
	if err != nil {
		return reply, searchError(err)
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return reply, fmt.Errorf("reading search reply: %w", err)
	}

	if reply.Unavailable {
		return reply, searchError(errors.New("the worker failed to search"))
	}
	return reply, nil
}

// searchError returns the error unavailable for a failed search. The text says whether no worker is
// available, because an operator can start one. The cause appears only in the log. Retry-After is
// searchRetry.
func searchError(cause error) error {
	what := searchUnavailable
	if errors.Is(cause, bus.ErrNoToolWorker) {
		what = "document search is unavailable, because no worker with the role tool is available; try again shortly"
	}
	e := apierr.Wrap(apierr.Unavailable, cause, "%s", what)
	e.RetryAfter = searchRetry
	return e
}
