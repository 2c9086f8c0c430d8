package domain

// Lane separates runs that people wait for from runs that machines trigger in bulk.
type Lane string

// The lanes. Each lane has its own consumer, and its own slots in a worker.
const (
	LaneChat       Lane = "chat"
	LaneAutomation Lane = "automation"
)

// Lanes lists all lanes of runs.
var Lanes = []Lane{LaneChat, LaneAutomation}

// LaneIngest is the lane of documents that wait to be processed. The run id in its jobs is
// the document's id.
const LaneIngest Lane = "ingest"

// Job is the data for the job message of a dispatched run.
type Job struct {
	RunID          string
	OrganizationID string
	Lane           Lane
	Dedupe         string // the part of the message id that is equal for all dispatches of the run; see contract.Dedupe
	DispatchNo     int    // number of this dispatch of the run, counted from 1
	ReplyTo        string // inbox of the waiting ingress; may be empty
	Traceparent    string // may be empty
}
