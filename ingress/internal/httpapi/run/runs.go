package run

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/offload"
	"parley/ingress/internal/uistream"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/rundb"
)

// findReadable calls find for each principal whose runs the caller may read. It stops when find
// returns anything but not_found, and returns the last result. If the caller may read all runs of
// the organization, it calls find only once, with "". find is called with the caller's own
// principal first.
func findReadable(who domain.Caller, find func(principal string) error) error {
	reads := who.Readable()
	if reads == nil {
		return find("")
	}

	var err error
	for _, principal := range reads {
		if err = find(principal); apierr.CodeFor(err) != apierr.NotFound {
			break
		}
	}

	return err
}

// getRuns handles GET /api/runs: it responds with a list of runs or with one run. One run has three
// forms: the run object (after a wait, if requested), the timeline, and the stream of events.
func (h *Handler) getRuns(c *gin.Context) {
	runID, one, err := httpx.QueryID(c, id.Run)
	switch {
	case err != nil:
		httpx.Fail(c, err)
	case one:
		h.getRun(c, runID)
	default:
		lists{&h.Deps}.send(c)
	}
}

// lists handles requests for lists of runs. It is separate from Handler, so that a type does not
// have too many methods.
type lists struct{ *Deps }

// send responds with the runs that the caller may read, newest first and in short form: one page of
// them, or an export of all. Pages are limited by the parameter limit. The cursor is the id of the
// last run, or of the last run that a search has examined.
func (l lists) send(c *gin.Context) {
	page, err := httpx.ReadPage(c, id.Run)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	filter, export, err := l.filter(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	who := httpx.Caller(c)
	filter.Principals, filter.Before = who.Readable(), page.After
	if export != "" {
		l.export(c, filter, export)
		return
	}

	runs, next, err := l.find(c.Request.Context(), who.OrganizationID, filter, page.Limit)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	list := httpx.NewList(runs, page, func(r domain.RunSummary) string { return r.ID })
	if !list.HasMore && next != "" { // a search may return fewer runs than the limit, or none, although it has not searched all runs
		list.HasMore, list.NextCursor = true, new(httpx.Cursor(next))
	}
	httpx.WriteJSON(c, http.StatusOK, list)
}

// find returns up to limit runs that match a filter. next is the value of filter.Before for the
// runs that follow, or empty if none follow. A search may return fewer runs than limit, or none,
// before it has searched all runs.
func (l lists) find(ctx context.Context, org string, filter rundb.RunFilter, limit int) (
	runs []domain.RunSummary, next string, err error,
) {
	if filter.Words != "" {
		runs, next, err = l.RunsDB.SearchRuns(ctx, org, filter, limit+1)
	} else {
		runs, err = l.RunsDB.ListRuns(ctx, org, filter, limit+1)
	}
	if err == nil && len(runs) > limit {
		runs, next = runs[:limit], runs[limit-1].ID
	}
	return runs, next, err
}

// maxRunSearch limits the work of a search.
const maxRunSearch = 200 // maximum number of characters in the words of a search

// filter reads the filter for a list of runs, and the format in which the list is to be exported.
// Problems of all parameters are returned as one error. The agent must exist in the organization.
func (l lists) filter(c *gin.Context) (f rundb.RunFilter, export string, err error) {
	found := &httpx.Problems{}
	if err := l.CheckReferences(c, found, "agentId"); err != nil {
		return f, "", err
	}

	// value returns a parameter, or "" if it is missing.
	value := func(name string) string {
		v, _ := httpx.QueryValue(c, name, found)
		return v
	}
	f = rundb.RunFilter{
		AgentID: value("agentId"), SessionID: value("sessionId"), AutomationID: value("automationId"),
		TriggerType: value("triggerType"), Status: domain.RunStatus(value("status")), WaitsFor: domain.Awaited(value("waitsFor")),
		Words: value("q"),
		From:  moment(c, found, "from"), Until: moment(c, found, "to"),
	}

	if f.Status != "" && !slices.Contains(domain.RunStatuses, f.Status) {
		found.Add("status", httpx.CodeInvalidValue, "is not a run status")
	}
	switch {
	case f.WaitsFor == "":
	case f.Words != "":
		found.Add("waitsFor", httpx.CodeInvalidValue, "cannot be combined with q, which finds only finished runs")
	default:
		httpx.OneOf(found, "waitsFor", f.WaitsFor, domain.AwaitedPerson, domain.AwaitedClient)
	}
	if f.TriggerType != "" && !triggerTypes.MatchString(f.TriggerType) {
		found.Add("triggerType", httpx.CodeInvalidValue, "must be 1 to 32 characters of a-z, 0-9, _ and -, starting with a letter")
	}
	if !f.Until.IsZero() && !f.From.Before(f.Until) {
		found.Add("to", httpx.CodeInvalidValue, "must be after from")
	}

	found.Text("q", f.Words, 0, maxRunSearch)
	found.Text("sessionId", f.SessionID, 0, runbody.MaxSessionID)
	if f.AutomationID != "" {
		httpx.CheckAutomationID(found, "automationId", f.AutomationID)
	}
	export = exportFormat(found, c)
	return f, export, found.Err()
}

// moment reads a query parameter that contains a time. Without the parameter, it returns the zero
// time. The form is that of RFC 3339. An invalid time is added to found.
func moment(c *gin.Context, found *httpx.Problems, name string) time.Time {
	text, present := httpx.QueryValue(c, name, found)
	if !present {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1970 || at.Year() > 2100 {
		found.Add(name, httpx.CodeInvalidValue, "must be a time such as 2026-11-21T09:31:00Z, from 1970 to 2100")
		return time.Time{}
	}
	return at
}

// runRequest contains the parameters of a request for one run. At most one of streamed and timeline
// is true.
type runRequest struct {
	// Respond with events.
	streamed bool
	reader   uistream.Reader // for an event stream
	// Respond with the timeline.
	timeline bool
	// Time to wait for the run to finish; 0: none.
	wait time.Duration
}

// getRun responds with one run: as a stream of events, as a timeline, or as a run object after the
// requested wait. Separate functions do the work before and after a wait; see respond. The
// parameters are passed by pointer, which keeps the stack small during the wait.
func (h *Handler) getRun(c *gin.Context, runID string) {
	asked, err := h.requestedRun(c)
	switch {
	case err != nil:
		httpx.Fail(c, err)
	case asked.streamed:
		h.streamRun(c, runID, &asked.reader)
	case asked.timeline:
		h.showTimeline(c, runID)
	default:
		h.awaitRun(c, runID, asked.wait)
	}
}

// requestedRun reads the parameters of a request for one run. Problems are returned as one error.
func (h *Handler) requestedRun(c *gin.Context) (*runRequest, error) {
	found, asked := &httpx.Problems{}, &runRequest{}
	asked.streamed, asked.reader = requestedEvents(found, c)
	asked.wait = longPoll(found, c, h.WaitDefault)
	asked.timeline = requestedTimeline(found, c)
	return asked, found.Err()
}

// awaitRun waits until a run has finished or the time is over, and responds with the run. The wait
// ends early when the service stops.
func (h *Handler) awaitRun(c *gin.Context, runID string, wait time.Duration) {
	var sub *dispatch.Submitted
	offload.Do(func() { sub = h.showRun(c, runID, wait) })
	if sub == nil {
		return
	}
	defer h.Dispatch.Release(sub)
	if _, err := h.Dispatch.Await(c.Request.Context(), sub, wait); err != nil {
		httpx.Fail(c, err)
		return
	}
	offload.Do(func() { h.showRun(c, runID, 0) }) // read the run again, because the result of the wait may contain only a part of it
}

// showRun responds with a run and returns nil. But if the run has not finished and wait is not 0,
// showRun returns the run without responding. The caller must release the result.
func (h *Handler) showRun(c *gin.Context, runID string, wait time.Duration) *dispatch.Submitted {
	run, err := h.findRun(c, runID)
	switch {
	case err != nil:
		httpx.Fail(c, err)
	case wait > 0 && !run.Run.Status.Terminal():
		return dispatch.Attach(run)
	default:
		h.writeRun(c, run)
	}
	return nil
}

// requestedEvents reads from the request whether a stream of events is requested, in which format,
// and after which event it begins. Problems are added to found, in particular parameters that
// cannot be combined with a stream.
func requestedEvents(found *httpx.Problems, c *gin.Context) (streamed bool, reader uistream.Reader) {
	reader.Format = requestedFormat(found, c)
	switch value, present := httpx.QueryValue(c, "stream", found); {
	case !present && reader.Format == "":
		return false, reader
	case present && value != "1" && value != "true":
		found.Add("stream", httpx.CodeInvalidValue, "must be 1 or true; omit it to read the run")
		return false, reader
	}

	// A stream has no length, which the response to HEAD would have to contain.
	if c.Request.Method == http.MethodHead {
		found.Add("stream", httpx.CodeInvalidValue, "is not supported with HEAD: use GET")
	}
	if _, present := httpx.Query(c)["wait"]; present {
		found.Add("wait", httpx.CodeInvalidValue, "cannot be combined with stream")
	}
	if _, present := httpx.Query(c)["timeline"]; present && reader.Format != "" {
		found.Add("timeline", httpx.CodeInvalidValue, "cannot be combined with a stream format")
	}

	reader.Last = httpx.ReadLastEventID(found, c)
	return true, reader
}

// longPoll reads the parameter wait: how long the request waits for the run to finish, in whole
// seconds. It returns at most the given maximum. A missing parameter means no wait. Larger values
// are reduced without an error, because clients cannot know the maximum.
func longPoll(found *httpx.Problems, c *gin.Context, maximum time.Duration) time.Duration {
	text, present := httpx.QueryValue(c, "wait", found)
	seconds, err := strconv.Atoi(text)
	if present && (err != nil || seconds < 0) {
		found.Add("wait", httpx.CodeInvalidValue, "must be a whole number of seconds")
	}
	return limitWait(seconds, maximum)
}

// findRun returns a run that the caller may read, in the form of rundb.Store.ShortRun, and sets the
// ids for the log line. The error is not_found for a run that the caller may not read.
func (h *Handler) findRun(c *gin.Context, runID string) (rundb.StoredRun, error) {
	run, err := h.ReadRun(c, runID)
	if err == nil {
		httpx.SetLogIDs(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	return run, err
}

// ReadRun is like findRun, but does not set the ids for the log line. For a widget visitor, it
// finds only runs of the token's agent: two agents of an organization may have a visitor with the
// same id. Large parts of a run may be missing; see ReadDeferred.
func (h *Handler) ReadRun(c *gin.Context, runID string) (run rundb.StoredRun, err error) {
	who := httpx.Caller(c)
	err = findReadable(who, func(principal string) (err error) {
		run, err = h.RunsDB.ShortRun(c.Request.Context(), who.OrganizationID, principal, runID)
		return err
	})
	if err == nil && who.Visitor.ID != "" && (run.Run.AgentID == nil || *run.Run.AgentID != who.Visitor.AgentID) {
		return rundb.StoredRun{}, httpx.NotFound()
	}
	return run, err
}

// writeRun responds with a run object. If the run is large, writeRun waits for capacity before it
// reads the whole run. For an erased run, it responds with the error of dispatch.ErasedRun. The
// fields that the caller may not see are removed.
func (h *Handler) writeRun(c *gin.Context, run rundb.StoredRun) {
	if err := h.ReadDeferred(c, &run); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if run.Erased {
		httpx.Fail(c, dispatch.ErasedRun())
		return
	}

	body, err := run.Body()
	if err == nil {
		err = h.sendRun(c, http.StatusOK, body)
	}
	if err != nil {
		httpx.RefuseAnswer(c, err)
	}
}

// ReadDeferred replaces a large run, of which a part was not read, by the whole run. Before it
// reads the run, it waits for capacity; see httpx.ReserveAnswer. The run may have finished or been
// erased in the meantime. It does nothing if the whole run was read already.
func (h *Handler) ReadDeferred(c *gin.Context, run *rundb.StoredRun) error {
	if run.Deferred == 0 {
		return nil
	}
	if err := httpx.ReserveAnswer(c, run.Deferred); err != nil {
		return err
	}

	whole, err := h.RunsDB.RunByID(c.Request.Context(), run.OrganizationID, "", run.Run.ID)
	if err != nil {
		return err
	}

	*run = whole
	return nil
}

// ReadAccepted is ReadDeferred for a run that the request has created, or found by its idempotency
// key. If the run has expired in the meantime, the client may repeat the request, and the error
// says so. For an erased run, the error is that of dispatch.ErasedKey.
func (h *Handler) ReadAccepted(c *gin.Context, run *rundb.StoredRun) error {
	err := h.ReadDeferred(c, run)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return dispatch.ExpiredKey()
	case err == nil && run.Erased:
		return dispatch.ErasedKey()
	}
	return err
}

// postRuns handles POST /api/runs: it cancels a run, or applies a person's decision about a tool
// call for which the run waits. The response is the run after the change. If the run waits for a
// decision about another call, the result is an error.
func (h *Handler) postRuns(c *gin.Context) {
	runID, err := httpx.RequiredID(c, id.Run)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	found := &httpx.Problems{}
	action, _ := httpx.QueryValue(c, "action", found)
	decision := domain.Decision(action)
	var callID string
	switch {
	case slices.Contains(decisions, decision):
		callID = toolCall(c, found)
	case action != actionCancel:
		found.Add("action", httpx.CodeInvalidValue, "must be cancel, approve, deny, happened, resend, abandon or tool-results")

	// A cancellation concerns the whole run.
	default:
		if _, present := httpx.Query(c)["toolCallId"]; present {
			found.Add("toolCallId", httpx.CodeConflict, "cannot be combined with the action cancel")
		}
	}

	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	run, err := h.actOnRun(c, runID, callID, decision)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.SetLogIDs(c, run.Target(), run.Run.ID, run.Run.SessionID)
	h.writeRun(c, run)
}

// Bounds and names for the actions on a run.
const (
	actionCancel = "cancel"
	maxToolCall  = 1_000 // maximum number of characters in the id of a tool call
)

// decisions are the actions that decide about a tool call.
var decisions = slices.Concat(domain.ActionApproval.Decisions(), domain.ActionUnknownOutcome.Decisions())

// toolCall reads the id of the tool call to which a decision applies. The query must contain it,
// because the run may by now be waiting for a decision about another call. A missing or malformed
// id is added to found.
func toolCall(c *gin.Context, found *httpx.Problems) string {
	callID, present := httpx.QueryValue(c, "toolCallId", found)
	if present {
		found.Text("toolCallId", callID, 1, maxToolCall)
	} else {
		found.Add("toolCallId", httpx.CodeRequired, "is required: the id of the call that the run waits for")
	}
	return callID
}

// CancelRun cancels a run that the caller may read, or a visitor's own run. A finished run is
// returned unchanged.
func (h *Handler) CancelRun(c *gin.Context, runID string) (rundb.StoredRun, error) {
	return h.actOnRun(c, runID, "", actionCancel)
}

// actOnRun cancels a run that the caller may read, or makes a decision about one of the run's tool
// calls. The statement that makes the change checks the permission again.
func (h *Handler) actOnRun(c *gin.Context, runID, callID string, decision domain.Decision) (rundb.StoredRun, error) {
	ctx, who := c.Request.Context(), httpx.Caller(c)

	// The token of a visitor is valid for one agent only, which the statement does not check.
	if who.Visitor.ID != "" {
		if run, err := h.ReadRun(c, runID); err != nil {
			return run, err
		}
	}

	var run rundb.StoredRun
	err := findReadable(who, func(principal string) (err error) {
		if decision == actionCancel {
			run, err = h.Dispatch.Cancel(ctx, who.OrganizationID, principal, runID)
			return err
		}
		run, err = h.Dispatch.Decide(ctx, dispatch.Answer{
			OrganizationID: who.OrganizationID, Principal: principal, RunID: runID, ToolCallID: callID, Decision: decision, By: who.Principal(),
		})
		return err
	})
	return run, err
}
