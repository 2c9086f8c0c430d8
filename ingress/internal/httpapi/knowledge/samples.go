package knowledge

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/templates"
)

// shownSample is a sample document in the form of responses. DocumentID and Status are those of the
// organization's document with the same content; nil if there is none.
type shownSample struct {
	Name       string                 `json:"name"`
	Bytes      int                    `json:"bytes"`
	DocumentID *string                `json:"documentId"`
	Status     *domain.DocumentStatus `json:"status"`
}

// listSamples handles GET /api/knowledge/samples. The samples are built into the program. A sample
// is recognized by its content, so a renamed sample is still found.
func (h *Handler) listSamples(c *gin.Context) error {
	samples := templates.Samples()
	found, err := knowledgedb.SampleDocuments(c.Request.Context(), h.KnowledgeDB, httpx.Caller(c).OrganizationID, samples)
	if err != nil {
		return err
	}

	shown := make([]shownSample, len(samples))
	for i, sample := range samples {
		shown[i] = shownSample{Name: sample.Name, Bytes: len(sample.Content)}
		if doc := found[i]; doc != nil {
			shown[i].DocumentID, shown[i].Status = &doc.ID, &doc.Status
		}
	}
	return httpx.JSON(c, http.StatusOK, batch[shownSample]{shown})
}

// addSamples handles POST /api/knowledge/samples: it adds all sample documents. Repeating the
// request has no effect on documents that still exist. The samples are subject to the same quotas
// as uploads. The response is 202 with the documents that were queued by this request.
func (h *Handler) addSamples(c *gin.Context) error {
	ctx, caller := c.Request.Context(), httpx.Caller(c)
	queued, err := knowledgedb.AddSamples(ctx, h.KnowledgeDB, caller.OrganizationID, caller.Principal(), templates.Samples(), h.Limits)
	if err != nil {
		return documentError(err)
	}

	h.notify(c, queued...)
	return httpx.JSON(c, http.StatusAccepted, batch[domain.Document]{shownDocuments(queued)})
}
