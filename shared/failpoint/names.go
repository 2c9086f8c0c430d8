package failpoint

// Point is a point in the path of a run.
type Point string

// The points, in the order in which a run that calls a tool passes them.
const (
	// AcceptBefore is in an ingress, before it inserts runs.
	AcceptBefore Point = "accept.before"
	// AcceptAfter is in an ingress: the insert is committed, and no job message is published.
	AcceptAfter Point = "accept.after"
	// PublishJobAfter is in any process that publishes job messages: the message is sent and
	// not acknowledged.
	PublishJobAfter Point = "ring.after"
	// ClaimBefore is in an agent worker: it has received a job message and has not claimed the run.
	ClaimBefore Point = "claim.before"
	// ClaimAfter is in an agent worker: it has claimed the run and done nothing.
	ClaimAfter Point = "claim.after"
	// TurnBefore is in an agent worker: the model has called tools, and its turn is
	// not in the journal.
	TurnBefore Point = "turn.before"
	// TurnAfter is in an agent worker: the model's turn is in the journal, and no tool is called.
	TurnAfter Point = "turn.after"
	// EffectAfter is in an agent worker: the ledger has the effect, and no tool
	// worker has the call.
	EffectAfter Point = "effect.after"
	// SendBefore is in a tool worker, before it records in the ledger that the
	// effect is being sent.
	SendBefore Point = "send.before"
	// SendAfter is in a tool worker: the ledger records that the effect is being sent, and
	// nothing has been sent.
	SendAfter Point = "send.after"
	// OutcomeBefore is in a tool worker: the receiver has answered, and the ledger does not
	// have the outcome.
	OutcomeBefore Point = "outcome.before"
	// OutcomeAfter is in a tool worker: the ledger has the outcome, and the agent
	// worker has no answer.
	OutcomeAfter Point = "outcome.after"
	// ToolBefore is in an agent worker: a tool has answered, and the answer is not in the journal.
	ToolBefore Point = "tool.before"
	// ToolAfter is in an agent worker: the tool's answer is in the journal, and the model
	// does not have it.
	ToolAfter Point = "tool.after"
	// ParkAfter is in an agent worker: the run waits for a person, and no notice is published.
	ParkAfter Point = "park.after"
	// FinishBefore is in an agent worker: it has a run's result, and none of it is written.
	FinishBefore Point = "finish.before"
	// FinishAfter is in an agent worker: the result is committed, and no notice is published.
	FinishAfter Point = "finish.after"
	// DoneAfter is in an agent worker: the done notice is published, and the job message is
	// not acknowledged.
	DoneAfter Point = "done.after"
	// HandOverBefore is in an agent worker: a finished run has freed its slot, and no
	// other run has it.
	HandOverBefore Point = "handover.before"
	// HandOverAfter is in an agent worker: another run has the slot, and its job message
	// is not published.
	HandOverAfter Point = "handover.after"
	// AnswerBefore is in an ingress: it has received a run's result, and no waiting request has it.
	AnswerBefore Point = "answer.before"
	// PutBackAfter is in an agent worker: the run is requeued, and its job message is
	// not acknowledged.
	PutBackAfter Point = "putback.after"
	// RequeueAfter is in a sweeper: the runs of a dead worker are requeued, and none is dispatched.
	RequeueAfter Point = "requeue.after"
	// DispatchAfter is in a sweeper: waiting runs have slots, and their job messages
	// are not published.
	DispatchAfter Point = "dispatch.after"
	// RedispatchAfter is in a sweeper: unclaimed runs have a new dispatch number, and their job
	// messages are not published.
	RedispatchAfter Point = "redispatch.after"
)
