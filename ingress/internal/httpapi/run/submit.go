package run

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// submit carries a submission from its key to the answer. The key counts before limits, agent and permission: a replay
// costs nothing and stays what it was.
func (h *Handler) submit(c *gin.Context, s *dispatch.Submission) {
	wait := h.preferredWait(c.Request.Header)
	sub, err := h.FindOrAccept(c, s, func(string) {})
	if err != nil {
		httpx.Fail(c, asTarget(s, err))
		return
	}
	defer h.Dispatch.Release(sub)
	httpx.About(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)
	replayed := sub.Existing && sub.Run.Ended()
	if !replayed && (wait == 0 || sub.Run.Run.Status == domain.RunRequiresAction) {
		h.accepted(c, &sub.Run) // what a run waits for may be this very caller's to decide
		return
	}
	result, err := h.Dispatch.Await(c.Request.Context(), sub, wait)
	switch {
	case err != nil:
		httpx.Fail(c, err)
		return
	case !result.Ended:
		h.unfinished(c, &sub.Run)
		return
	}
	body, err := h.ReadResult(c.Request.Context(), &result.Run, httpx.Reserving(c))
	if err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if replayed {
		c.Header("Idempotency-Replayed", "true")
	}
	writeRun(c, http.StatusOK, body)
}

// FindOrAccept gives the run of the submission's key, or a new one, of whose id accepting is told before it exists.
func (h *Handler) FindOrAccept(c *gin.Context, s *dispatch.Submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	defer httpx.BodyDone(c)
	s.Traceparent = httpx.Traceparent(c)
	return h.Begin(c.Request.Context(), s, h.Charge(c), accepting)
}

// accepted answers 202 with the run as it was accepted.
func (h *Handler) accepted(c *gin.Context, run *rundb.StoredRun) {
	body, err := run.Body()
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	c.Header("Retry-After", "1")
	writeRun(c, http.StatusAccepted, body)
}

// unfinished answers 202 with the run as it stands now that the wait is over, or the run waits for a person; 200 if it has ended since.
func (h *Handler) unfinished(c *gin.Context, run *rundb.StoredRun) {
	ctx := c.Request.Context()
	now, err := h.RunsDB.ShortRun(ctx, run.OrganizationID, "", run.Run.ID)
	if err != nil {
		h.Log.Warn().Err(err).Str("run_id", run.Run.ID).Msg("cannot read the run's state; answering as it was accepted")
		now = *run
	}
	if err := h.ReadBegun(c, &now); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if !now.Ended() {
		h.accepted(c, &now)
		return
	}
	body, err := h.ReadResult(ctx, &now, httpx.Reserving(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	writeRun(c, http.StatusOK, body)
}

// capped is a wait in seconds, cut to the setting.
func capped(seconds int, longest time.Duration) time.Duration {
	return time.Duration(min(seconds, int(longest/time.Second))) * time.Second
}

// preferredWait reads Prefer: wait=N in seconds, up to the setting, and respond-async, which is no wait. Unknown and malformed
// preferences are ignored, and of one that is repeated the first counts (RFC 7240).
func (h *Handler) preferredWait(header http.Header) time.Duration {
	wait, waits := h.WaitDefault, false
	for _, preference := range httpx.SplitQuoted(strings.Join(header.Values("Prefer"), ","), ',') {
		preference = strings.TrimSpace(append(httpx.SplitQuoted(preference, ';'), "")[0]) // without its parameters
		name, value, valued := strings.Cut(preference, "=")
		value = strings.TrimSpace(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "respond-async" && (!valued || value == ""):
			return 0
		case name == "wait" && !waits && value != "" && strings.Trim(value, "0123456789") == "":
			seconds, err := strconv.Atoi(value)
			if err != nil { // more than a number holds
				seconds = math.MaxInt
			}
			wait, waits = capped(seconds, h.WaitDefault), true
		}
	}
	return wait
}

// asTarget names the target of run-automation when it is not found: a reference in a body.
func asTarget(s *dispatch.Submission, err error) error {
	if s.Endpoint == contract.EndpointAutomation && apierr.CodeFor(err) == apierr.NotFound {
		return apierr.Invalid("target", httpx.CodeInvalidValue, "is not an agent of this organization")
	}
	return err
}
