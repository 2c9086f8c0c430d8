package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// getSource is GET /api/sources?id=: a text that a run of the organization has read, as it was then.
func (a *api) getSource(c *gin.Context) {
	found := &problems{}
	sourceID, given := single(c, "id", found)
	if !given {
		found.add("id", codeRequired, "the query must name the id")
	}
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	source, err := a.Store.SourceByID(c.Request.Context(), caller(c).OrganizationID, sourceID)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, source)
}
