package domain

// BudgetScope is whose consumption a budget bounds.
type BudgetScope string

// The scopes of budgets.
const (
	BudgetOrganization BudgetScope = "organization"
	BudgetAgent        BudgetScope = "agent"
	BudgetKey          BudgetScope = "key"
	BudgetAutomation   BudgetScope = "automation"
)

// BudgetMetric is what a budget counts.
type BudgetMetric string

// The metrics of budgets.
const (
	BudgetCost    BudgetMetric = "costMicros" // millionths of the price table's currency
	BudgetTokens  BudgetMetric = "tokens"     // input and output together
	BudgetRuns    BudgetMetric = "runs"
	BudgetSandbox BudgetMetric = "sandboxSeconds"
)

// BudgetPeriod is how long a budget lasts before it begins anew, in UTC.
type BudgetPeriod string

// The periods of budgets.
const (
	BudgetDay   BudgetPeriod = "day"
	BudgetMonth BudgetPeriod = "month"
)

// Budget is a cap on what is consumed in a period, which is never exceeded; its JSON form is the contract's.
type Budget struct {
	ID        string       `json:"id"`
	Scope     BudgetScope  `json:"scope"`
	SubjectID *string      `json:"subjectId"` // the agent, key or automation; nil for the organization
	Metric    BudgetMetric `json:"metric"`
	Period    BudgetPeriod `json:"period"`
	Limit     int64        `json:"limit"`
	Used      int64        `json:"used"`     // in this period
	Reserved  int64        `json:"reserved"` // for calls under way, on top
	ResetsAt  Time         `json:"resetsAt"`
	CreatedAt Time         `json:"createdAt"`
	UpdatedAt Time         `json:"updatedAt"`
}
