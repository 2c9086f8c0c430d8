package domain

// Lane separates work that people wait for from work that machines send by the thousand.
type Lane string

// The lanes; each has its own consumer and its own slots in a worker.
const (
	LaneChat       Lane = "chat"
	LaneAutomation Lane = "automation"
)

// Lanes lists all lanes of runs.
var Lanes = []Lane{LaneChat, LaneAutomation}

// LaneIngest carries the doorbells of documents that wait to be processed; in its jobs the run's id is the document's.
const LaneIngest Lane = "ingest"

// Job is a dispatched run: what ringing its doorbell on the bus needs.
type Job struct {
	RunID          string
	OrganizationID string
	Lane           Lane
	Dedupe         string // the stable half of the message id, see contract.Dedupe
	DispatchNo     int    // counts the dispatches of this run, from 1
	ReplyTo        string // inbox of the ingress that waits; may be empty
	Traceparent    string // may be empty
}
