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

// pending is the run of a request that waits for the run's result. It must be passed to respond,
// which releases it.
type pending struct {
	*dispatch.Submitted

	wait time.Duration // how long the request waits
}

// accept finds or creates the run of a submission. The idempotency key is checked before limits,
// agent and permissions, so a replay is not charged and gets the original result. If there is
// nothing to wait for, accept responds and returns nil. The Prefer header determines the duration
// of the wait. For automations, an error of the target is reported as a problem of the field
// target.
func (h *Handler) accept(c *gin.Context, s *dispatch.Submission) (*pending, error) {
	wait := preferredWait(c.Request.Header, h.WaitDefault)
	sub, err := h.FindOrAccept(c, s, func(string) {})
	if err != nil {
		return nil, targetError(s, err)
	}

	httpx.SetLogIDs(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)

	if !isReplay(sub) && (wait == 0 || sub.Run.Run.Status == domain.RunRequiresAction) {
		defer h.Dispatch.Release(sub)
		return nil, h.sendAccepted(c, &sub.Run) // do not wait for a person: the caller may be the one who has to decide
	}
	return &pending{sub, wait}, nil
}

// respond waits for the result of a run that accept has returned, and sends the result. If err is
// not nil, it responds with this error.
//
// Thousands of requests wait in Await. The work before and after the wait is done on goroutines of
// package offload, so that the stacks of the waiting goroutines stay small. The response is 200
// with the finished run, or 202 if the wait is over. p may be nil if there is nothing to wait for.
func (h *Handler) respond(c *gin.Context, p *pending, err error) {
	if err == nil && p != nil {
		defer h.Dispatch.Release(p.Submitted)
		var result *dispatch.Result
		if result, err = h.Dispatch.Await(c.Request.Context(), p.Submitted, p.wait); err == nil {
			offload.Do(func() { err = h.sendResult(c, p.Submitted, result) })
		}
	}
	if err != nil {
		httpx.Fail(c, err)
	}
}

// FindOrAccept returns the run with the submission's idempotency key. If there is none, it calls
// the function accepting with the id of a new run, and then accepts that run. The request is
// charged if it creates a run. FindOrAccept releases the request's body, even after an error.
func (h *Handler) FindOrAccept(c *gin.Context, s *dispatch.Submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	defer httpx.ReleaseBody(c)
	s.Traceparent = httpx.Traceparent(c)
	return h.Begin(c.Request.Context(), s, h.Charge(c), accepting)
}

// sendResult sends the result of a wait. If the run had not finished when the wait ended, it sends
// the run's current state: with the status 202, or 200 if the run has finished in the meantime. A
// result may be too large to be sent at once; ReadResult then waits for memory. Errors name the
// run, so that the client can read it later.
func (h *Handler) sendResult(c *gin.Context, sub *dispatch.Submitted, result *dispatch.Result) error {
	ctx, run := c.Request.Context(), result.Run

	if !result.Ended {
		var err error
		if run, err = h.RunsDB.ShortRun(ctx, sub.Run.OrganizationID, "", sub.Run.Run.ID); err != nil {
			// The run exists, so an outdated state is better than an error.
			h.Log.Warn().Err(err).Str("run_id", sub.Run.Run.ID).
				Msg("cannot read the run's current state; responding with its state at acceptance")
			run = sub.Run
		}
		if err := h.ReadAccepted(c, &run); err != nil {
			return httpx.NameRun(c, err)
		}
		if !run.Ended() {
			return h.sendAccepted(c, &run)
		}
	}

	body, err := h.ReadResult(ctx, &run, httpx.ReserveFunc(c))
	if err != nil {
		return httpx.NameRun(c, err)
	}
	if isReplay(sub) {
		c.Header("Idempotency-Replayed", "true")
	}
	return h.sendRun(c, http.StatusOK, body)
}

// isReplay reports whether the run had finished before this request. A run that has finished during
// this request is not a replay.
func isReplay(sub *dispatch.Submitted) bool { return sub.Existing && sub.Run.Ended() }

// sendAccepted responds with 202 and the run. The headers Location and Retry-After contain the
// URL of the run and the time after which the client should read it again.
func (h *Handler) sendAccepted(c *gin.Context, run *rundb.StoredRun) error {
	body, err := run.Body()
	if err != nil {
		return err
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	c.Header("Retry-After", "1")
	return h.sendRun(c, http.StatusAccepted, body)
}

// limitWait returns the given number of seconds as a duration, but at most longest. A negative
// number is returned as it is, so the caller must have rejected it.
func limitWait(seconds int, longest time.Duration) time.Duration {
	return time.Duration(min(seconds, int(longest/time.Second))) * time.Second
}

// preferredWait reads the Prefer header. It returns the seconds in wait=N but at most maximum, 0
// for respond-async, and maximum if neither is present. It ignores unknown and malformed
// preferences. If a preference is repeated, the first one counts (RFC 7240). The header does not
// cause errors, as RFC 7240 demands.
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
// of the field target. Other errors are returned unchanged.
func targetError(s *dispatch.Submission, err error) error {
	if s.Endpoint == contract.EndpointAutomation && apierr.CodeFor(err) == apierr.NotFound {
		return apierr.Invalid("target", httpx.CodeInvalidValue, "is not an agent of this organization")
	}
	return err
}
