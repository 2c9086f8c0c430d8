package model

// mutant selects the rule of the protocol that the model omits.
type mutant struct {
	name string

	finishWithoutFence, stepWithoutFence, sendWithoutFence, heartbeatWithoutFence, requeueWithoutFence bool
	claimKeepsFence, claimLiveLease, claimOutOfOrder, voidKeepsPlace                                   bool
	branchWaitsForAll, branchWaitsForNone                                                              bool
	acceptWithoutIndex, answerBeforeCommit, publishBeforeCommit, attachWithoutLook, noPoll             bool
	rawMsgID, sharedMsgID                                                                              bool
	doneBeforeCommit, placesKept                                                                       bool
	unsafeSentAgain, keyOfAttempt, sendBeforeLedger, callBeforeTurn, cancelAnySend                     bool
	overdueThoughParked, poisonUnchecked, requeueUnchecked                                             bool
	deathsUncounted, noRedispatch, noSweeper                                                           bool
	freedByAnother, expiredRunAnswers, freesLivingKeys, keyShorterThanWindow                           bool
	lockFailsBatch, lockedLeaseLost, lockedResultDropped                                               bool
	claimLockFailsBatch, batchClaimsTwice, claimsMixedUp, finishLockFailsBatch, lossFailsBatch         bool
}

// mutants lists all mutants with the promise that each of them must break. Some mutants have two
// promises, because a schedule may break either of them first.
var mutants = []struct {
	mutant
	breaks string
	or     string
}{
	{mutant{name: "finish without fence", finishWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "step without fence", stepWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "send without fence", sendWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "cancelled send of another execution", cancelAnySend: true}, "a side effect happens once", ""},
	{mutant{name: "heartbeat without fence", heartbeatWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "requeue without fence", requeueWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "claim keeps the fence", claimKeepsFence: true}, "each claim has its own fence", ""},
	{mutant{name: "claim of an unexpired lease", claimLiveLease: true}, "an unexpired lease is kept", ""},
	{mutant{name: "claim out of order", claimOutOfOrder: true}, "a session is executed in order", ""},
	{mutant{name: "a branch waits for other branches", branchWaitsForAll: true}, "free slots are used", ""},
	{mutant{name: "a branch does not wait for the run that it continues", branchWaitsForNone: true}, "a session is executed in order", ""},
	{mutant{name: "void claim keeps its slot", voidKeepsPlace: true}, "job messages are delivered", ""},
	{mutant{name: "accept without index", acceptWithoutIndex: true}, "one run per key", ""},
	{mutant{name: "answer before commit", answerBeforeCommit: true}, "no accepted run is lost", ""},
	{mutant{name: "publish before commit", publishBeforeCommit: true}, "job messages are delivered", ""},
	{mutant{name: "attach without reading the run", attachWithoutLook: true}, "a wait ends with its run", ""},
	{mutant{name: "no poll", noPoll: true}, "a wait ends with its run", ""},
	{mutant{name: "raw message id", rawMsgID: true}, "job messages are delivered", ""},
	{mutant{name: "message id shared by organizations", sharedMsgID: true}, "job messages are delivered", ""},
	{mutant{name: "done before commit", doneBeforeCommit: true}, "a wait ends with its run", ""},
	{mutant{name: "slots are kept", placesKept: true}, "free slots are used", ""},
	{mutant{name: "an unsafe call is sent again", unsafeSentAgain: true}, "a side effect happens once", ""},
	{mutant{name: "separate key per attempt", keyOfAttempt: true}, "a side effect keeps its key", ""},
	{mutant{name: "send before the ledger", sendBeforeLedger: true}, "a side effect happens once", ""},
	{mutant{name: "call before its turn is journaled", callBeforeTurn: true}, "a side effect happens once", "a side effect keeps its key"},
	{mutant{name: "sweeper times out runs that wait for a person", overdueThoughParked: true}, "a run is not ended before its deadline", ""},
	{mutant{name: "sweeper ends poison unchecked", poisonUnchecked: true}, "only poison runs are ended as poison", ""},
	{mutant{name: "sweeper requeues unchecked", requeueUnchecked: true}, "an unexpired lease is kept", ""},
	{mutant{name: "deaths are not counted", deathsUncounted: true}, "poison runs end", ""},
	{mutant{name: "no redispatch", noRedispatch: true}, "every accepted run ends", ""},
	{mutant{name: "no sweeper", noSweeper: true}, "a run ends by its deadline", "free slots are used"},
	{mutant{name: "only the process that frees an expired key replaces it", freedByAnother: true}, "an expired key is replaced", ""},
	{mutant{name: "a run whose retention period has ended is replayed", expiredRunAnswers: true}, "an expired key is replaced", ""},
	{mutant{name: "a key in use is freed", freesLivingKeys: true}, "one run per key", ""},
	{mutant{name: "a key expires within the duplicate window", keyShorterThanWindow: true}, "job messages are delivered", ""},
	{mutant{name: "a locked session fails its batch", lockFailsBatch: true}, "a lock delays only its own run", ""},
	{mutant{name: "a locked lease counts as lost", lockedLeaseLost: true}, "a lock does not take a run from its worker", ""},
	{mutant{name: "a locked result is dropped", lockedResultDropped: true}, "an attempt ends with its outcome", ""},
	{mutant{name: "a locked run fails its batch of claims", claimLockFailsBatch: true}, "a lock delays only its own run", ""},
	{mutant{name: "a batch claims a run twice", batchClaimsTwice: true}, "each claim has its own fence", ""},
	{mutant{name: "claims of a batch are mixed up", claimsMixedUp: true}, "equal answers per key", ""},
	{mutant{name: "a locked run fails its batch of results", finishLockFailsBatch: true}, "a lock delays only its own run", ""},
	{mutant{name: "a run that was taken fails its batch of results", lossFailsBatch: true}, "an attempt ends with its outcome", ""},
}
