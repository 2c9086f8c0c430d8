package hook

import (
	"context"
	"errors"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/webhookin/intake"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/hookdb"
)

// Limits on log entries for deliveries without a valid signature, which anyone can send. Entries
// with the same hook, client address and reason are written at most once in repeatWindow. Verified
// senders have separate limits per hook and per organization, so that strangers cannot keep a
// misconfigured source out of the log. The limit for all organizations is so high that no single
// organization can reach it. An entry counts against the four limits in turn, up to the first limit
// that is exhausted.
const (
	repeatWindow = 10 * time.Second
	// Entries for one hook.
	rejectionsPerHook = 30 // per minute
	// Entries for all hooks of an organization, per minute.
	rejectionsPerOrg = 60
	// Entries for all organizations.
	rejectionsPerMinute = 6000
)

// rejections limits the number of log entries for rejected deliveries at this ingress process. The
// counts are lost when the process ends.
type rejections struct{ entries, hooks, orgs, all *ratelimit.Failures }

// newRejections returns limits that use the clock now.
func newRejections(now func() time.Time) *rejections {
	return &rejections{
		entries: ratelimit.NewFailures(1, repeatWindow, now),
		hooks:   ratelimit.NewFailures(rejectionsPerHook, time.Minute, now),
		orgs:    ratelimit.NewFailures(rejectionsPerOrg, time.Minute, now),
		all:     ratelimit.NewFailures(rejectionsPerMinute, time.Minute, now),
	}
}

// allow reports whether a rejected delivery may be logged now, and counts the entry. d contains the
// sender and the reason.
func (r *rejections) allow(orgID, hookID string, d *hookdb.Rejected) bool {
	kind := " others"
	if d.Verified {
		kind = " verified"
	}
	return r.entries.Begin(hookID+kind+" "+d.Client+" "+d.Reason) == 0 && r.hooks.Begin(hookID+kind) == 0 &&
		r.orgs.Begin(orgID+kind) == 0 && r.all.Begin("") == 0
}

// logRejected logs a delivery without a valid signature. The usual cause is that the source and the
// hook have different secrets. logRejected is called before the response is sent, and returns after
// the entry has been stored. If the entry cannot be stored, only the process's log reports it.
func (h *Handler) logRejected(c *gin.Context, hook *intake.Hook, client string, verified bool, cause error) {
	coded, ok := errors.AsType[*apierr.Error](cause)
	if !ok || coded.Code != apierr.Unauthenticated {
		return
	}
	d := hookdb.Rejected{Client: client, Verified: verified, Reason: coded.Detail, Bytes: max(0, c.Request.ContentLength)}
	if !h.Rejections.allow(hook.OrganizationID, hook.ID, &d) {
		return
	}

	// Store the entry even if the source disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), storeTimeout)
	defer cancel()
	if err := h.HooksDB.LogRejected(ctx, hook.OrganizationID, hook.ID, d); err != nil {
		h.Log.Warn().Err(err).Str("org_id", hook.OrganizationID).Msg("cannot log a rejected delivery of a hook")
		return
	}
	h.Changes.Changed(domain.ChangedRuns, hook.OrganizationID) // watchers of runs also show deliveries
}
