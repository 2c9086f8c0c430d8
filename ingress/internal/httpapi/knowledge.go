package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
)

// The parameters of GET /api/knowledge, by what is asked for: what belongs to another question is refused.
var (
	searchParams = []string{"query", "documentId", "metadata", "limit"}
	listParams   = []string{"q", "status", "cursor", "limit"}
)

// getKnowledge is GET /api/knowledge: a search with ?query=, with ?id= a document or a part of it, else a list.
func (a *api) getKnowledge(c *gin.Context) {
	_, searches := query(c)["query"]
	_, one := query(c)["id"]
	found := &problems{}
	switch {
	case searches:
		for _, name := range listParams[:3] {
			if _, given := query(c)[name]; given {
				found.add(name, codeConflict, "cannot come with query: beside it there may be %s", strings.Join(searchParams[1:], ", "))
			}
		}
		a.search(c, found)
	case one:
		a.readDocument(c, found)
	default:
		for _, name := range searchParams[1:3] {
			if _, given := query(c)[name]; given {
				found.add("query", codeRequired, "a query with %s must say by query what is looked for", name)
			}
		}
		a.listDocuments(c, found)
	}
}

// listDocuments gives the organization's documents, newest first.
func (a *api) listDocuments(c *gin.Context, found *problems) {
	p, err := pageOf(c, id.Document)
	err = found.take(err)
	var filter store.DocumentFilter
	filter.Query, _ = single(c, "q", found)
	found.text("q", filter.Query, 0, searchMost)
	status, given := single(c, "status", found)
	if filter.Status = domain.DocumentStatus(status); given && !slices.Contains(domain.DocumentStatuses, filter.Status) {
		found.add("status", codeInvalidValue, "must be queued, processing, ready or failed")
	}
	if err == nil {
		err = found.err()
	}
	if err != nil {
		fail(c, err)
		return
	}
	docs, err := a.Store.Documents(c.Request.Context(), caller(c).OrganizationID, filter, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	for i := range docs {
		docs[i] = shownDocument(docs[i])
	}
	writeJSON(c, http.StatusOK, listOf(docs, p, func(d domain.Document) string { return d.ID }))
}

// deleteDocument is DELETE /api/knowledge?id=: it goes, and with it what runs were told of it.
func (a *api) deleteDocument(c *gin.Context) {
	documentID, err := requiredID(c, id.Document)
	if err != nil {
		fail(c, err)
		return
	}
	// Once it has begun it is carried through, whether or not the caller waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), eraseTime)
	defer cancel()
	if err := a.Dispatch.DeleteDocument(ctx, caller(c).OrganizationID, documentID); err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, deleted(documentID))
}
