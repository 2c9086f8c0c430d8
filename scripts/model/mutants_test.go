package model

// mutant is the protocol with one rule omitted.
type mutant struct {
	name string

	finishWithoutFence, stepWithoutFence, sendWithoutFence, heartbeatWithoutFence, putBackWithoutFence bool
	claimKeepsFence, claimLiveLease, claimOutOfOrder, voidKeepsPlace                                   bool
	acceptWithoutIndex, answerBeforeCommit, publishBeforeCommit, attachWithoutLook, noPoll             bool
	rawMsgID, sharedMsgID                                                                              bool
	ackBeforeCommit, doneBeforeCommit, placesKept                                                      bool
	unsafeSentAgain, keyOfAttempt, sendBeforeLedger, callBeforeTurn                                    bool
	overdueThoughParked, poisonUnchecked, requeueUnchecked                                             bool
	deathsUncounted, noRedispatch, noSweeper                                                           bool
	freedByAnother, expiredRunAnswers, freesLivingKeys, keyShorterThanWindow                           bool
	lockFailsBatch, lockedLeaseLost, lockedResultDropped                                               bool
	claimLockFailsBatch, batchClaimsTwice, claimsMixedUp, finishLockFailsBatch, lossFailsBatch         bool
}

// mutants lists all mutants with the promise that each must break. Some break one of two promises,
// whichever a schedule reaches first.
var mutants = []struct {
	mutant
	breaks string
	or     string
}{
	{mutant{name: "finish without fence", finishWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "step without fence", stepWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "send without fence", sendWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "heartbeat without fence", heartbeatWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "put back without fence", putBackWithoutFence: true}, "every write is fenced", ""},
	{mutant{name: "claim keeps the fence", claimKeepsFence: true}, "each claim has a fence of its own", ""},
	{mutant{name: "claim of a living lease", claimLiveLease: true}, "a lease that lives is kept", ""},
	{mutant{name: "claim out of order", claimOutOfOrder: true}, "a session goes in order", ""},
	{mutant{name: "void claim keeps its place", voidKeepsPlace: true}, "a doorbell is heard", ""},
	{mutant{name: "accept without index", acceptWithoutIndex: true}, "one run per key", ""},
	{mutant{name: "answer before commit", answerBeforeCommit: true}, "no accepted run is lost", ""},
	{mutant{name: "publish before commit", publishBeforeCommit: true}, "a doorbell is heard", ""},
	{mutant{name: "attach without a look", attachWithoutLook: true}, "a wait ends with its run", ""},
	{mutant{name: "no poll", noPoll: true}, "a wait ends with its run", ""},
	{mutant{name: "raw message id", rawMsgID: true}, "a doorbell is heard", ""},
	{mutant{name: "message id shared by organizations", sharedMsgID: true}, "a doorbell is heard", ""},
	{mutant{name: "ack before commit", ackBeforeCommit: true}, "a doorbell outlives its attempt", ""},
	{mutant{name: "done before commit", doneBeforeCommit: true}, "a wait ends with its run", ""},
	{mutant{name: "places are kept", placesKept: true}, "places come back", ""},
	{mutant{name: "unsafe is sent again", unsafeSentAgain: true}, "a side effect happens once", ""},
	{mutant{name: "key of the attempt", keyOfAttempt: true}, "a side effect keeps its key", ""},
	{mutant{name: "send before the ledger", sendBeforeLedger: true}, "a side effect happens once", ""},
	{mutant{name: "call before its turn is kept", callBeforeTurn: true}, "a side effect happens once", "a side effect keeps its key"},
	{mutant{name: "sweeper times out what waits for a person", overdueThoughParked: true}, "a run has its time", ""},
	{mutant{name: "sweeper ends poison unchecked", poisonUnchecked: true}, "only poison is ended as such", ""},
	{mutant{name: "sweeper requeues unchecked", requeueUnchecked: true}, "a lease that lives is kept", ""},
	{mutant{name: "deaths are not counted", deathsUncounted: true}, "poison ends", ""},
	{mutant{name: "no redispatch", noRedispatch: true}, "every accepted run ends", ""},
	{mutant{name: "no sweeper", noSweeper: true}, "a run ends by its deadline", "places come back"},
	{mutant{name: "only the process that frees an expired key replaces it", freedByAnother: true}, "an expired key is replaced", ""},
	{mutant{name: "a run whose retention is over answers", expiredRunAnswers: true}, "an expired key is replaced", ""},
	{mutant{name: "a key in use is freed", freesLivingKeys: true}, "one run per key", ""},
	{mutant{name: "a key expires within the duplicate window", keyShorterThanWindow: true}, "a doorbell is heard", ""},
	{mutant{name: "a locked session fails its batch", lockFailsBatch: true}, "a lock is its own run's alone", ""},
	{mutant{name: "a locked lease is lost", lockedLeaseLost: true}, "a lock takes no run", ""},
	{mutant{name: "a locked result is dropped", lockedResultDropped: true}, "a doorbell outlives its attempt", ""},
	{mutant{name: "a locked run fails its batch of claims", claimLockFailsBatch: true}, "a lock is its own run's alone", ""},
	{mutant{name: "a batch claims a run twice", batchClaimsTwice: true}, "each claim has a fence of its own", ""},
	{mutant{name: "claims of a batch are mixed up", claimsMixedUp: true}, "equal answers per key", ""},
	{mutant{name: "a locked run fails its batch of results", finishLockFailsBatch: true}, "a lock is its own run's alone", ""},
	{mutant{name: "a run that was taken fails its batch of results", lossFailsBatch: true}, "a doorbell outlives its attempt", ""},
}
