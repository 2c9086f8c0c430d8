package run

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// requestedTimeline reports whether the run's timeline is requested. Problems are added to found: a
// value other than 1 and true, and parameters that cannot be combined with the parameter timeline.
func requestedTimeline(found *httpx.Problems, c *gin.Context) bool {
	value, present := httpx.QueryValue(c, "timeline", found)
	if !present {
		return false
	}
	if value != "1" && value != "true" {
		found.Add("timeline", httpx.CodeInvalidValue, "must be 1 or true; omit it to read the run")
	}

	for _, other := range []string{"wait", "stream"} {
		if _, also := httpx.Query(c)[other]; also {
			found.Add(other, httpx.CodeInvalidValue, "cannot be combined with timeline")
		}
	}

	return true
}

// showTimeline responds with the timeline of a run that the caller may read. Responses of model
// providers are shown only to admins. The error is not_found for a run that the caller may not
// read.
func (h *Handler) showTimeline(c *gin.Context, runID string) {
	who := httpx.Caller(c)
	httpx.SetLogIDs(c, "", runID, "")
	var timeline domain.Timeline
	var erased bool

	// A timeline may be large, so reserve capacity before reading it.
	err := findReadable(who, func(principal string) error {
		bytes, err := h.RunsDB.TimelineBytes(c.Request.Context(), who.OrganizationID, principal, runID)
		if err == nil {
			err = httpx.ReserveAnswer(c, bytes)
		}
		if err != nil {
			return err
		}
		timeline, erased, err = h.RunsDB.Timeline(c.Request.Context(), who.OrganizationID, principal, runID)
		return err
	})
	switch {
	case err != nil:
		httpx.Fail(c, err)
	case erased:
		httpx.Fail(c, dispatch.ErasedRun())
	default:
		if !seesProviders(who) {
			hideProviders(&timeline)
		}
		httpx.WriteJSON(c, http.StatusOK, timeline)
	}
}

// hideProviders removes the responses of model providers from a timeline. It changes the timeline.
func hideProviders(timeline *domain.Timeline) {
	for i := range timeline.Spans {
		timeline.Spans[i].Provider = nil
	}
}
