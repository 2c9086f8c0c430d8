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

// Submission is a validated request to run an agent or template, from any endpoint. A handler
// creates it, and it is used for one request. A Submission is not safe for concurrent use.
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
	History      []domain.Exchange // messages before Message, if the request contains them
	Instructions string            // added to the agent's own instructions
	Previous     *string           // id of the run in the session that this run continues; see queuedb.NewRun
	Echo         json.RawMessage   // request fields that responses contain when the run is read later; nil: none
	Options      domain.RunOptions // options of the request besides its message
	SettingNames *SettingNames     // names of the model settings in the request's protocol; nil: Parley's own names
	ToolField    string            // path from a tool to the object with the tool's name, for errors; empty: the tool itself
	Attachments  []Attachment      // attachments of the request; they are stored before the run is accepted
	Unstored     bool              // whether the run cannot be read as a response of OpenAI's protocol
	Key          string            // idempotency key; empty: none
	KeyScope     string            // scope of the key within its organization and endpoint
	TriggerType  string
	AutomationID string          // name of the automation or hook that starts the run; empty: none
	Traceparent  string          // W3C traceparent of the request
	Retention    time.Duration   // how long the session is kept after the run; 0: until it is erased
	Last         domain.EventID  // last event that the client has received; Follow returns later events
	Attempt      readers.Attempt // identifies the request if its client announces retries; ignored if there is a key

	// Before, if not nil, looks up further values that the run needs and changes the submission. It
	// is called after the rate charge, so that requests over the rate limit cause no lookups.
	Before    func(context.Context) error
	beforeErr error    // result of the call of Before
	Sent      []string // parts of the request for which Before looks up values; part of the fingerprint
	asked     []byte   // fingerprint computed before the call of Before
}

// Target returns the id of the agent or template.
func (s *Submission) Target() string { return s.AgentID + s.TemplateID }

// keyHash returns the hash under which the database stores the idempotency key, or nil if there is
// no key.
func (s *Submission) keyHash() []byte {
	if s.Key == "" {
		return nil
	}
	return contract.Hash(s.Caller.OrganizationID, string(s.Endpoint), s.KeyScope, s.Key)
}

// fingerprint returns a hash that distinguishes a repetition of the request from a different
// request with the same key. It depends only on the request as it was sent, and not on the values
// that Before looks up, because those can change until the repetition.
func (s *Submission) fingerprint() []byte {
	// If Before was called, the submission may contain values that were looked up. Return the
	// fingerprint that was computed before the call.
	if s.asked != nil {
		return s.asked
	}

	// The fingerprint contains only fields that the request uses. A repetition of the request thus
	// has the same fingerprint even on a later release that has more fields.
	asked := []string{s.Target(), s.SessionID, s.Message, string(contract.Canonical(s.Data))}
	if len(s.History) > 0 || s.Instructions != "" { // the first releases did not have these fields
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

// sentRounds returns texts that describe rounds of tool calls, for the fingerprint. Each round must
// have one result for each call.
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

// SentAttachments returns a description of the attachments as the request contains them. It is part
// of the request's fingerprint. The content is included as a hash. Without attachments the result
// is nil.
func SentAttachments(list []Attachment) []string {
	if len(list) == 0 {
		return nil
	}
	asked := []string{"attachments"}
	for _, a := range list {
		data := ""
		if len(a.Data) > 0 {
			data = string(contract.Hash(string(a.Data)))
		}
		asked = append(asked, a.FileID, a.URL, data, a.Name, a.MediaType)
	}
	return asked
}

// options returns the JSON of Options.
func (s *Submission) options() []byte {
	raw, err := json.Marshal(&s.Options)
	if err != nil { // happens only if a schema is not valid JSON, and such requests are rejected earlier
		panic("dispatch: encoding run options: " + err.Error())
	}
	return raw
}

// NewRun returns the run to store. It has a new id, and no fingerprint yet. deadline is the time
// from the acceptance to the deadline of the run.
func (s *Submission) NewRun(deadline time.Duration) (queuedb.NewRun, error) {
	// Encode the input first, because only this step can fail.
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

	// If the request names no session, the run gets a new session, whose id is derived from the
	// run's id.
	if run.SessionID == "" {
		run.SessionID, run.OwnSession = sessiondb.OwnSessionPrefix+id.Suffix(runID), true
	}
	run.SessionKey = contract.Hash(run.OrganizationID, s.Target(), s.Principal, run.SessionID)

	// Without an idempotency key, the run's id takes its place. The id is unique, so the run is
	// never a duplicate.
	unique := s.KeyScope + "\x00" + s.Key
	if s.Key == "" {
		unique = runID
	}
	run.Dedupe = contract.Dedupe(run.OrganizationID, s.Endpoint, unique)
	return run, nil
}

// Charge is the rate charge of a request that starts a run. Replays are not charged.
// Implementations belong to one request and may set headers of its response.
type Charge interface {
	// Pay charges the request. It returns an error if the caller has exceeded a rate limit.
	Pay() error
	Refund()       // cancels the charge of Pay, because the request was a replay
	Returns() bool // whether Refund restores the rate limit exactly, as if Pay had never been called
}

// Consumed is the Charge of a request that has already been charged. Its methods do nothing.
type Consumed struct{}

// Pay charges nothing.
func (Consumed) Pay() error { return nil }

// Refund does nothing.
func (Consumed) Refund() {}

// Returns reports true, because Refund has no charge to restore.
func (Consumed) Returns() bool { return true }

// Submitter turns submissions into runs. It is safe for concurrent use. There is one per process.
type Submitter struct {
	store       *store.Store
	dispatch    *Dispatcher
	streams     *stream.Hub
	readers     *readers.Watch
	runDeadline time.Duration // time from the acceptance of a run to its deadline

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

// Begin accepts a run for the submission. If a run with the same idempotency key exists, or an
// earlier attempt of the request has started a run, Begin returns that run. Before it accepts a new
// run, it calls accepting with the run's id. The caller must pass the result to Dispatcher.Release.
func (r *Submitter) Begin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	if sub, err := r.retried(ctx, s); sub != nil || err != nil {
		return sub, err
	}
	return r.findOrBegin(ctx, s, t, accepting)
}

// retried returns the run that an earlier attempt of this request has started. It returns nil if
// the request has an idempotency key or is not announced as a retry, if there is no such run, or if
// that run was cancelled.
func (r *Submitter) retried(ctx context.Context, s *Submission) (*Submitted, error) {
	if s.Key != "" {
		return nil, nil //nolint:nilnil // with an idempotency key, the key identifies the run
	}

	// Clients choose the values that identify their attempts. If a client of another organization
	// sends the same value, it must not get this run.
	org, runID, ok := r.readers.Earlier(s.Attempt)
	if !ok || org != s.Caller.OrganizationID {
		return nil, nil //nolint:nilnil // no earlier attempt has a run
	}
	run, err := r.store.Runs.ShortRun(ctx, org, "", runID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound, err == nil && (run.Erased || run.Run.Status == domain.RunCancelled):
		return nil, nil //nolint:nilnil // the run was deleted, erased or cancelled
	case err != nil:
		return nil, err
	}
	return attach(s, &run)
}

// findOrBegin accepts a run, or returns the existing run with the submission's idempotency key.
//
// A replay must not be charged. Most keys are new, and inserting the run detects a repeated key. To
// save queries, findOrBegin therefore charges the request and inserts the run first, and refunds
// the charge of a replay. It looks up the key first only if the charge could not be refunded in
// full, or if this process has recently seen the key. If the request is refused or the acceptance
// fails, it looks up the key afterwards, unless it has done so before.
func (r *Submitter) findOrBegin(ctx context.Context, s *Submission, t Charge, accepting func(runID string)) (*Submitted, error) {
	// checked means that no (further) lookup is necessary: there is no key, or a lookup has found
	// no run with the key.
	hash := s.keyHash()
	checked := hash == nil

	if !checked && (!t.Returns() || r.dispatch.Seen(hash)) {
		checked = true
		if sub, held, err := r.held(ctx, s, hash); held || err != nil {
			return sub, err
		}
	}

	// A request over its rate limit starts no run, but it may be a replay: see below.
	refused := t.Pay()
	sub, err := (*Submitted)(nil), refused
	if refused == nil {
		sub, err = r.beginNew(ctx, s, accepting)
	}
	switch {
	case err == nil && !sub.Existing:
		// A new run was accepted, so the charge stays.
		return sub, nil
	case err == nil:
		// The insert found a run with the key, so this request is a replay.
		t.Refund()
		return attach(s, &sub.Run)
	case checked:
		// An earlier lookup found no run with the key, so this request is not a replay.
		return nil, err
	}

	// The request was refused or the acceptance failed. If a run with the key exists, the request
	// is a replay, and limits do not apply to it.
	holder, held, holderErr := r.held(ctx, s, hash)
	if !held && holderErr == nil {
		return nil, err
	}

	// Refund the charge only if Pay has succeeded.
	if refused == nil {
		t.Refund()
	}
	return holder, holderErr
}

// held returns the run with the submission's key. The result held is false if there is no such run.
func (r *Submitter) held(ctx context.Context, s *Submission, hash []byte) (sub *Submitted, held bool, err error) {
	run, err := r.dispatch.ByKey(ctx, s.Caller.OrganizationID, hash)
	if err != nil || run == nil {
		return nil, false, err
	}
	sub, err = attach(s, run)
	return sub, true, err
}

// beginNew accepts a run for the submission, or returns the existing run with the submission's key.
// It charges nothing.
func (r *Submitter) beginNew(ctx context.Context, s *Submission, accepting func(runID string)) (*Submitted, error) {
	// All checks come before anything is stored. Prepare may be expensive, so it comes after the
	// check of the budget. Prepare may change the submission, so it comes before the other checks.
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

	// In this callback, the caller can subscribe to the run's events before the run exists and thus
	// miss none.
	accepting(run.ID)
	sub, err := r.dispatch.Submit(ctx, run)
	// If Submit has returned an existing run, the new run does not exist. Therefore unlink the
	// files from the new run's id. If that fails, the sweeper removes the links later.
	if err == nil && len(files) > 0 && sub.Run.Run.ID != run.ID {
		_ = r.store.Blobs.UnlinkAttachments(ctx, run.OrganizationID, run.ID)
	}
	if err == nil && sub.waits && !run.OwnSession {
		r.next(&run)
	}
	return sub, err
}

// next reports to package readers which earlier run of the session an accepted run waits for.
func (r *Submitter) next(run *queuedb.NewRun) {
	// The new run continues the session's last run if the field Previous is nil, and no run if
	// Previous points to "". Otherwise it continues the run that Previous names.
	switch session := readers.SessionFor(run.SessionKey); {
	case run.Previous == nil:
		r.readers.Next(run.OrganizationID, session, run.ID, "")
	case *run.Previous != "":
		r.readers.Next(run.OrganizationID, session, run.ID, *run.Previous)
	}
}

// Prepare calls the function Before when it is first called. Every call returns the error that
// Before returned.
func (s *Submission) Prepare(ctx context.Context) error {
	if s.Before == nil {
		return s.beforeErr
	}

	// Clear Before, so that it is never called again.
	before := s.Before
	s.Before, s.asked = nil, s.fingerprint()
	s.beforeErr = before(ctx)
	return s.beforeErr
}

// attach returns an existing run as the run of the submission. The run has the submission's key, or
// an earlier attempt of the request has started it. attach returns an error if the submission
// differs from the request that started the run. It also returns an error if the caller may not
// read the run, for example after losing the admin role.
func attach(s *Submission, run *rundb.StoredRun) (*Submitted, error) {
	if !s.Caller.MayRead(run.Principal) {
		return nil, apierr.New(apierr.PermissionDenied, "the run of this idempotency key belongs to another caller; use another key")
	}

	// The request for an erased run gets the error ErasedKey later, so the request's fingerprint
	// does not matter.
	if !run.Erased && !bytes.Equal(run.Fingerprint, s.fingerprint()) {
		if s.Key == "" { // the client has announced this request as a retry of the one that started the run
			return nil, apierr.New(apierr.IdempotencyKeyReused, "the earlier attempt was a different request; send this one as a new request")
		}
		return nil, apierr.New(apierr.IdempotencyKeyReused,
			"the idempotency key %q was already used for a different request; use a new key", s.Key)
	}
	return Attach(*run), nil
}

// Follow returns the events of a submission's run. Before it reads the log of an existing run, it
// calls reserve, which waits until there is memory for the log. If an error occurs after the run
// was accepted or found, Follow returns the run with the error. The caller must close the reader.
// The reader returns the events after s.Last.
func (r *Submitter) Follow(ctx context.Context, s *Submission, t Charge, reserve stream.Reserve) (*stream.Reader, *rundb.StoredRun, error) {
	var reader *stream.Reader // created before the run exists, so that it misses no event
	sub, err := r.Begin(ctx, s, t, func(runID string) { reader = r.streams.Follow(runID) })
	if reader != nil && (err != nil || sub.Existing) { // the new run that the reader would follow was not accepted
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
	case !sub.Existing: // the run was accepted, and the response must name it even if a later step fails
		reader.Begin(run, s.Last)
		return reader, run, nil
	}
	reader, err = r.streams.Open(ctx, run.OrganizationID, run.Run.ID, s.Last, reserve)
	return reader, run, err
}

// WithinBudget returns budget_exceeded if a budget that applies to a run with these arguments is
// used up. keyID and automationID may be empty.
func (r *Submitter) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	if org == domain.DemoOrganization { // demo runs are limited by DEMO_DAILY_TOKENS instead
		return nil
	}
	return r.store.Budgets.WithinBudget(ctx, org, agentID, keyID, automationID)
}

// OrganizationScope is the scope of idempotency keys that all API keys of an organization share.
const OrganizationScope = ""

// UnnamedRetention is how long a run is kept if its request names no session. No later request can
// continue the session of such a run.
const UnnamedRetention = 30 * 24 * time.Hour

// AutomationScope returns the scope of a caller's idempotency keys for automations. A scope applies
// within one organization and one endpoint. All API keys of a user share a scope, and so do all API
// keys of an organization.
func AutomationScope(who domain.Caller) string {
	if who.UserID == "" {
		return OrganizationScope
	}
	return "user:" + who.UserID
}

// NewAutomation returns the submission for a request to run-automation or a delivery to a hook. It
// has no message and no idempotency key yet. The calling function adds both.
func NewAutomation(who domain.Caller, agentID string, retention time.Duration) Submission {
	return Submission{
		Endpoint: contract.EndpointAutomation, Lane: domain.LaneAutomation, Caller: who, Principal: domain.SystemPrincipal,
		AgentID: agentID, Retention: retention,
	}
}
