package usage

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
)

// limitsView contains the limits of an organization and the number and size of its documents.
// Except for the documents, the values are settings of the service and are equal for all
// organizations.
type limitsView struct {
	Rates     []rateView        `json:"rates"`
	Documents documentUsageView `json:"documents"`
	// Maximum number of simultaneously open event streams.
	Streams struct {
		PerCredential   int `json:"perCredential"`
		PerOrganization int `json:"perOrganization"`
	} `json:"streams"`
	// Maximum number of simultaneous voice sessions.
	Voice struct {
		PerOrganization int `json:"perOrganization"`
	} `json:"voice"`
	// Maximum duration of a run.
	Run struct {
		DeadlineSeconds int `json:"deadlineSeconds"`
	} `json:"run"`
}

// rateView is a rate limit in a response. At most Requests requests are permitted in each window of
// WindowSeconds.
type rateView struct {
	Name          string `json:"name"`
	Requests      int    `json:"requests"`
	WindowSeconds int    `json:"windowSeconds"`
	// Kind of subject that has the limit, such as user.
	Per string `json:"per"`
}

// documentUsageView contains the number and the total bytes of an organization's documents, and
// their quotas. A quota is null if there is no limit.
type documentUsageView struct {
	Count    int    `json:"count"`
	Max      *int   `json:"most"`
	Bytes    int64  `json:"bytes"`
	MaxBytes *int64 `json:"bytesMost"`
}

// getLimits handles GET /api/organizations/limits. Clients use the response to show limits before a
// request exceeds them.
func (h *Handler) getLimits(c *gin.Context) error {
	used, err := h.KnowledgeDB.DocumentUsage(c.Request.Context(), httpx.Caller(c).OrganizationID)
	if err != nil {
		return err
	}

	view := limitsView{Documents: documentUsageView{
		Count: used.Documents, Max: limitOrNil(h.Documents.Documents), Bytes: used.Bytes, MaxBytes: limitOrNil(h.Documents.Bytes),
	}}
	for _, rate := range h.Rates.Rates() {
		view.Rates = append(view.Rates, rateView{rate.Name, rate.Requests, int(ratelimit.Window / time.Second), rate.Per})
	}

	view.Streams.PerCredential, view.Streams.PerOrganization = h.Streams.StreamsPerCredential, h.Streams.StreamsPerOrganization
	view.Voice.PerOrganization = h.VoicePerOrganization
	view.Run.DeadlineSeconds = int(h.RunDeadline / time.Second)
	return httpx.JSON(c, http.StatusOK, view)
}

// limitOrNil returns a pointer to a limit, or nil for 0.
func limitOrNil[N int | int64](maximum N) *N {
	if maximum == 0 {
		return nil
	}
	return &maximum
}
