package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// timelineAsked reads whether a reader wants to know where a run's time went.
func timelineAsked(found *problems, c *gin.Context) bool {
	value, given := single(c, "timeline", found)
	if !given {
		return false
	}
	if value != "1" && value != "true" {
		found.add("timeline", codeInvalidValue, "must be 1 or true; without it the answer is the run")
	}
	for _, other := range []string{"wait", "stream"} {
		if _, also := query(c)[other]; also {
			found.add(other, codeInvalidValue, "a timeline is of the moment; name one of timeline, wait and stream")
		}
	}
	return true
}

// showTimeline answers with a run's timeline, for whoever may read the run.
func (a *api) showTimeline(c *gin.Context, runID string) {
	who := caller(c)
	about(c, "", runID, "")
	var timeline domain.Timeline
	var erased bool
	err := asReader(who, func(principal string) (err error) {
		timeline, erased, err = a.Store.Timeline(c.Request.Context(), who.OrganizationID, principal, runID)
		return err
	})
	switch {
	case err != nil:
		fail(c, err)
	case erased:
		fail(c, erasedRun())
	default:
		writeJSON(c, http.StatusOK, timeline)
	}
}
