package knowledge

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/knowledgedb"
)

// Parameters of GET /api/knowledge: some are for a search and others for a list. They cannot be
// combined.
var (
	searchParams = []string{"query", "documentId", "metadata", "limit"}
	listParams   = []string{"q", "status", "cursor", "limit"}
)

// getKnowledge handles GET /api/knowledge. With ?query= it searches. With ?id= it responds with a
// document or a part of it. Otherwise it responds with a list. The parameters of the three cases
// are checked here, because the route accepts all of them.
func (h *Handler) getKnowledge(c *gin.Context) error {
	_, searches := httpx.Query(c)["query"]
	_, one := httpx.Query(c)["id"]
	found := &httpx.Problems{}
	switch {
	case searches:
		// The parameter limit is in both lists, so it is never a conflict.
		for _, name := range listParams[:3] {
			if _, present := httpx.Query(c)[name]; present {
				found.Add(name, httpx.CodeConflict, "cannot be combined with query; allowed are %s", strings.Join(searchParams[1:], ", "))
			}
		}
		return h.search(c, found)
	case one:
		return h.readDocument(c, found)

	// Conditions of a search without a query would otherwise be ignored silently.
	default:
		for _, name := range searchParams[1:3] {
			if _, present := httpx.Query(c)[name]; present {
				found.Add("query", httpx.CodeRequired, "is required with %s", name)
			}
		}
		return h.listDocuments(c, found)
	}
}

// listDocuments responds with the organization's documents, newest first. The filter q selects
// documents whose names contain its words; status selects one status. The cursor is the id of the
// last document of a page.
func (h *Handler) listDocuments(c *gin.Context, found *httpx.Problems) error {
	p, err := httpx.ReadPage(c, id.Document)
	err = found.Take(err)
	var filter knowledgedb.DocumentFilter
	filter.Query, _ = httpx.QueryValue(c, "q", found)
	found.Text("q", filter.Query, 0, httpx.MaxSearch)

	status, present := httpx.QueryValue(c, "status", found)
	if filter.Status = domain.DocumentStatus(status); present && !slices.Contains(domain.DocumentStatuses, filter.Status) {
		found.Add("status", httpx.CodeInvalidValue, "must be queued, processing, ready or failed")
	}
	if err == nil {
		err = found.Err()
	}
	if err != nil {
		return err
	}

	// Read the sizes first. If the page is large, wait for capacity before reading its documents.
	// A client that reads many large pages thus waits for its turn; see httpx.ReservePage.
	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	sizes, err := h.KnowledgeDB.DocumentSizes(ctx, org, filter, p.After, p.Limit+1)
	if err == nil {
		err = httpx.ReservePage(c, sizes, &p)
	}

	var docs []domain.Document
	if err == nil {
		docs, err = h.KnowledgeDB.Documents(ctx, org, filter, p.After, p.Limit+1)
	}
	if err != nil {
		return err
	}

	for i := range docs {
		docs[i] = shownDocument(docs[i])
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(docs, p, func(d domain.Document) string { return d.ID }))
}

// deleteDocument handles DELETE /api/knowledge?id=: it deletes the document and erases the runs
// that have received text of it. The response follows the erasure, which can take long for a
// document that many runs have used. Repeating the request after an error completes the deletion.
func (h *Handler) deleteDocument(c *gin.Context) error {
	documentID, err := httpx.RequiredID(c, id.Document)
	if err != nil {
		return err
	}

	// The deletion continues if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), httpx.EraseTime)
	defer cancel()
	org := httpx.Caller(c).OrganizationID

	// Forget the pictures even if the deletion fails, because it may have been committed.
	defer h.pictures.forget(org, documentID)
	if err := h.Dispatch.DeleteDocument(ctx, org, documentID); err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.Deleted(documentID))
}
