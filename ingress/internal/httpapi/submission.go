package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/uistream"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
)

// submission is a checked request to run an agent or template, however it came in.
type submission struct {
	endpoint     contract.Endpoint
	lane         domain.Lane
	caller       domain.Caller
	principal    string
	agentID      string // exactly one of agentID and templateID is set
	templateID   string
	sessionID    string // empty: a session of its own
	message      string
	data         json.RawMessage   // further input; nil for none
	history      []domain.Exchange // what came before the message, when the request brings its conversation along
	instructions string            // to the agent, beside its own
	key          string            // idempotency key; empty for none
	keyScope     string            // what the key is unique in, beside organization and endpoint
	triggerType  string
	automationID string
	traceparent  string          // of the request
	retention    time.Duration   // 0: until the session is erased
	streamed     bool            // events are wanted instead of the result,
	last         domain.EventID  // behind this one
	reader       uistream.Reader // of the events, in another format than ours

	// before looks up what the run needs besides: once the request is counted, and not at all for one that cannot be
	// afforded. nil for nothing.
	before    func(context.Context) error
	beforeErr error // of before, once it was called
}

func (s *submission) target() string { return s.agentID + s.templateID }

// keyHash is what the database knows the idempotency key by; nil without one.
func (s *submission) keyHash() []byte {
	if s.key == "" {
		return nil
	}
	return s.keyHashIn(s.keyScope)
}

func (s *submission) keyHashIn(scope string) []byte {
	return contract.Hash(s.caller.OrganizationID, string(s.endpoint), scope, s.key)
}

// rescoped reports whether the release before kept the submission's idempotency key in another scope, where its runs are still found.
// Once those have expired, this can go.
func (s *submission) rescoped() bool {
	return s.key != "" && s.endpoint == contract.EndpointAutomation && s.keyScope != organizationScope
}

// fingerprint tells a retry from another request under the same key.
func (s *submission) fingerprint() []byte {
	asked := []string{s.target(), s.sessionID, s.message, string(httpx.Canonical(s.data))}
	if len(s.history) > 0 || s.instructions != "" { // others have the fingerprint that they always had
		for _, e := range s.history {
			asked = append(asked, e.Message, e.Answer)
		}
		asked = append(asked, s.instructions)
	}
	return contract.Hash(asked...)
}

// newRun gives the submission its id and the shape that is stored, but for the fingerprint, which is for requests that can share a key.
func (s *submission) newRun(deadline time.Duration) (store.NewRun, error) {
	input, err := json.Marshal(domain.Input{Message: s.message, Data: s.data, History: s.history, Instructions: s.instructions})
	if err != nil {
		return store.NewRun{}, err
	}
	runID := id.New(id.Run)
	run := store.NewRun{
		ID: runID, OrganizationID: s.caller.OrganizationID, AgentID: s.agentID, TemplateID: s.templateID,
		CallerKind: s.caller.Kind, Principal: s.principal, SessionID: s.sessionID, TriggerType: s.triggerType,
		AutomationID: s.automationID, IdempotencyKey: s.key, KeyHash: s.keyHash(),
		Input: input, Lane: s.lane, Traceparent: s.traceparent, Retention: s.retention, Deadline: deadline,
		KeyID: s.caller.KeyID,
	}
	if run.SessionID == "" {
		run.SessionID, run.OwnSession = "auto_"+id.Suffix(runID), true
	}
	run.SessionKey = contract.Hash(run.OrganizationID, s.target(), s.principal, run.SessionID)
	unique := s.keyScope + "\x00" + s.key
	if s.key == "" {
		unique = runID
	}
	run.Dedupe = contract.Dedupe(run.OrganizationID, s.endpoint, unique)
	return run, nil
}

// submit carries a submission from its key to the answer. The key counts before limits, agent and permission: a replay
// costs nothing and stays what it was.
func (a *api) submit(c *gin.Context, s *submission) {
	wait := a.preferredWait(c.Request.Header)
	sub, err := a.findOrAccept(c, s, func(string) {})
	if err != nil {
		httpx.Fail(c, s.asTarget(err))
		return
	}
	defer a.Dispatch.Release(sub)
	httpx.About(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)
	replayed := sub.Existing && (sub.Run.Result != nil || sub.Run.Erased)
	if !replayed && (wait == 0 || sub.Run.Run.Status == domain.RunRequiresAction) {
		a.accepted(c, &sub.Run) // what a run waits for may be this very caller's to decide
		return
	}
	result, err := a.Dispatch.Await(c.Request.Context(), sub, wait)
	switch {
	case err != nil:
		httpx.Fail(c, err)
	case result.Erased:
		httpx.Fail(c, erasedKey())
	case !result.Ended:
		a.unfinished(c, &sub.Run)
	default:
		if replayed {
			c.Header("Idempotency-Replayed", "true")
		}
		writeRun(c, http.StatusOK, result.Body)
	}
}

// toll is what a request pays for beginning a run: a replay costs nothing.
type toll interface {
	pay() error
	refund()       // another request with the key has paid
	returns() bool // refund would give all back that pay took, and nobody would have missed it meanwhile
}

// paid is the toll of requests that were counted before.
type paid struct{}

func (paid) pay() error    { return nil }
func (paid) refund()       {}
func (paid) returns() bool { return true }

// counting counts a request against its caller's limit, and shows on the response where that stands.
type counting struct {
	a *api
	c *gin.Context
}

func (t counting) pay() error { return t.a.Spend(t.c) }

func (t counting) refund() {
	t.a.Limits.Refund(httpx.Caller(t.c))
	t.a.ShowLimit(t.c)
}

func (t counting) returns() bool { return t.a.Limits.Plenty(httpx.Caller(t.c)) }

// findOrAccept gives the run of the submission's key, or a new one, of whose id accepting is told before it exists.
func (a *api) findOrAccept(c *gin.Context, s *submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	s.traceparent = httpx.Traceparent(c)
	return a.begin(c.Request.Context(), s, counting{a, c}, accepting)
}

// begin is findOrAccept for requests that are answered in other ways. What it gives must be released.
//
// The key counts first, but most are new, and accepting tells in any case. So where being counted costs nobody anything, only a key
// that was seen here before is looked up before all else; another one is when it was refused as if it were new.
func (a *api) begin(ctx context.Context, s *submission, t toll, accepting func(runID string)) (*dispatch.Submitted, error) {
	hash := s.keyHash()
	lookedUp := hash == nil
	if !lookedUp && (!t.returns() || a.Dispatch.Seen(hash) || s.rescoped()) {
		lookedUp = true
		if sub, held, err := a.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}
	unpaid := t.pay()
	sub, err := (*dispatch.Submitted)(nil), unpaid
	if unpaid == nil {
		sub, err = a.beginNew(ctx, s, accepting)
	}
	switch {
	case err == nil && !sub.Existing:
		return sub, nil
	case err == nil:
		t.refund()
		return attach(ctx, s, &sub.Run)
	case lookedUp:
		return nil, err
	}
	holder, held, holderErr := a.held(ctx, s, hash)
	if !held && holderErr == nil {
		return nil, err
	}
	if unpaid == nil {
		t.refund()
	}
	return holder, holderErr
}

// held gives the run that holds the submission's key, if one does.
func (a *api) held(ctx context.Context, s *submission, hash []byte) (sub *dispatch.Submitted, held bool, err error) {
	run, err := a.Dispatch.ByKey(ctx, s.caller.OrganizationID, hash)
	if err == nil && run == nil && s.rescoped() {
		run, err = a.heldBefore(ctx, s)
	}
	if err != nil || run == nil {
		return nil, false, err
	}
	sub, err = attach(ctx, s, run)
	return sub, true, err
}

// heldBefore gives the run that the release before accepted under the submission's key, if a key of the same user began it.
func (a *api) heldBefore(ctx context.Context, s *submission) (*store.StoredRun, error) {
	run, err := a.Dispatch.ByKey(ctx, s.caller.OrganizationID, s.keyHashIn(organizationScope))
	if err != nil || run == nil {
		return nil, err
	}
	theirs, err := a.Store.TriggeredBy(ctx, s.caller.OrganizationID, s.caller.UserID, run.Run.ID)
	if err != nil || !theirs {
		return nil, err
	}
	return run, nil
}

// beginNew accepts a run for the submission, or gives the one that holds its key.
func (a *api) beginNew(ctx context.Context, s *submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	err := a.withinBudget(ctx, s.caller.OrganizationID, s.agentID, s.caller.KeyID, s.automationID)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	run, err := s.newRun(a.RunDeadline)
	if err != nil {
		return nil, err
	}
	run.Fingerprint = s.fingerprint()
	accepting(run.ID)
	return a.Dispatch.Submit(ctx, run)
}

// prepare does what is to be done before the run: once.
func (s *submission) prepare(ctx context.Context) error {
	if s.before == nil {
		return s.beforeErr
	}
	before := s.before
	s.before = nil
	s.beforeErr = before(ctx)
	return s.beforeErr
}

// attach gives the run that holds the key, if the caller may read it and asked the same. A user who was an admin when it began may not
// read it any more.
func attach(ctx context.Context, s *submission, run *store.StoredRun) (*dispatch.Submitted, error) {
	if !s.caller.MayRead(run.Principal) {
		return nil, apierr.New(apierr.PermissionDenied, "the run of this idempotency key is not yours to read; use another key")
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if !run.Erased && !bytes.Equal(run.Fingerprint, s.fingerprint()) {
		return nil, apierr.New(apierr.IdempotencyKeyReused, "this idempotency key was used for another request")
	}
	return dispatch.Attach(*run), nil
}

// erasedKey is the refusal of a request whose key's run is gone; [erasedRun] is that of the run by its id.
func erasedKey() error {
	return apierr.New(apierr.Erased, "the run of this idempotency key was erased by its organization")
}

// accepted answers 202 with the run as it was accepted.
func (a *api) accepted(c *gin.Context, run *store.StoredRun) {
	body, err := run.Body()
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	c.Header("Retry-After", "1")
	writeRun(c, http.StatusAccepted, body)
}

// unfinished answers 202 with the run as it stands now that the wait is over, or the run waits for a person.
func (a *api) unfinished(c *gin.Context, run *store.StoredRun) {
	now, err := a.Store.RunByID(c.Request.Context(), run.OrganizationID, "", run.Run.ID)
	if err != nil {
		a.Log.Warn().Err(err).Str("run_id", run.Run.ID).Msg("cannot read the run as it stands; answering as it was accepted")
		now = *run
	}
	if now.Result != nil { // it ended just now
		writeRun(c, http.StatusOK, now.Result)
		return
	}
	a.accepted(c, &now)
}

// capped is a wait in seconds, cut to the setting.
func (a *api) capped(seconds int) time.Duration {
	return time.Duration(min(seconds, int(a.WaitDefault/time.Second))) * time.Second
}

// preferredWait reads Prefer: wait=N in seconds, up to the setting, and respond-async, which is no wait. Unknown and malformed
// preferences are ignored, and of one that is repeated the first counts (RFC 7240).
func (a *api) preferredWait(header http.Header) time.Duration {
	wait, waits := a.WaitDefault, false
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
			wait, waits = a.capped(seconds), true
		}
	}
	return wait
}

// asTarget names the target of run-automation when it is not found: a reference in a body.
func (s *submission) asTarget(err error) error {
	if s.endpoint == contract.EndpointAutomation && apierr.CodeOf(err) == apierr.NotFound {
		return apierr.Invalid("target", httpx.CodeInvalidValue, "is no agent of this organization")
	}
	return err
}

// withinBudget refuses a new run by budget_exceeded when one of the budgets that it would fall under is used up. keyID and
// automationID are "" for none.
func (a *api) withinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // whose budget is DEMO_DAILY_TOKENS
		return nil
	}
	return a.Store.WithinBudget(ctx, org, agentID, keyID, automationID)
}
