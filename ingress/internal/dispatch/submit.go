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
	Principal    string // principal to whom the session belongs
	AgentID      string // exactly one of AgentID and TemplateID is set
	TemplateID   string
	SessionID    string // empty: a new session for this run
	Message      string
	Data         json.RawMessage   // further input, as JSON; nil: none
	History      []domain.Exchange // messages before this one, if the request contains its conversation
	Instructions string            // added to the agent's own instructions
	Previous     *string           // id of the run that this run continues in its session; see queuedb.NewRun
	Echo         json.RawMessage   // fields that responses repeat when the run is read; nil: none
	Options      domain.RunOptions // options of the request besides its message
	SettingNames *SettingNames     // names of the model settings in the request's protocol; nil: Parley's own names
	ToolField    string            // for errors: path from a tool to the object that contains the tool's name; empty: the tool itself
	Attachments  []Attachment      // attachments of the request; acceptance stores them and adds them to Options
	Unstored     bool              // whether the run cannot be read as a response of OpenAI's protocol
	Key          string            // idempotency key; empty: none
	KeyScope     string            // scope of the key, in addition to organization and endpoint
	TriggerType  string
	AutomationID string          // name of the automation or hook that starts the run; empty: none
	Traceparent  string          // W3C traceparent of the request
	Retention    time.Duration   // how long the session is kept after the run; 0: until it is erased
	Last         domain.EventID  // last event that the client has; Follow returns later events
	Attempt      readers.Attempt // identifies the request if its client announces retries; not used with a key

	// Before looks up further values that the run needs. It is called after the rate charge, so
	// that a request over its rate limit causes no lookups. nil: nothing to look up.
	Before    func(context.Context) error
	beforeErr error    // result of the call of Before
	Sent      []string // names of the values that Before looks up; part of the fingerprint
	asked     []byte   // fingerprint computed before the call of Before
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

// fingerprint distinguishes a retry from a different request with the same key. It covers the
// request as it was sent. The values that Before looks up are excluded, because they can change
// before the retry.
func (s *Submission) fingerprint() []byte {
	// After the call of Before, the submission may contain values that were looked up. In that
	// case, the fingerprint that was computed earlier is returned.
	if s.asked != nil {
		return s.asked
	}

	// Fields that a request does not use are not part of the fingerprint. Therefore a retry has the
	// same fingerprint even if it reaches a newer release with more fields.
	asked := []string{s.Target(), s.SessionID, s.Message, string(contract.Canonical(s.Data))}
	if len(s.History) > 0 || s.Instructions != "" { // fields that the first releases did not have
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

// sentRounds returns a description of an exchange's rounds of tool calls, for the fingerprint.
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
	if err != nil { // a schema is not valid JSON; requests are checked earlier, so this does not happen
		panic("dispatch: encoding run options: " + err.Error())
	}
	return raw
}

// NewRun returns the run to store, with a new id but without a fingerprint.
func (s *Submission) NewRun(deadline time.Duration) (queuedb.NewRun, error) {
	// The input is encoded first, because only this step can fail.
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

	// A run without a session gets its own session. The session's id is derived from the run's id.
	if run.SessionID == "" {
		run.SessionID, run.OwnSession = sessiondb.OwnSessionPrefix+id.Suffix(runID), true
	}
	run.SessionKey = contract.Hash(run.OrganizationID, s.Target(), s.Principal, run.SessionID)

	// Without an idempotency key, the run's unique id takes the key's place, so that the run is
	// never a duplicate.
	unique := s.KeyScope + "\x00" + s.Key
	if s.Key == "" {
		unique = runID
	}
	run.Dedupe = contract.Dedupe(run.OrganizationID, s.Endpoint, unique)
	return run, nil
}

// Charge is the rate charge of a request that starts a run. A replay is not charged.
type Charge interface {
	// Pay charges the request. It returns an error if the caller has exceeded a rate limit.
	Pay() error
	Refund()       // cancels the charge of Pay if the request turns out to be a replay
	Returns() bool // whether Refund restores the rate limit exactly, as if Pay had not been called
}

// Consumed is the Charge of a request that has already been charged. Its methods do nothing.
type Consumed struct{}

// Pay charges nothing.
func (Consumed) Pay() error { return nil }

// Refund does nothing.
func (Consumed) Refund() {}

// Returns reports true, because Refund has no charge to restore.
func (Consumed) Returns() bool { return true }

// Submitter turns submissions into runs.
type Submitter struct {
	store       *store.Store
	dispatch    *Dispatcher
	streams     *stream.Hub
	readers     *readers.Watch
	runDeadline time.Duration // time from acceptance to the deadline of a run

	// Models contains the rules for the settings that each model accepts.
	Models domain.ModelRules

	attacher     Attacher // nil: requests cannot have attachments
	maxFileBytes int64
}

// NewSubmitter returns a Submitter.
func NewSubmitter(
	s *store.Store, d *Dispatcher, streams *stream.Hub, watch *readers.Watch, runDeadline time.Duration,
) *Submitter {
	return &Submitter{store: s, dispatch: d, streams: streams, readers: watch, runDeadline: runDeadline}
}

// Begin accepts a run for the submission. If a run with the same idempotency key exists, or a run
// of an earlier attempt, Begin returns that run. The caller must release the result.
func (r *Submitter) Begin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	if sub, err := r.retried(ctx, s); sub != nil || err != nil {
		return sub, err
	}
	return r.findOrBegin(ctx, s, t, accepting)
}

// findOrBegin accepts a run, or returns the existing run with the idempotency key.
//
// A replay must not be charged. Most keys are new, and the insert of the run detects a duplicate
// key. Therefore findOrBegin looks the key up first only if the charge cannot be refunded in full,
// or if this process has seen the key before. Otherwise it looks the key up if the request is
// refused.
func (r *Submitter) findOrBegin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	// checked is set if the key needs no further lookup, because there is no key or because a
	// lookup found no run.
	hash := s.keyHash()
	checked := hash == nil

	if !checked && (!t.Returns() || r.dispatch.Seen(hash)) {
		checked = true
		if sub, held, err := r.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}

	// A request over its rate limit starts no run. It may still be a replay, which is checked
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
		// The insert has found an existing run with the key, so this request is a replay.
		t.Refund()
		return attach(s, &sub.Run)
	case checked:
		// An earlier lookup found no run with the key, so the error is final.
		return nil, err
	}

	// The request was refused, or its acceptance failed. If a run with its key exists, that run is
	// returned nevertheless, because a replay is not charged.
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
	// If one of these checks fails, nothing has been stored. Prepare follows the check of the
	// budget, because Prepare may read the database. Prepare precedes the other checks, because it
	// may change the submission.
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

	// The callback lets the caller subscribe to the run's events before the run exists, so that it
	// misses none.
	accepting(run.ID)
	sub, err := r.dispatch.Submit(ctx, run)
	// If another run is returned, the files must not stay linked to the new run's id. If unlinking
	// fails, the sweeper removes the links later.
	if err == nil && len(files) > 0 && sub.Run.Run.ID != run.ID {
		_ = r.store.Blobs.UnlinkAttachments(ctx, run.OrganizationID, run.ID)
	}
	if err == nil && sub.waits && !run.OwnSession {
		r.next(&run)
	}
	return sub, err
}

// next reports to package readers which runs of its session an accepted run waits for. A run that
// continues no other run waits for none.
func (r *Submitter) next(run *queuedb.NewRun) {
	// Without Previous, the run follows the session's last run. If Previous names a run, the new
	// run belongs to that run's branch of the conversation. If Previous is empty, the new run
	// begins a branch.
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

	// Before is cleared, so that it is called only once even if the run turns out to exist.
	before := s.Before
	s.Before, s.asked = nil, s.fingerprint()
	s.beforeErr = before(ctx)
	return s.beforeErr
}

// attach returns the existing run with the key. It returns an error if the caller may not read the
// run, for example after losing the admin role, or if the request differs.
func attach(s *Submission, run *rundb.StoredRun) (*Submitted, error) {
	if !s.Caller.MayRead(run.Principal) {
		return nil, apierr.New(apierr.PermissionDenied, "the run of this idempotency key belongs to another caller; use another key")
	}

	// The fingerprint of an erased run is not compared, because the caller gets ErasedKey in any
	// case.
	if !run.Erased && !bytes.Equal(run.Fingerprint, s.fingerprint()) {
		return nil, apierr.New(apierr.IdempotencyKeyReused, "this idempotency key was already used for a different request")
	}
	return Attach(*run), nil
}

// ErasedKey returns the error for a key whose run was erased. For a run that a request names by its
// id, see [ErasedRun].
func ErasedKey() error {
	return apierr.New(apierr.Erased, "the run of this idempotency key was erased by its organization")
}

// ExpiredKey returns the error for a key whose run expired while the request read it.
func ExpiredKey() error {
	e := apierr.New(apierr.Unavailable, "the run of this idempotency key has just expired; try again")
	e.RetryAfter = time.Second
	return e
}

// ReadResult returns the run object of a finished run. Before it reads a Deferred result, it waits
// until memory can be reserved for the result. It returns ErasedKey if the run was erased.
func (r *Submitter) ReadResult(ctx context.Context, run *rundb.StoredRun, reserve stream.Reserve) ([]byte, error) {
	// A batch of lookups omits large results. Their sizes are known, so memory is reserved before
	// they are read.
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

// Follow returns the events of a submission's run. Before it reads the log of an existing run, it
// waits until memory can be reserved. Once the run is known, Follow returns it even with an error.
func (r *Submitter) Follow(ctx context.Context, s *Submission, t Charge, reserve stream.Reserve) (*stream.Reader, *rundb.StoredRun, error) {
	var reader *stream.Reader // created before the run exists, so that it misses no event
	sub, err := r.Begin(ctx, s, t, func(runID string) { reader = r.streams.Follow(runID) })
	if reader != nil && (err != nil || sub.Existing) { // the reader is for a run that was not accepted
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
	case !sub.Existing: // the run was accepted, so the response must contain its id even if a later step fails
		reader.Begin(run, s.Last)
		return reader, run, nil
	}
	reader, err = r.streams.Open(ctx, run.OrganizationID, run.Run.ID, s.Last, reserve)
	return reader, run, err
}

// WithinBudget returns budget_exceeded if a budget that applies to the run is used up. keyID and
// automationID may be empty.
func (r *Submitter) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // demo runs are limited by DEMO_DAILY_TOKENS instead
		return nil
	}
	return r.store.Budgets.WithinBudget(ctx, org, agentID, keyID, automationID)
}

// OrganizationScope is the scope of idempotency keys shared by all API keys of an organization.
const OrganizationScope = ""

// UnnamedRetention is the retention of runs whose requests name no session. No later request can
// continue such a session.
const UnnamedRetention = 30 * 24 * time.Hour

// AutomationScope returns the scope of an automation's idempotency key, in addition to organization
// and endpoint. The scope of a user's key is that user. The scope of an organization's key is the
// organization.
func AutomationScope(who domain.Caller) string {
	if who.UserID == "" {
		return OrganizationScope
	}
	return "user:" + who.UserID
}

// NewAutomation returns the submission of a system, which calls run-automation or sends a delivery
// to a hook.
func NewAutomation(who domain.Caller, agentID string, retention time.Duration) Submission {
	return Submission{
		Endpoint: contract.EndpointAutomation, Lane: domain.LaneAutomation, Caller: who, Principal: domain.SystemPrincipal,
		AgentID: agentID, Retention: retention,
	}
}

// ErasedRun returns the error for a run that its organization has erased.
func ErasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }
