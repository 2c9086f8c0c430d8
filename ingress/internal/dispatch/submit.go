package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"parley/ingress/internal/readers"
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

// Submission is a validated request to run an agent or template, from any endpoint.
type Submission struct {
	Endpoint     contract.Endpoint
	Lane         domain.Lane
	Caller       domain.Caller
	Principal    string // whose session the run belongs to
	AgentID      string // either AgentID or TemplateID is set
	TemplateID   string
	SessionID    string // empty: a new session for this run
	Message      string
	Data         json.RawMessage   // further input; nil: none
	History      []domain.Exchange // the messages before this one, when the request contains its conversation
	Instructions string            // added to the agent's own instructions
	Previous     *string           // the run of the session that this one continues; see queuedb.NewRun
	Echo         json.RawMessage   // fields to repeat when the run is read; nil: none
	Options      domain.RunOptions // what the request asks besides its message
	SettingNames *SettingNames     // how the request names the model settings; nil: as Parley does
	ToolField    string            // the part of a tool with its name, in errors; empty: the tool itself
	Attachments  []Attachment      // as the request contains them; acceptance stores them and adds them to Options
	Unstored     bool              // the run cannot be read as a response of OpenAI's protocol
	Key          string            // idempotency key; empty: none
	KeyScope     string            // the key's scope, in addition to organization and endpoint
	TriggerType  string
	AutomationID string          // name of the automation or hook; empty: none
	Traceparent  string          // the request's W3C traceparent
	Retention    time.Duration   // 0: until the session is erased
	Last         domain.EventID  // Follow returns the events after this one
	Attempt      readers.Attempt // the request, if its client announces retries; without a key

	// Before prepares what else the run needs. It is called after the rate charge, and not for a
	// request that exceeds its limit. nil: nothing to prepare.
	Before    func(context.Context) error
	beforeErr error    // the error of Before, once called
	Sent      []string // what the request says about what Before looks up; part of its fingerprint
	asked     []byte   // the fingerprint, once Before was called
}

// Target returns the id of the agent or template.
func (s *Submission) Target() string { return s.AgentID + s.TemplateID }

// keyHash returns the hash that the database stores for the idempotency key, or nil without a key.
func (s *Submission) keyHash() []byte {
	if s.Key == "" {
		return nil
	}
	return contract.Hash(s.Caller.OrganizationID, string(s.Endpoint), s.KeyScope, s.Key)
}

// fingerprint distinguishes a retry from a different request with the same key. It is that of the
// request as it was sent: what Before looks up can change until the retry.
func (s *Submission) fingerprint() []byte {
	// After Before was called, the submission may contain looked-up values. The fingerprint that
	// was computed from the request alone is used then.
	if s.asked != nil {
		return s.asked
	}

	// Fields that a request does not use add nothing. So a retry that reaches a newer release has
	// the same fingerprint as its first attempt.
	asked := []string{s.Target(), s.SessionID, s.Message, string(contract.Canonical(s.Data))}
	if len(s.History) > 0 || s.Instructions != "" { // fields that older releases did not have
		for _, e := range s.History {
			asked = append(asked, e.Message, e.Answer)
			asked = append(asked, sentRounds(e.Rounds)...)
		}
		asked = append(asked, s.Instructions)
	}

	if s.Previous != nil {
		asked = append(asked, "previous", *s.Previous)
	}
	asked = append(asked, s.Sent...)
	asked = append(asked, SentAttachments(s.Attachments)...)
	if !s.Options.IsZero() {
		asked = append(asked, "options", string(contract.Canonical(s.options())))
	}
	if s.Unstored {
		asked = append(asked, "unstored")
	}
	return contract.Hash(asked...)
}

// sentRounds returns the rounds of an exchange for the fingerprint.
func sentRounds(rounds []domain.CallRound) (sent []string) {
	for _, round := range rounds {
		sent = append(sent, "round", round.Text)
		for i, call := range round.Calls {
			result := round.Results[i]
			sent = append(sent, call.ToolCallID, call.Name, string(call.Input), string(result.Output), strconv.FormatBool(result.IsError))
		}
	}
	return sent
}

// options returns the JSON of Options.
func (s *Submission) options() []byte {
	raw, err := json.Marshal(&s.Options)
	if err != nil { // a schema that is not JSON; requests are checked before
		panic("dispatch: encoding run options: " + err.Error())
	}
	return raw
}

// NewRun returns the run to store, with a new id and no fingerprint.
func (s *Submission) NewRun(deadline time.Duration) (queuedb.NewRun, error) {
	// The input is encoded first, because no later step can fail.
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
		KeyID: s.Caller.KeyID, Previous: s.Previous,
	}

	// A run without a session gets a session for itself. Its id is derived from the run's id.
	if run.SessionID == "" {
		run.SessionID, run.OwnSession = sessiondb.OwnSessionPrefix+id.Suffix(runID), true
	}
	run.SessionKey = contract.Hash(run.OrganizationID, s.Target(), s.Principal, run.SessionID)

	// Without an idempotency key the run's id is unique, so the run is never a duplicate.
	unique := s.KeyScope + "\x00" + s.Key
	if s.Key == "" {
		unique = runID
	}
	run.Dedupe = contract.Dedupe(run.OrganizationID, s.Endpoint, unique)
	return run, nil
}

// Charge is the rate charge of a request that starts a run. A replay is not charged.
type Charge interface {
	// Pay takes the charge. It returns an error if the caller has exceeded its rate limit.
	Pay() error
	Refund()       // called if another request with the same key was charged
	Returns() bool // whether Refund restores everything that Pay took, with no effect on other requests in between
}

// Consumed is the charge of a request that was charged before.
type Consumed struct{}

// Pay charges nothing.
func (Consumed) Pay() error { return nil }

// Refund refunds nothing.
func (Consumed) Refund() {}

// Returns reports true, because nothing was charged.
func (Consumed) Returns() bool { return true }

// Submitter turns submissions into runs.
type Submitter struct {
	store       *store.Store
	dispatch    *Dispatcher
	streams     *stream.Hub
	readers     *readers.Watch
	runDeadline time.Duration // counted from acceptance

	// Models says which settings the models accept.
	Models domain.ModelRules

	attacher     Attacher // nil: requests have no attachments
	maxFileBytes int64
}

// NewSubmitter returns a Submitter.
func NewSubmitter(
	s *store.Store, d *Dispatcher, streams *stream.Hub, watch *readers.Watch, runDeadline time.Duration,
) *Submitter {
	return &Submitter{store: s, dispatch: d, streams: streams, readers: watch, runDeadline: runDeadline}
}

// Begin accepts a run for the submission, or returns the existing run with its idempotency key, or
// the run of an earlier attempt. The caller must release the result.
func (r *Submitter) Begin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	if sub, err := r.retried(ctx, s); sub != nil || err != nil {
		return sub, err
	}
	return r.findOrBegin(ctx, s, t, accepting)
}

// findOrBegin accepts a run, or returns the existing run with the idempotency key.
//
// A replay must not be charged, but most keys are new, and the insert detects a duplicate anyway.
// So findOrBegin looks a key up first only if the charge cannot be refunded in full, or if this
// process has seen the key before. Otherwise it looks the key up after a refusal.
func (r *Submitter) findOrBegin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	// checked says that the key needs no lookup any more, either because there is no key or because
	// the lookup found no run.
	hash := s.keyHash()
	checked := hash == nil

	if !checked && (!t.Returns() || r.dispatch.Seen(hash)) {
		checked = true
		if sub, held, err := r.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}

	// A request that exceeds its limit starts nothing. It may still be a replay, which is checked
	// below.
	refused := t.Pay()
	sub, err := (*Submitted)(nil), refused
	if refused == nil {
		sub, err = r.beginNew(ctx, s, accepting)
	}
	switch {
	case err == nil && !sub.Existing:
		// A new run was accepted, and its charge stays.
		return sub, nil
	case err == nil:
		// The insert has found a run with the key. This request is a replay.
		t.Refund()
		return attach(s, &sub.Run)
	case checked:
		// The key was looked up before and had no run, so the error is the answer.
		return nil, err
	}

	// The request was refused, or its acceptance failed. A run that already has the key is returned
	// nevertheless, because a replay is free.
	holder, held, holderErr := r.held(ctx, s, hash)
	if !held && holderErr == nil {
		return nil, err
	}

	// The charge is refunded only if it was taken.
	if refused == nil {
		t.Refund()
	}
	return holder, holderErr
}

// held returns the run with the submission's key, if one exists.
func (r *Submitter) held(ctx context.Context, s *Submission, hash []byte) (sub *Submitted, held bool, err error) {
	run, err := r.dispatch.ByKey(ctx, s.Caller.OrganizationID, hash)
	if err != nil || run == nil {
		return nil, false, err
	}
	sub, err = attach(s, run)
	return sub, true, err
}

// beginNew accepts a run for the submission, or returns the existing run with its key.
func (r *Submitter) beginNew(ctx context.Context, s *Submission, accepting func(runID string)) (*Submitted, error) {
	// A request that one of these checks refuses has stored nothing. Prepare follows the budget,
	// because it may read the database, and precedes the rest, because it may change the
	// submission.
	err := r.WithinBudget(ctx, s.Caller.OrganizationID, s.AgentID, s.Caller.KeyID, s.AutomationID)
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.checkSettings(ctx, s); err != nil {
		return nil, err
	}
	if err := r.checkToolNames(ctx, s); err != nil {
		return nil, err
	}
	files, err := r.resolveAttachments(ctx, s)
	if err != nil {
		return nil, err
	}
	run, err := s.NewRun(r.runDeadline)
	if err != nil {
		return nil, err
	}
	run.Fingerprint = s.fingerprint()
	if err := r.linkAttachments(ctx, &run, files); err != nil {
		return nil, err
	}

	// The caller subscribes to the run's events here, so it misses none of them.
	accepting(run.ID)
	sub, err := r.dispatch.Submit(ctx, run)
	if err == nil && len(files) > 0 && sub.Run.Run.ID != run.ID { // another request has the same key; the sweeper repairs a failure
		_ = r.store.Blobs.UnlinkAttachments(ctx, run.OrganizationID, run.ID)
	}
	if err == nil && sub.waits && !run.OwnSession {
		r.next(&run)
	}
	return sub, err
}

// next reports which runs of its session an accepted run waits for. A run that continues none waits
// for none.
func (r *Submitter) next(run *queuedb.NewRun) {
	// Without Previous the run follows the session's last run. With a named previous run it belongs
	// to that branch of the conversation. An empty name begins a new branch.
	switch session := readers.SessionFor(run.SessionKey); {
	case run.Previous == nil:
		r.readers.Next(run.OrganizationID, session, run.ID, "")
	case *run.Previous != "":
		r.readers.Next(run.OrganizationID, session, run.ID, *run.Previous)
	}
}

// Prepare calls Before on the first call, and returns its error on every call.
func (s *Submission) Prepare(ctx context.Context) error {
	if s.Before == nil {
		return s.beforeErr
	}

	// A request whose new run turns out to exist is prepared only once.
	before := s.Before
	s.Before, s.asked = nil, s.fingerprint()
	s.beforeErr = before(ctx)
	return s.beforeErr
}

// attach returns the existing run with the key if the caller may read it and the request is the
// same. A user who has lost the admin role since may not read it.
func attach(s *Submission, run *rundb.StoredRun) (*Submitted, error) {
	if !s.Caller.MayRead(run.Principal) {
		return nil, apierr.New(apierr.PermissionDenied, "the run of this idempotency key belongs to another caller; use another key")
	}

	// The fingerprint of an erased run is not compared: its readers get ErasedKey instead.
	if !run.Erased && !bytes.Equal(run.Fingerprint, s.fingerprint()) {
		return nil, apierr.New(apierr.IdempotencyKeyReused, "this idempotency key was used for another request")
	}
	return Attach(*run), nil
}

// ErasedKey returns the error for a key whose run was erased. For a run named by its id see
// [ErasedRun].
func ErasedKey() error {
	return apierr.New(apierr.Erased, "the run of this idempotency key was erased by its organization")
}

// ExpiredKey returns the error for a key whose run expired while it was read.
func ExpiredKey() error {
	e := apierr.New(apierr.Unavailable, "the run of this idempotency key has just expired; try again")
	e.RetryAfter = time.Second
	return e
}

// ReadResult returns the run object of a finished run. It waits for memory before it reads a
// Deferred result. It fails with ErasedKey if the run was erased.
func (r *Submitter) ReadResult(ctx context.Context, run *rundb.StoredRun, reserve stream.Reserve) ([]byte, error) {
	// A batch of lookups leaves out large results. Their size is known, so memory can be reserved
	// before they are read.
	if run.Deferred > 0 {
		if err := reserve(run.Deferred); err != nil {
			return nil, err
		}

		// The run may have expired or been erased since it was found.
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

// Follow returns the events of a submission's run. It waits for memory before it reads the log of
// an existing run. Once the run is known, Follow returns it even with an error.
func (r *Submitter) Follow(ctx context.Context, s *Submission, t Charge, reserve stream.Reserve) (*stream.Reader, *rundb.StoredRun, error) {
	var reader *stream.Reader // subscribes before the run exists, to miss no event
	sub, err := r.Begin(ctx, s, t, func(runID string) { reader = r.streams.Follow(runID) })
	if reader != nil && (err != nil || sub.Existing) { // that run was not accepted
		reader.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	r.dispatch.Release(sub) // the caller reads events instead of waiting
	run := &sub.Run
	switch {
	case run.Erased:
		return nil, run, ErasedKey()
	case !sub.Existing: // accepted: the response must contain its id, whatever fails later
		reader.Begin(run, s.Last)
		return reader, run, nil
	}
	reader, err = r.streams.Open(ctx, run.OrganizationID, run.Run.ID, s.Last, reserve)
	return reader, run, err
}

// WithinBudget returns budget_exceeded if a budget that would count the run is used up. keyID and
// automationID are empty for none.
func (r *Submitter) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // limited by DEMO_DAILY_TOKENS instead
		return nil
	}
	return r.store.Budgets.WithinBudget(ctx, org, agentID, keyID, automationID)
}

// OrganizationScope is the scope of idempotency keys shared by all API keys of an organization.
const OrganizationScope = ""

// UnnamedRetention is the retention of runs whose request names no session. Nothing can refer to
// such a session later.
const UnnamedRetention = 30 * 24 * time.Hour

// AutomationScope returns the scope of an automation's idempotency key, in addition to organization
// and endpoint: the user whose key calls, or the organization for its own keys.
func AutomationScope(who domain.Caller) string {
	if who.UserID == "" {
		return OrganizationScope
	}
	return "user:" + who.UserID
}

// NewAutomation returns the submission of a system caller: run-automation, or a hook's delivery.
func NewAutomation(who domain.Caller, agentID string, retention time.Duration) Submission {
	return Submission{
		Endpoint: contract.EndpointAutomation, Lane: domain.LaneAutomation, Caller: who, Principal: domain.SystemPrincipal,
		AgentID: agentID, Retention: retention,
	}
}

// ErasedRun returns the error for a run that its organization has erased.
func ErasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }
