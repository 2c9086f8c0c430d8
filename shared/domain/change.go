package domain

// ChangeKind is a kind of resource whose changes are published.
type ChangeKind string

// The kinds of changes.
const (
	ChangedRuns          ChangeKind = "runs"
	ChangedDocuments     ChangeKind = "documents"
	ChangedNotifications ChangeKind = "notifications" // and their endpoints
)

// ChangeKinds lists all kinds.
var ChangeKinds = []ChangeKind{ChangedRuns, ChangedDocuments, ChangedNotifications}
