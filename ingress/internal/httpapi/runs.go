package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/uistream"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
)

// readable gives the principals whose sessions and runs a caller may read. nil means all of the organization's, which admins
// may read. A member's keys and login sessions share what any of them triggered, beside what is each one's own.
func readable(who domain.Caller) []string {
	switch {
	case who.Role.AtLeast(domain.RoleAdmin):
		return nil
	case who.UserID != "":
		return []string{who.Principal(), automationsOf(who)}
	default:
		return []string{who.Principal()}
	}
}

// mayRead reports whether a caller may read the runs of a principal.
func mayRead(who domain.Caller, principal string) bool {
	reads := readable(who)
	return reads == nil || slices.Contains(reads, principal)
}

// asReader calls find with each principal whose runs the caller may read until the run is found. find gets "" for callers who
// may read all of the organization's.
func asReader(who domain.Caller, find func(principal string) error) error {
	reads := readable(who)
	if reads == nil {
		return find("")
	}
	var err error
	for _, principal := range reads {
		if err = find(principal); apierr.CodeOf(err) != apierr.NotFound {
			break
		}
	}
	return err
}

// getRuns gives one run, waiting for its end if asked to, its timeline, or a list of runs.
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
	filter, err := a.runFilter(c)
	if err != nil {
		fail(c, err)
		return
	}
	who := caller(c)
	filter.Principals, filter.Before = readable(who), page.after
	runs, err := a.Store.ListRuns(c.Request.Context(), who.OrganizationID, filter, page.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, listOf(runs, page, func(r domain.RunSummary) string { return r.ID }))
}

func (a *api) runFilter(c *gin.Context) (store.RunFilter, error) {
	found := &problems{}
	if err := a.references(c, found, "agentId"); err != nil {
		return store.RunFilter{}, err
	}
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
	found.text("sessionId", f.SessionID, 0, sessionIDMax)
	if f.AutomationID != "" {
		checkAutomationID(found, "automationId", f.AutomationID)
	}
	return f, found.err()
}

func (a *api) getRun(c *gin.Context, runID string) {
	found := &problems{}
	streamed, reader := a.eventsAsked(found, c)
	wait := a.longPoll(found, c)
	timeline := timelineAsked(found, c)
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	switch {
	case streamed:
		a.streamRun(c, runID, reader)
		return
	case timeline:
		a.showTimeline(c, runID)
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

// eventsAsked reads whether a reader wants a run's events, behind which one, and in which format.
func (a *api) eventsAsked(found *problems, c *gin.Context) (streamed bool, reader uistream.Reader) {
	reader.Format = formatAsked(found, c)
	switch value, given := single(c, "stream", found); {
	case !given && reader.Format == "":
		return false, reader
	case given && value != "1" && value != "true":
		found.add("stream", codeInvalidValue, "must be 1 or true; without it the answer is the run")
		return false, reader
	}
	if c.Request.Method == http.MethodHead {
		found.add("stream", codeInvalidValue, "HEAD has no stream: ask with GET")
	}
	if _, given := query(c)["wait"]; given {
		found.add("wait", codeInvalidValue, "a stream waits by itself; name one of wait and stream")
	}
	if _, given := query(c)["timeline"]; given && reader.Format != "" {
		found.add("timeline", codeInvalidValue, "a format is one of a stream; name one of timeline and format")
	}
	reader.Last = resumedAt(found, c)
	return true, reader
}

// longPoll reads how long a reader wants to wait for a run's end: whole seconds, cut to the setting.
func (a *api) longPoll(found *problems, c *gin.Context) time.Duration {
	text, given := single(c, "wait", found)
	seconds, err := strconv.Atoi(text)
	if given && (err != nil || seconds < 0) {
		found.add("wait", codeInvalidValue, "must be a whole number of seconds")
	}
	return a.capped(seconds)
}

// findRun gives a run that the caller may read, and notes for the log that the request is about it.
func (a *api) findRun(c *gin.Context, runID string) (store.StoredRun, error) {
	run, err := a.readRun(c, runID)
	if err == nil {
		about(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	return run, err
}

// readRun is findRun without the note.
func (a *api) readRun(c *gin.Context, runID string) (run store.StoredRun, err error) {
	who := caller(c)
	err = asReader(who, func(principal string) (err error) {
		run, err = a.Store.RunByID(c.Request.Context(), who.OrganizationID, principal, runID)
		return err
	})
	return run, err
}

func erasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }

func (a *api) writeRun(c *gin.Context, run store.StoredRun) {
	if run.Erased {
		fail(c, erasedRun())
		return
	}
	body, err := run.Body()
	if err != nil {
		fail(c, err)
		return
	}
	sendBody(c, http.StatusOK, body)
}

// postRuns acts on a run: cancels it, or decides what it waits for a person to decide.
func (a *api) postRuns(c *gin.Context) {
	runID, err := requiredID(c, id.Run)
	if err != nil {
		fail(c, err)
		return
	}
	found := &problems{}
	action, _ := single(c, "action", found)
	decision := domain.Decision(action)
	var callID string
	switch {
	case slices.Contains(decisions, decision):
		callID = toolCallOf(c, found)
	case action != actionCancel:
		found.add("action", codeInvalidValue, "must be cancel, approve, deny, happened, resend or abandon")
	default:
		if _, given := query(c)["toolCallId"]; given {
			found.add("toolCallId", codeConflict, "cannot come with cancel, which ends the whole run")
		}
	}
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	run, err := a.actOnRun(c, runID, callID, decision)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, run.Target(), run.Run.ID, run.Run.SessionID)
	a.writeRun(c, run)
}

const (
	actionCancel = "cancel"
	toolCallMost = 1_000 // characters of a tool call's id
)

var decisions = slices.Concat(domain.ActionApproval.Decisions(), domain.ActionUnknownOutcome.Decisions())

// toolCallOf reads which call a decision is about: the run may wait for another one by now.
func toolCallOf(c *gin.Context, found *problems) string {
	callID, given := single(c, "toolCallId", found)
	if given {
		found.text("toolCallId", callID, 1, toolCallMost)
	} else {
		found.add("toolCallId", codeRequired, "the query must name the call that the run waits for")
	}
	return callID
}

// actOnRun cancels a run that the caller may read, or makes the decision about a call of it.
func (a *api) actOnRun(c *gin.Context, runID, callID string, decision domain.Decision) (store.StoredRun, error) {
	ctx, who := c.Request.Context(), caller(c)
	var run store.StoredRun
	err := asReader(who, func(principal string) (err error) {
		if decision == actionCancel {
			run, err = a.Dispatch.Cancel(ctx, who.OrganizationID, principal, runID)
			return err
		}
		run, err = a.Dispatch.Decide(ctx, dispatch.Answer{
			OrganizationID: who.OrganizationID, Principal: principal, RunID: runID, ToolCallID: callID, Decision: decision, By: who.Principal(),
		})
		return err
	})
	return run, err
}
