package failpoint

// Point is a point in the path of a run.
type Point string

// The points, in the order in which a run that calls a tool passes them.
const (
	// AcceptBefore is in an ingress, before the ingress inserts runs.
	AcceptBefore Point = "accept.before"
	// AcceptAfter is in an ingress: the insert is committed, but no job message is published.
	AcceptAfter Point = "accept.after"
	// PublishJobAfter is in any process that publishes job messages: the message is sent but not
	// acknowledged.
	PublishJobAfter Point = "publishjob.after"
	// ClaimBefore is in an agent worker: it has received a job message but has not claimed the run.
	ClaimBefore Point = "claim.before"
	// ClaimAfter is in an agent worker: it has claimed the run and not done anything else.
	ClaimAfter Point = "claim.after"
	// TurnBefore is in an agent worker: the model has called tools, but its turn is not in the
	// journal.
	TurnBefore Point = "turn.before"
	// TurnAfter is in an agent worker: the model's turn is in the journal, but no tool has been
	// called.
	TurnAfter Point = "turn.after"
	// EffectAfter is in an agent worker: the ledger has the effect, but no tool worker has the
	// call.
	EffectAfter Point = "effect.after"
	// SendBefore is in a tool worker, before the worker records in the ledger that the effect is
	// being sent.
	SendBefore Point = "send.before"
	// SendAfter is in a tool worker: the ledger records that the effect is being sent, but no data
	// has been sent.
	SendAfter Point = "send.after"
	// OutcomeBefore is in a tool worker: the receiver has responded, but the ledger does not have
	// the outcome.
	OutcomeBefore Point = "outcome.before"
	// OutcomeAfter is in a tool worker: the ledger has the outcome, but the agent worker has no
	// reply.
	OutcomeAfter Point = "outcome.after"
	// ToolBefore is in an agent worker: a tool has returned its result, but the result is not in
	// the journal.
	ToolBefore Point = "tool.before"
	// ToolAfter is in an agent worker: the tool's result is in the journal, but the model does not
	// have it.
	ToolAfter Point = "tool.after"
	// ParkAfter is in an agent worker: the run waits for a person or its client, but no notice is
	// published.
	ParkAfter Point = "park.after"
	// DecideAfter is in an ingress: a decision, or the results of the client's tools, are committed,
	// but the waiting run has no slot.
	DecideAfter Point = "decide.after"
	// FinishBefore is in an agent worker: it has a run's result, but no part of the result is
	// written.
	FinishBefore Point = "finish.before"
	// FinishAfter is in an agent worker: the result is committed, but no notice is published.
	FinishAfter Point = "finish.after"
	// DoneAfter is in an agent worker: the result is committed and published, but no waiting run may
	// have the freed slot yet.
	DoneAfter Point = "done.after"
	// DispatchNextBefore is in an agent worker: a finished run has freed its slot, but no other run
	// has the slot.
	DispatchNextBefore Point = "dispatchnext.before"
	// DispatchNextAfter is in an agent worker: another run has the slot, but its job message is not
	// published.
	DispatchNextAfter Point = "dispatchnext.after"
	// AnswerBefore is in an ingress: it has received a run's result, but no waiting request has the
	// result.
	AnswerBefore Point = "answer.before"
	// RequeuedAfter is in an agent worker: the run is requeued, but no job message for it is
	// published.
	RequeuedAfter Point = "requeued.after"
	// ExpireAfter is in a sweeper: runs whose leases have expired are requeued, but none of them is
	// dispatched.
	ExpireAfter Point = "expire.after"
	// DispatchAfter is in a sweeper: waiting runs have slots, but their job messages are not
	// published.
	DispatchAfter Point = "dispatch.after"
	// RedispatchAfter is in a sweeper: unclaimed runs have a new dispatch number, but their job
	// messages are not published.
	RedispatchAfter Point = "redispatch.after"
)
