package domain

// ChangeKind is a kind of an organization's things that change while people look at them.
type ChangeKind string

// The kinds that are told of.
const (
	ChangedRuns          ChangeKind = "runs"
	ChangedDocuments     ChangeKind = "documents"
	ChangedNotifications ChangeKind = "notifications" // and the endpoints that they are sent to
)

// ChangeKinds lists every kind.
var ChangeKinds = []ChangeKind{ChangedRuns, ChangedDocuments, ChangedNotifications}
