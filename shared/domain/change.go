package domain

// ChangeKind is a kind of an organization's things that change while people look at them.
type ChangeKind string

// The kinds that are told of.
const (
	ChangedRuns      ChangeKind = "runs"
	ChangedDocuments ChangeKind = "documents"
)

// ChangeKinds lists every kind.
var ChangeKinds = []ChangeKind{ChangedRuns, ChangedDocuments}
