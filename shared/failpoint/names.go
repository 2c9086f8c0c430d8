package failpoint

// Point is a place in the path of a run.
type Point string

// The points, in the order in which a run that calls a tool comes by them.
const (
	// AcceptBefore is in an ingress that is about to insert runs.
	AcceptBefore Point = "accept.before"
	// AcceptAfter is in an ingress: the insert is committed, and no worker is rung for.
	AcceptAfter Point = "accept.after"
	// RingAfter is in whoever rings: the doorbell is sent, and its acknowledgement not there.
	RingAfter Point = "ring.after"
	// ClaimBefore is in an agent worker that has heard a doorbell and claimed nothing.
	ClaimBefore Point = "claim.before"
	// ClaimAfter is in an agent worker: the run is its own, and nothing is done.
	ClaimAfter Point = "claim.after"
	// TurnBefore is in an agent worker: the model has asked for tools, and that is in no journal.
	TurnBefore Point = "turn.before"
	// TurnAfter is in an agent worker: the model's turn is in the journal, and no tool is called.
	TurnAfter Point = "turn.after"
	// EffectAfter is in an agent worker: the ledger has the effect, and no tool worker knows of it.
	EffectAfter Point = "effect.after"
	// SendBefore is in a tool worker that is about to have the ledger say that the effect is being sent.
	SendBefore Point = "send.before"
	// SendAfter is in a tool worker: the ledger says that the effect is being sent, and nothing has left.
	SendAfter Point = "send.after"
	// OutcomeBefore is in a tool worker: the receiver has answered, and the ledger does not know.
	OutcomeBefore Point = "outcome.before"
	// OutcomeAfter is in a tool worker: the ledger knows, and the agent worker does not.
	OutcomeAfter Point = "outcome.after"
	// ToolBefore is in an agent worker: a tool has answered, and that is in no journal.
	ToolBefore Point = "tool.before"
	// ToolAfter is in an agent worker: the tool's answer is in the journal, and the model does not know of it.
	ToolAfter Point = "tool.after"
	// ParkAfter is in an agent worker: the run waits for a person, and nobody is told.
	ParkAfter Point = "park.after"
	// FinishBefore is in an agent worker that has a run's end in hand, and none of it is written.
	FinishBefore Point = "finish.before"
	// FinishAfter is in an agent worker: the end is committed, and nobody is told.
	FinishAfter Point = "finish.after"
	// DoneAfter is in an agent worker: who waits was told of the end, and the doorbell is not acknowledged.
	DoneAfter Point = "done.after"
	// HandOverBefore is in an agent worker: an ended run has left its place, and no other run has it.
	HandOverBefore Point = "handover.before"
	// HandOverAfter is in an agent worker: another run has the place, and nobody is rung for.
	HandOverAfter Point = "handover.after"
	// AnswerBefore is in an ingress that has a run's end and has given it to no request that waits.
	AnswerBefore Point = "answer.before"
	// PutBackAfter is in an agent worker: the run is back in the queue, and its doorbell not acknowledged.
	PutBackAfter Point = "putback.after"
	// RequeueAfter is in a sweeper: a dead worker's runs are in the queue again, and none is dispatched.
	RequeueAfter Point = "requeue.after"
	// DispatchAfter is in a sweeper: waiting runs have their places, and nobody is rung for.
	DispatchAfter Point = "dispatch.after"
	// RedispatchAfter is in a sweeper: unheard doorbells have a new number, and are not rung.
	RedispatchAfter Point = "redispatch.after"
)
