package domain

// StepName names one of the first steps that a new user takes with the service.
type StepName string

// The first steps, in the order in which they are shown.
const (
	StepChat     StepName = "chat"     // the person has chatted with an agent
	StepDocument StepName = "document" // the organization has a document that is not a sample
	StepKey      StepName = "key"      // there is a valid API key that has not added samples
	StepSchedule StepName = "schedule" // a scheduler or webhook has started a run
	StepEmbed    StepName = "embed"    // a widget is enabled for a website
)

// MetadataExample is the name of the metadata of sample documents. These documents, and keys with
// which they were added, do not count as first steps.
const MetadataExample = "example"

// Step is one of the first steps with the service, and whether it is done.
type Step struct {
	Name StepName `json:"name"`
	Done bool     `json:"done"`
}

// Overview is the content of the dashboard's first page: the first steps, and the things that need
// attention. It contains only data that its reader may see. The HTTP API uses its JSON form.
type Overview struct {
	Steps []Step `json:"steps"`
	// Approvals is the number of runs that wait for a decision, at most MaxOverviewCount.
	Approvals     int             `json:"approvals"`
	Webhooks      []FailingHook   `json:"webhooks"`
	Notifications []FailingTarget `json:"notifications"`
	Documents     FailedDocuments `json:"documents"`
	Budgets       []TightBudget   `json:"budgets"`
}

// MaxOverviewCount is the maximum of the counts of an Overview.
const MaxOverviewCount = 100

// FailingHook is a hook whose last delivery started no run because of an error.
type FailingHook struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Status     DeliveryStatus `json:"status"` // refused or rejected
	Error      *RunError      `json:"error"`
	ReceivedAt Time           `json:"receivedAt"`
}

// FailingTarget is a notification endpoint that the service has disabled, or whose last attempts
// failed.
type FailingTarget struct {
	ID             string  `json:"id"`
	URL            string  `json:"url"`
	Description    string  `json:"description"`
	DisabledReason *string `json:"disabledReason"` // nil: the endpoint is enabled
	Failures       int     `json:"failures"`       // consecutive failed attempts
}

// FailedDocuments contains the number of documents that could not be read, at most
// MaxOverviewCount, and the newest of them.
type FailedDocuments struct {
	Count  int              `json:"count"`
	Newest []FailedDocument `json:"newest"`
}

// FailedDocument is a document that could not be read.
type FailedDocument struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Error *DocumentError `json:"error"`
}

// TightBudget is a budget that is nearly or completely used up.
type TightBudget struct {
	ID       string       `json:"id"`
	Scope    BudgetScope  `json:"scope"`
	Subject  *string      `json:"subject"` // name of the agent, key or automation; its id if it is deleted; nil for the organization
	Metric   BudgetMetric `json:"metric"`
	Period   BudgetPeriod `json:"period"`
	Limit    int64        `json:"limit"`
	Used     int64        `json:"used"`
	Reserved int64        `json:"reserved"`
	ResetsAt Time         `json:"resetsAt"`
}

// NearlyUsed reports whether at least four fifths of a budget are used. It returns false for a
// budget of 0, because an admin has chosen to permit no use.
func (b *Budget) NearlyUsed() bool { return b.Limit > 0 && b.Used*5 >= b.Limit*4 }
