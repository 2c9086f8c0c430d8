package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/stream"
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
	traceparent  string         // of the request
	retention    time.Duration  // 0: until the session is erased
	last         domain.EventID // follow gives the events after this one

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
	asked := []string{s.target(), s.sessionID, s.message, string(contract.Canonical(s.data))}
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

// toll is what a request pays for beginning a run: a replay costs nothing.
type toll interface {
	Pay() error
	Refund()       // another request with the key has paid
	Returns() bool // Refund would give all back that Pay took, and nobody would have missed it meanwhile
}

// paid is the toll of requests that were counted before.
type paid struct{}

func (paid) Pay() error    { return nil }
func (paid) Refund()       {}
func (paid) Returns() bool { return true }

// submitter carries submissions from their key to their run.
type submitter struct {
	store       *store.Store
	dispatch    *dispatch.Dispatcher
	streams     *stream.Hub
	runDeadline time.Duration // from acceptance
}

// newSubmitter makes a submitter.
func newSubmitter(s *store.Store, d *dispatch.Dispatcher, streams *stream.Hub, runDeadline time.Duration) *submitter {
	return &submitter{s, d, streams, runDeadline}
}

// begin is findOrAccept for requests that are answered in other ways. What it gives must be released.
//
// The key counts first, but most are new, and accepting tells in any case. So where being counted costs nobody anything, only a key
// that was seen here before is looked up before all else; another one is when it was refused as if it were new.
func (r *submitter) begin(ctx context.Context, s *submission, t toll, accepting func(runID string)) (*dispatch.Submitted, error) {
	hash := s.keyHash()
	lookedUp := hash == nil
	if !lookedUp && (!t.Returns() || r.dispatch.Seen(hash) || s.rescoped()) {
		lookedUp = true
		if sub, held, err := r.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}
	unpaid := t.Pay()
	sub, err := (*dispatch.Submitted)(nil), unpaid
	if unpaid == nil {
		sub, err = r.beginNew(ctx, s, accepting)
	}
	switch {
	case err == nil && !sub.Existing:
		return sub, nil
	case err == nil:
		t.Refund()
		return attach(ctx, s, &sub.Run)
	case lookedUp:
		return nil, err
	}
	holder, held, holderErr := r.held(ctx, s, hash)
	if !held && holderErr == nil {
		return nil, err
	}
	if unpaid == nil {
		t.Refund()
	}
	return holder, holderErr
}

// held gives the run that holds the submission's key, if one does.
func (r *submitter) held(ctx context.Context, s *submission, hash []byte) (sub *dispatch.Submitted, held bool, err error) {
	run, err := r.dispatch.ByKey(ctx, s.caller.OrganizationID, hash)
	if err == nil && run == nil && s.rescoped() {
		run, err = r.heldBefore(ctx, s)
	}
	if err != nil || run == nil {
		return nil, false, err
	}
	sub, err = attach(ctx, s, run)
	return sub, true, err
}

// heldBefore gives the run that the release before accepted under the submission's key, if a key of the same user began it.
func (r *submitter) heldBefore(ctx context.Context, s *submission) (*store.StoredRun, error) {
	run, err := r.dispatch.ByKey(ctx, s.caller.OrganizationID, s.keyHashIn(organizationScope))
	if err != nil || run == nil {
		return nil, err
	}
	theirs, err := r.store.TriggeredBy(ctx, s.caller.OrganizationID, s.caller.UserID, run.Run.ID)
	if err != nil || !theirs {
		return nil, err
	}
	return run, nil
}

// beginNew accepts a run for the submission, or gives the one that holds its key.
func (r *submitter) beginNew(ctx context.Context, s *submission, accepting func(runID string)) (*dispatch.Submitted, error) {
	err := r.withinBudget(ctx, s.caller.OrganizationID, s.agentID, s.caller.KeyID, s.automationID)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	run, err := s.newRun(r.runDeadline)
	if err != nil {
		return nil, err
	}
	run.Fingerprint = s.fingerprint()
	accepting(run.ID)
	return r.dispatch.Submit(ctx, run)
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

// follow gives the events of a submission's run, which was begun for it or holds its key. The run is given with an error,
// too, once it is known.
func (r *submitter) follow(ctx context.Context, s *submission, t toll) (*stream.Reader, *store.StoredRun, error) {
	var reader *stream.Reader // follows the run before it exists: nothing that it tells is missed
	sub, err := r.begin(ctx, s, t, func(runID string) { reader = r.streams.Follow(runID) })
	if reader != nil && (err != nil || sub.Existing) { // the run that would have been is none
		reader.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	r.dispatch.Release(sub) // nobody awaits its result
	run := &sub.Run
	switch {
	case run.Erased:
		return nil, run, erasedKey()
	case !sub.Existing: // it is accepted: whatever fails from here on, its id is answered
		reader.Begin(run, s.last)
		return reader, run, nil
	}
	reader, err = r.streams.Open(ctx, run.OrganizationID, run.Run.ID, s.last)
	return reader, run, err
}

// withinBudget refuses a new run by budget_exceeded when one of the budgets that it would fall under is used up. keyID and
// automationID are "" for none.
func (r *submitter) withinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // whose budget is DEMO_DAILY_TOKENS
		return nil
	}
	return r.store.WithinBudget(ctx, org, agentID, keyID, automationID)
}
