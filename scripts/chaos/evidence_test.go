package chaos

import (
	"sync"
	"time"
)

// evidence is the record of a chaos run and the checker's only input.
type evidence struct {
	Requests    []request
	Rows        []row             // the runs table at the end
	Open        []open            // unfinished runs at the end
	Seen        map[string]string // fingerprints of terminal rows when first seen, by run ID
	Effects     []effect          // requests counted by the ledger
	Decisions   []decision        // the person's decisions about waiting runs
	Turns       []turn            // session turns shown to the model
	Samples     []sample          // resource usage of processes
	Interrupted []interruption    // faults in parts or their links that ended no process
	Ends        []string          // parts that ended without a kill

	Deadline  time.Duration // of runs
	LoadUntil time.Time     // when clients stopped starting new work
}

// request is one client request and its outcome.
type request struct {
	Kind       string // kind of work, such as "plain"
	Key        string // idempotency key with its organization and endpoint; empty if there is none
	Via        string // the ingress that received it
	Sent, Done time.Time
	Within     time.Duration // the allowed response time
	Left       bool          // the client aborted the request

	Status     int    // 0: the connection broke
	Problem    string // why there is no response
	Run        string
	RunStatus  string
	Body       string // the body of a response with a finished run
	RetryAfter bool
	Replayed   bool
}

// accepted reports whether the service has promised to execute the run.
func (r request) accepted() bool { return r.Status >= 200 && r.Status < 300 }

// row is a run in the database.
type row struct {
	ID, Key, Session, Status, Message, Result string
	Seq, Attempts                             int
	Created, Started, Finished                time.Time // the last two are zero if unset
	Print                                     string    // fingerprint of the row's version and content
}

// open is an unfinished run.
type open struct {
	ID, Status string
	Deadline   time.Time
}

// effect is one request that reached the ledger.
type effect struct {
	Bill string // the item to pay
	Tool string // such as "unsafe"
	Key  string // Idempotency-Key header
	At   time.Time
}

// decision is the person's decision about a waiting run.
type decision struct {
	Run, Bill, Said string
	At              time.Time
}

// turn is a model call in a session's run.
type turn struct {
	Session string
	N       int
	Before  []int // earlier turns of the session in the model call
}

// sample is the resource usage of a process at one time.
type sample struct {
	Part        string
	PID         int
	At          time.Time
	Memory      int64 // bytes
	Descriptors int
}

// interruption is a period in which a part could not work although it was running.
type interruption struct {
	Part, What string
	From, To   time.Time
}

// terminal reports whether a status is terminal.
func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled" || status == "timed_out"
}

// history collects evidence, which only grows. It is safe for concurrent use.
type history struct {
	mu  sync.Mutex
	all evidence
}

// note adds evidence.
func (h *history) note(add func(all *evidence)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	add(&h.all)
}
