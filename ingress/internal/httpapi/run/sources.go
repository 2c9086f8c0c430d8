package run

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// getSource handles GET /api/sources?id=: it responds with a text that a run of the organization
// has read, as it was at that time. Every member of the organization may read it.
func (h Files) getSource(c *gin.Context) {
	found := &httpx.Problems{}
	sourceID, present := httpx.QueryValue(c, "id", found)
	if !present {
		found.Add("id", httpx.CodeRequired, "is required in the query")
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID

	// A source may be large, so reserve capacity before reading it.
	bytes, err := h.BlobsDB.SourceBytes(ctx, org, sourceID)
	if err == nil {
		err = httpx.ReserveAnswer(c, bytes)
	}

	var source domain.Source
	if err == nil {
		source, err = h.BlobsDB.SourceByID(ctx, org, sourceID)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.WriteJSON(c, http.StatusOK, source)
}
