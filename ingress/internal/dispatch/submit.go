package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// Submission is a checked request to run an agent or template, however it came in.
type Submission struct {
	Endpoint     contract.Endpoint
	Lane         domain.Lane
	Caller       domain.Caller
	Principal    string
	AgentID      string // exactly one of agentID and templateID is set
	TemplateID   string
	SessionID    string // empty: a session of its own
	Message      string
	Data         json.RawMessage   // further input; nil for none
	History      []domain.Exchange // what came before the message, when the request brings its conversation along
	Instructions string            // to the agent, beside its own
	Key          string            // idempotency key; empty for none
	KeyScope     string            // what the key is unique in, beside organization and endpoint
	TriggerType  string
	AutomationID string
	Traceparent  string         // of the request
	Retention    time.Duration  // 0: until the session is erased
	Last         domain.EventID // follow gives the events after this one

	// Before looks up what the run needs besides: once the request is counted, and not at all for one that cannot be
	// afforded. nil for nothing.
	Before    func(context.Context) error
	beforeErr error // of before, once it was called
}

// Target returns the id of the agent or template.
func (s *Submission) Target() string { return s.AgentID + s.TemplateID }

// keyHash is what the database knows the idempotency key by; nil without one.
func (s *Submission) keyHash() []byte {
	if s.Key == "" {
		return nil
	}
	return contract.Hash(s.Caller.OrganizationID, string(s.Endpoint), s.KeyScope, s.Key)
}

// fingerprint tells a retry from another request under the same key.
func (s *Submission) fingerprint() []byte {
	asked := []string{s.Target(), s.SessionID, s.Message, string(contract.Canonical(s.Data))}
	if len(s.History) > 0 || s.Instructions != "" { // others have the fingerprint that they always had
		for _, e := range s.History {
			asked = append(asked, e.Message, e.Answer)
		}
		asked = append(asked, s.Instructions)
	}
	return contract.Hash(asked...)
}

// NewRun returns the run to store, with a new id and without a fingerprint.
func (s *Submission) NewRun(deadline time.Duration) (queuedb.NewRun, error) {
	input, err := s.input()
	if err != nil {
		return queuedb.NewRun{}, err
	}
	runID := id.New(id.Run)
	run := queuedb.NewRun{
		ID: runID, OrganizationID: s.Caller.OrganizationID, AgentID: s.AgentID, TemplateID: s.TemplateID,
		CallerKind: s.Caller.Kind, Principal: s.Principal, SessionID: s.SessionID, TriggerType: s.TriggerType,
		AutomationID: s.AutomationID, IdempotencyKey: s.Key, KeyHash: s.keyHash(),
		Input: input, Lane: s.Lane, Traceparent: s.Traceparent, Retention: s.Retention, Deadline: deadline,
		KeyID: s.Caller.KeyID,
	}
	if run.SessionID == "" {
		run.SessionID, run.OwnSession = sessiondb.OwnSessionPrefix+id.Suffix(runID), true
	}
	run.SessionKey = contract.Hash(run.OrganizationID, s.Target(), s.Principal, run.SessionID)
	unique := s.KeyScope + "\x00" + s.Key
	if s.Key == "" {
		unique = runID
	}
	run.Dedupe = contract.Dedupe(run.OrganizationID, s.Endpoint, unique)
	return run, nil
}

// input returns what the run is asked, as JSON that escapes no more than it must: escaped for HTML, a message of 2 MiB may have 12.
func (s *Submission) input() ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(s.Message) + len(s.Data) + 64)
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(domain.Input{Message: s.Message, Data: s.Data, History: s.History, Instructions: s.Instructions}); err != nil {
		return nil, fmt.Errorf("writing input: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Charge counts a request that begins a run against its caller's limit. A replay costs nothing.
type Charge interface {
	Pay() error
	Refund()       // another request with the key has paid
	Returns() bool // whether Refund gives back all that Pay took, and nobody misses it meanwhile
}

// Consumed is the charge of a request that was counted before.
type Consumed struct{}

// Pay counts nothing.
func (Consumed) Pay() error { return nil }

// Refund gives nothing back.
func (Consumed) Refund() {}

// Returns is always true: nothing was counted.
func (Consumed) Returns() bool { return true }

// Submitter carries submissions from their key to their run.
type Submitter struct {
	store       *store.Store
	dispatch    *Dispatcher
	streams     *stream.Hub
	runDeadline time.Duration // from acceptance
}

// NewSubmitter makes a submitter.
func NewSubmitter(s *store.Store, d *Dispatcher, streams *stream.Hub, runDeadline time.Duration) *Submitter {
	return &Submitter{s, d, streams, runDeadline}
}

// Begin is findOrAccept for requests that are answered in other ways. What it gives must be released.
//
// The key counts first, but most are new, and accepting tells in any case. So where being counted costs nobody anything, only a key
// that was seen here before is looked up before all else; another one is when it was refused as if it were new.
func (r *Submitter) Begin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	hash := s.keyHash()
	lookedUp := hash == nil
	if !lookedUp && (!t.Returns() || r.dispatch.Seen(hash)) {
		lookedUp = true
		if sub, held, err := r.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}
	unpaid := t.Pay()
	sub, err := (*Submitted)(nil), unpaid
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
func (r *Submitter) held(ctx context.Context, s *Submission, hash []byte) (sub *Submitted, held bool, err error) {
	run, err := r.dispatch.ByKey(ctx, s.Caller.OrganizationID, hash)
	if err != nil || run == nil {
		return nil, false, err
	}
	sub, err = attach(ctx, s, run)
	return sub, true, err
}

// beginNew accepts a run for the submission, or gives the one that holds its key.
func (r *Submitter) beginNew(ctx context.Context, s *Submission, accepting func(runID string)) (*Submitted, error) {
	err := r.WithinBudget(ctx, s.Caller.OrganizationID, s.AgentID, s.Caller.KeyID, s.AutomationID)
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	run, err := s.NewRun(r.runDeadline)
	if err != nil {
		return nil, err
	}
	run.Fingerprint = s.fingerprint()
	accepting(run.ID)
	return r.dispatch.Submit(ctx, run)
}

// Prepare calls Before once. Later calls return its error.
func (s *Submission) Prepare(ctx context.Context) error {
	if s.Before == nil {
		return s.beforeErr
	}
	before := s.Before
	s.Before = nil
	s.beforeErr = before(ctx)
	return s.beforeErr
}

// attach gives the run that holds the key, if the caller may read it and asked the same. A user who was an admin when it began may not
// read it any more.
func attach(ctx context.Context, s *Submission, run *rundb.StoredRun) (*Submitted, error) {
	if !s.Caller.MayRead(run.Principal) {
		return nil, apierr.New(apierr.PermissionDenied, "the run of this idempotency key is not yours to read; use another key")
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	if !run.Erased && !bytes.Equal(run.Fingerprint, s.fingerprint()) {
		return nil, apierr.New(apierr.IdempotencyKeyReused, "this idempotency key was used for another request")
	}
	return Attach(*run), nil
}

// ErasedKey is the refusal of a request whose key's run is gone; [ErasedRun] is that of the run by its id.
func ErasedKey() error {
	return apierr.New(apierr.Erased, "the run of this idempotency key was erased by its organization")
}

// ExpiredKey is the refusal of a request whose key's run expired while it was read.
func ExpiredKey() error {
	e := apierr.New(apierr.Unavailable, "the run of this idempotency key has just expired; try again")
	e.RetryAfter = time.Second
	return e
}

// ReadResult returns the run object of a run that a submission began or found, once the run has ended. A Deferred one is read once there is
// room for it. Both fail with ErasedKey if the run was erased.
func (r *Submitter) ReadResult(ctx context.Context, run *rundb.StoredRun, reserve stream.Reserve) ([]byte, error) {
	if run.Deferred > 0 {
		if err := reserve(run.Deferred); err != nil {
			return nil, err
		}
		whole, err := r.store.Runs.RunByID(ctx, run.OrganizationID, "", run.Run.ID)
		if apierr.CodeFor(err) == apierr.NotFound {
			return nil, ExpiredKey()
		}
		if err != nil {
			return nil, err
		}
		run = &whole
	}
	if run.Erased {
		return nil, ErasedKey()
	}
	return run.Result()
}

// Follow gives the events of a submission's run. Those of a run that holds its key are read once there is room for them. The run is given
// with an error, too, once it is known.
func (r *Submitter) Follow(ctx context.Context, s *Submission, t Charge, reserve stream.Reserve) (*stream.Reader, *rundb.StoredRun, error) {
	var reader *stream.Reader // follows the run before it exists: nothing that it tells is missed
	sub, err := r.Begin(ctx, s, t, func(runID string) { reader = r.streams.Follow(runID) })
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
		return nil, run, ErasedKey()
	case !sub.Existing: // it is accepted: whatever fails from here on, its id is answered
		reader.Begin(run, s.Last)
		return reader, run, nil
	}
	reader, err = r.streams.Open(ctx, run.OrganizationID, run.Run.ID, s.Last, reserve)
	return reader, run, err
}

// WithinBudget refuses a new run by budget_exceeded when one of the budgets that it would fall under is used up. keyID and
// automationID are "" for none.
func (r *Submitter) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // whose budget is DEMO_DAILY_TOKENS
		return nil
	}
	return r.store.Budgets.WithinBudget(ctx, org, agentID, keyID, automationID)
}

// OrganizationScope is the scope of idempotency keys that all API keys of an organization share.
const OrganizationScope = ""

// UnnamedRetention is how long a run is kept whose request names no session. Nobody will ask for the session by its name.
const UnnamedRetention = 30 * 24 * time.Hour

// AutomationScope is what an automation's idempotency key is unique in, beside organization and endpoint: all keys of the organization
// together, or the user whose key calls.
func AutomationScope(who domain.Caller) string {
	if who.UserID == "" {
		return OrganizationScope
	}
	return "user:" + who.UserID
}

// NewAutomation is what every system caller submits: by run-automation, or by the deliveries of a hook.
func NewAutomation(who domain.Caller, agentID string, retention time.Duration) Submission {
	return Submission{
		Endpoint: contract.EndpointAutomation, Lane: domain.LaneAutomation, Caller: who, Principal: domain.SystemPrincipal,
		AgentID: agentID, Retention: retention,
	}
}

// ErasedRun is the refusal of a run that its organization has erased.
func ErasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }
