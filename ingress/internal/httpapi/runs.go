package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
)

// readable is the principal whose runs a caller may read: all of the organization's for admins, else their own.
func readable(who domain.Caller) string {
	if who.Role.AtLeast(domain.RoleAdmin) {
		return ""
	}
	return who.Principal()
}

// getRuns gives one run, waiting for its end if asked to, or a list of runs.
func (a *api) getRuns(c *gin.Context) {
	runID, one, err := idOf(c, id.Run)
	switch {
	case err != nil:
		fail(c, err)
	case one:
		a.getRun(c, runID)
	default:
		a.listRuns(c)
	}
}

func (a *api) listRuns(c *gin.Context) {
	page, err := pageOf(c, id.Run)
	if err != nil {
		fail(c, err)
		return
	}
	filter, err := runFilter(c)
	if err != nil {
		fail(c, err)
		return
	}
	who := caller(c)
	filter.Principal, filter.Before = readable(who), page.after
	runs, err := a.Store.ListRuns(c.Request.Context(), who.OrganizationID, filter, page.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	shown := listOf(runs, page, func(r store.StoredRun) string { return r.Run.ID })
	bodies := list[json.RawMessage]{Data: make([]json.RawMessage, len(shown.Data)), HasMore: shown.HasMore, NextCursor: shown.NextCursor}
	for i, run := range shown.Data {
		if bodies.Data[i], err = run.Body(); err != nil {
			fail(c, err)
			return
		}
	}
	writeJSON(c, http.StatusOK, bodies)
}

func runFilter(c *gin.Context) (store.RunFilter, error) {
	found := &problems{}
	value := func(name string) string {
		v, _ := single(c, name, found)
		return v
	}
	f := store.RunFilter{
		AgentID: value("agentId"), SessionID: value("sessionId"), AutomationID: value("automationId"),
		Status: domain.RunStatus(value("status")),
	}
	if f.Status != "" && !slices.Contains(domain.RunStatuses, f.Status) {
		found.add("status", codeInvalidValue, "is no status of a run")
	}
	return f, found.err()
}

func (a *api) getRun(c *gin.Context, runID string) {
	wait, err := a.longPoll(c)
	if err != nil {
		fail(c, err)
		return
	}
	run, err := a.findRun(c, runID)
	if err != nil {
		fail(c, err)
		return
	}
	if wait > 0 && !run.Run.Status.Terminal() {
		sub := dispatch.Attach(run)
		defer a.Dispatch.Release(sub)
		if _, err = a.Dispatch.Await(c.Request.Context(), sub, wait); err != nil {
			fail(c, err)
			return
		}
		if run, err = a.findRun(c, runID); err != nil {
			fail(c, err)
			return
		}
	}
	a.writeRun(c, run)
}

// longPoll reads how long a reader wants to wait for a run's end: whole seconds, cut to the setting.
func (a *api) longPoll(c *gin.Context) (time.Duration, error) {
	found := &problems{}
	if _, given := single(c, "stream", found); given {
		found.add("stream", codeInvalidValue, "this release has no event streams")
	}
	text, given := single(c, "wait", found)
	seconds, err := strconv.Atoi(text)
	if given && (err != nil || seconds < 0) {
		found.add("wait", codeInvalidValue, "must be a whole number of seconds")
	}
	return a.capped(seconds), found.err()
}

func (a *api) findRun(c *gin.Context, runID string) (store.StoredRun, error) {
	who := caller(c)
	run, err := a.Store.RunByID(c.Request.Context(), who.OrganizationID, readable(who), runID)
	if err == nil {
		about(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	return run, err
}

func (a *api) writeRun(c *gin.Context, run store.StoredRun) {
	if run.Erased {
		fail(c, apierr.New(apierr.Erased, "this run was erased by its organization"))
		return
	}
	body, err := run.Body()
	if err != nil {
		fail(c, err)
		return
	}
	c.Data(http.StatusOK, contentJSON, body)
}

// postRuns acts on a run.
func (a *api) postRuns(c *gin.Context) {
	runID, err := requiredID(c, id.Run)
	if err != nil {
		fail(c, err)
		return
	}
	found := &problems{}
	if action, _ := single(c, "action", found); action != "cancel" {
		found.add("action", codeInvalidValue, "must be cancel")
	}
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	who := caller(c)
	run, err := a.Dispatch.Cancel(c.Request.Context(), who.OrganizationID, readable(who), runID)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, run.Target(), run.Run.ID, run.Run.SessionID)
	a.writeRun(c, run)
}
