package chaos

import (
	"sync"
	"time"
)

// evidence is what a run of chaos leaves, and all that the checker looks at.
type evidence struct {
	Requests    []request
	Rows        []row             // the table of runs at the end
	Open        []open            // runs that have not ended at the end
	Seen        map[string]string // prints of terminal rows as they were first seen, by the run's id
	Effects     []effect          // what the ledger server has counted
	Decisions   []decision        // what a person has answered
	Turns       []turn            // what the model was shown of sessions
	Samples     []sample          // what processes held
	Interrupted []interruption    // what was done to a part's links, or to itself, without ending it
	Ends        []string          // parts that ended although nobody struck them

	Deadline  time.Duration // of runs
	LoadUntil time.Time     // when clients began nothing new anymore
}

// request is one request of a client and what became of it.
type request struct {
	Kind       string // of what was asked, as in "plain"
	Key        string // with its organization and endpoint; empty: it had none
	Via        string // the ingress that it went through
	Sent, Done time.Time
	Within     time.Duration // what the service may take
	Left       bool          // the client broke it off

	Status     int    // 0: the connection broke
	Problem    string // why there is no answer
	Run        string
	RunStatus  string
	Body       string // of answers with a run that has ended
	RetryAfter bool
	Replayed   bool
}

// accepted tells whether the service has promised to carry the run out.
func (r request) accepted() bool { return r.Status >= 200 && r.Status < 300 }

// row is a run in the database.
type row struct {
	ID, Key, Session, Status, Message, Result string
	Seq, Attempts                             int
	Created, Started, Finished                time.Time // the last two are zero where the row has none
	Print                                     string    // names the row's version and all that is in it
}

// open is a run that has not ended.
type open struct {
	ID, Status string
	Deadline   time.Time
}

// effect is one request that reached the ledger server.
type effect struct {
	Bill string // what was to be paid
	Tool string // as in "unsafe"
	Key  string // Idempotency-Key
	At   time.Time
}

// decision is what a person has answered to a run that waited.
type decision struct {
	Run, Bill, Said string
	At              time.Time
}

// turn is a model call of a session's run.
type turn struct {
	Session string
	N       int
	Before  []int // the turns of the same session that the model was shown before it
}

// sample is what a process held at a moment.
type sample struct {
	Part        string
	PID         int
	At          time.Time
	Memory      int64 // bytes
	Descriptors int
}

// interruption is a time in which a part could not do what it is for, and was not ended.
type interruption struct {
	Part, What string
	From, To   time.Time
}

// terminal tells whether a run in that state has ended.
func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled" || status == "timed_out"
}

// history collects evidence; it only ever grows. Safe for concurrent use.
type history struct {
	mu  sync.Mutex
	all evidence
}

// note changes what was collected.
func (h *history) note(add func(all *evidence)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	add(&h.all)
}
