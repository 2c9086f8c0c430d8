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
	"parley/ingress/internal/offload"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// submit finds or creates the run of a submission, waits for its result, and responds. The
// idempotency key is checked before limits, agent and permissions, so a replay is not charged and
// gets the original result.
//
// Thousands of requests wait in Await. The work before and after the wait is done on goroutines of
// package offload, so that the stacks of the waiting goroutines stay small.
func (h *Handler) submit(c *gin.Context, s *dispatch.Submission) {
	var wait time.Duration
	var sub *dispatch.Submitted
	offload.Do(func() {
		wait = preferredWait(c.Request.Header, h.WaitDefault)
		sub = h.accept(c, s, wait)
	})
	if sub == nil {
		return
	}
	defer h.Dispatch.Release(sub)
	result, err := h.Dispatch.Await(c.Request.Context(), sub, wait)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	offload.Do(func() { h.sendResult(c, sub, result) })
}

// accept finds or creates the submission's run. If there is nothing to wait for, it responds and
// returns nil.
func (h *Handler) accept(c *gin.Context, s *dispatch.Submission, wait time.Duration) *dispatch.Submitted {
	sub, err := h.FindOrAccept(c, s, func(string) {})
	if err != nil {
		httpx.Fail(c, targetError(s, err))
		return nil
	}

	httpx.SetLogIDs(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)

	if !isReplay(sub) && (wait == 0 || sub.Run.Run.Status == domain.RunRequiresAction) {
		respondAccepted(c, &sub.Run) // do not wait for a person: the caller may be the one who has to decide
		h.Dispatch.Release(sub)
		return nil
	}
	return sub
}

// isReplay reports whether the run had finished before this request.
func isReplay(sub *dispatch.Submitted) bool { return sub.Existing && sub.Run.Ended() }

// sendResult responds with the result of a wait.
func (h *Handler) sendResult(c *gin.Context, sub *dispatch.Submitted, result *dispatch.Result) {
	if !result.Ended {
		h.sendUnfinished(c, &sub.Run)
		return
	}

	run := result.Run
	body, err := h.ReadResult(c.Request.Context(), &run, httpx.ReserveFunc(c))
	if err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if isReplay(sub) {
		c.Header("Idempotency-Replayed", "true")
	}

	writeRun(c, http.StatusOK, h.withProvider(c, body))
}

// FindOrAccept returns the run with the submission's idempotency key. If there is none, it calls
// accepting with the id of a new run, and then accepts that run.
func (h *Handler) FindOrAccept(c *gin.Context, s *dispatch.Submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	defer httpx.ReleaseBody(c)
	s.Traceparent = httpx.Traceparent(c)
	return h.Begin(c.Request.Context(), s, h.Charge(c), accepting)
}

// respondAccepted responds with 202 and the run.
func respondAccepted(c *gin.Context, run *rundb.StoredRun) {
	body, err := run.Body()
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	c.Header("Retry-After", "1")
	writeRun(c, http.StatusAccepted, body)
}

// sendUnfinished responds with the current state of a run that had not finished when the wait
// ended. The status is 202, or 200 if the run has finished in the meantime.
func (h *Handler) sendUnfinished(c *gin.Context, run *rundb.StoredRun) {
	ctx := c.Request.Context()
	now, err := h.RunsDB.ShortRun(ctx, run.OrganizationID, "", run.Run.ID)
	if err != nil {
		h.Log.Warn().Err(err).Str("run_id", run.Run.ID).Msg("cannot read the run's current state; responding with its state at acceptance")
		now = *run
	}

	if err := h.ReadAccepted(c, &now); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if !now.Ended() {
		respondAccepted(c, &now)
		return
	}

	body, err := h.ReadResult(ctx, &now, httpx.ReserveFunc(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	writeRun(c, http.StatusOK, h.withProvider(c, body))
}

// limitWait returns the given number of seconds as a duration, but at most longest.
func limitWait(seconds int, longest time.Duration) time.Duration {
	return time.Duration(min(seconds, int(longest/time.Second))) * time.Second
}

// preferredWait reads the Prefer header. It returns the seconds in wait=N but at most maximum, 0
// for respond-async, and maximum if neither is present. It ignores unknown and malformed
// preferences. If a preference is repeated, the first one counts (RFC 7240).
func preferredWait(header http.Header, maximum time.Duration) time.Duration {
	wait, waits := maximum, false
	for _, preference := range httpx.SplitQuoted(strings.Join(header.Values("Prefer"), ","), ',') {
		preference = strings.TrimSpace(append(httpx.SplitQuoted(preference, ';'), "")[0]) // without parameters
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
			if err != nil { // the number is too large for an int
				seconds = math.MaxInt
			}
			wait, waits = limitWait(seconds, maximum), true
		}
	}

	return wait
}

// targetError converts the error not_found for the target of a run-automation request to a problem
// of the field target.
func targetError(s *dispatch.Submission, err error) error {
	if s.Endpoint == contract.EndpointAutomation && apierr.CodeFor(err) == apierr.NotFound {
		return apierr.Invalid("target", httpx.CodeInvalidValue, "is not an agent of this organization")
	}
	return err
}
