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
)

// pending is the run of a request that waits for the run's result. It must be passed to respond,
// which releases it.
type pending struct {
	*dispatch.Submitted

	wait   time.Duration // how long the request waits; 0: not at all
	replay bool          // whether the run had finished before this request
}

// accept finds or creates the run of a submission. The idempotency key is checked before limits,
// agent and permissions, so a replay is not charged and gets the original result. The Prefer header
// determines the duration of the wait. For automations, an error of the target is reported as a
// problem of the field target.
func (h *Handler) accept(c *gin.Context, s *dispatch.Submission) (*pending, error) {
	wait := preferredWait(c.Request.Header, h.WaitDefault)
	sub, err := h.FindOrAccept(c, s, func(string) {})
	if err != nil {
		return nil, targetError(s, err)
	}

	if sub.Run.Run.Status == domain.RunRequiresAction {
		wait = 0 // do not wait for a person: the caller may be the one who has to decide
	}
	httpx.SetLogIDs(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)
	return &pending{Submitted: sub, wait: wait, replay: sub.Existing && sub.Run.Ended()}, nil
}

// respond waits for the result of a run that accept has returned, and sends the result. If err is
// not nil, it responds with this error. If there is no capacity for the response, the error names
// the run, so that the client can read it later; see httpx.RefuseAnswer.
//
// Thousands of requests wait in Await. The work before and after the wait is done on goroutines of
// package offload, so that the stacks of the waiting goroutines stay small. The response is 200
// with the finished run, or 202 if the wait is over.
func (h *Handler) respond(c *gin.Context, p *pending, err error) {
	if err == nil {
		defer h.Dispatch.Release(p.Submitted)
		var result *dispatch.Result
		if result, err = h.Dispatch.Await(c.Request.Context(), p.Submitted, p.wait); err == nil {
			offload.Do(func() { err = h.sendResult(c, p, result) })
		}
	}
	if err != nil {
		httpx.RefuseAnswer(c, err)
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

// sendResult sends the result of a wait: the status 200 with the finished run, or 202 with the
// run's state. The state is the current one if the request has waited, and otherwise the one in
// which accept found or created the run. With 202, the headers Location and Retry-After contain the
// URL of the run and the time after which the client should read it again. A large run is read only
// when there is memory for it; see ReadAccepted.
func (h *Handler) sendResult(c *gin.Context, p *pending, result *dispatch.Result) error {
	run := p.Run
	switch {
	case result.Ended:
		run = result.Run
	case p.wait > 0:
		now, err := h.RunsDB.ShortRun(c.Request.Context(), run.OrganizationID, "", run.Run.ID)
		if err != nil {
			// The run exists, so an outdated state is better than an error.
			h.Log.Warn().Err(err).Str("run_id", run.Run.ID).
				Msg("cannot read the run's current state; responding with its state at acceptance")
			break
		}
		run = now
	}

	if err := h.ReadAccepted(c, &run); err != nil {
		return err
	}
	body, err := run.Body()
	if err != nil {
		return err
	}

	status := http.StatusOK
	switch {
	case !run.Ended():
		status = http.StatusAccepted
		c.Header("Location", "/api/runs?id="+run.Run.ID)
		c.Header("Retry-After", "1")
	case p.replay:
		c.Header("Idempotency-Replayed", "true")
	}
	return h.sendRun(c, status, body)
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
