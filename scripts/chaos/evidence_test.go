package chaos

import (
	"sync"
	"time"
)

// evidence is the record of a chaos run. It contains everything that the checker reads.
type evidence struct {
	Requests    []request
	Rows        []row             // the table of runs at the end
	Open        []open            // runs that have not finished at the end
	Seen        map[string]string // fingerprints of finished runs' rows when the watcher first saw them, by run ID
	Effects     []effect          // requests that the ledger received
	Decisions   []decision        // decisions that the person made about waiting runs
	Results     []clientResults   // results of the clients' tools
	Turns       []turn            // turns of sessions, as the model received them
	Samples     []sample          // resource usage of the processes
	Interrupted []interruption    // periods in which faults kept parts or links from working without ending a process
	Ends        []string          // descriptions of processes that ended although no fault killed them

	Deadline  time.Duration // time from a run's creation to its deadline
	LoadUntil time.Time     // time at which clients stopped starting new work
}

// wrongResponse is the status of a request whose response has a success status but cannot be
// decoded.
const wrongResponse = 999

// request is one request of a client and its outcome.
type request struct {
	Kind       string // kind of the client's work, such as "plain"
	Key        string // idempotency key, prefixed with organization and endpoint; empty if there is none
	Via        string // name of the ingress that received the request
	Sent, Done time.Time
	Within     time.Duration // the longest allowed response time
	Left       bool          // whether the client aborted the request

	Status     int    // status of the response; 0: the connection broke
	Problem    string // reason why there is no response
	Run        string
	RunStatus  string
	Calls      []string // ids of the calls that the run's client must execute
	Body       string   // body of a response that contains a finished run
	RetryAfter bool
	Replayed   bool
}

// accepted reports whether the response promises that the run will be executed.
func (r request) accepted() bool { return r.Status >= 200 && r.Status < 300 }

// row is a run as the database contains it.
type row struct {
	ID, Key, Session, Status, Message, Result string
	Seq, Attempts                             int
	Created, Started, Finished                time.Time // Started and Finished are zero if the row has no such time
	Print                                     string    // fingerprint of the row's version and content
}

// open is a run that has not finished.
type open struct {
	ID, Status string
	Deadline   time.Time
}

// effect is one request that the ledger has received.
type effect struct {
	Bill string // name of the bill to pay
	Tool string // name of the tool, such as "unsafe"
	Key  string // value of the Idempotency-Key header
	At   time.Time
}

// decision is the person's decision about a waiting run.
type decision struct {
	Run, Bill, Said string
	At              time.Time
}

// clientResults is a request with the results of a client's tool, and its outcome.
type clientResults struct {
	Run        string
	Status     int // status of the response; 0: the connection broke
	Problem    string
	Sent, Done time.Time
}

// turn is one turn of a session, as the model received it.
type turn struct {
	Session string
	N       int
	Before  []int // numbers of the earlier turns whose messages the model received in the same call
}

// sample is the resource usage of one process at one time.
type sample struct {
	Part        string
	PID         int
	At          time.Time
	Memory      int64 // resident memory in bytes
	Descriptors int
}

// interruption is a period in which a running part could not work.
type interruption struct {
	Part, What string
	From, To   time.Time
}

// history collects the evidence of a chaos run. It is safe for concurrent use.
type history struct {
	mu  sync.Mutex
	all evidence
}

// note calls the function add with the evidence. It holds the lock meanwhile, so that this function
// can change the evidence.
func (h *history) note(add func(all *evidence)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	add(&h.all)
}
