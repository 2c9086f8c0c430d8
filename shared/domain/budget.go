package domain

// BudgetScope is the scope of a budget.
type BudgetScope string

// The scopes of budgets.
const (
	BudgetOrganization BudgetScope = "organization"
	BudgetAgent        BudgetScope = "agent"
	BudgetKey          BudgetScope = "key"
	BudgetAutomation   BudgetScope = "automation"
)

// BudgetMetric is the quantity that a budget limits.
type BudgetMetric string

// The metrics of budgets.
const (
	BudgetCost    BudgetMetric = "costMicros" // millionths of the service's currency
	BudgetTokens  BudgetMetric = "tokens"     // input and output together
	BudgetRuns    BudgetMetric = "runs"
	BudgetSandbox BudgetMetric = "sandboxSeconds"
)

// BudgetPeriod is the calendar period, in UTC, after which a budget resets.
type BudgetPeriod string

// The periods of budgets.
const (
	BudgetDay   BudgetPeriod = "day"
	BudgetMonth BudgetPeriod = "month"
)

// Budget is a hard limit on consumption in a period. The HTTP API uses its JSON form.
type Budget struct {
	ID        string       `json:"id"`
	Scope     BudgetScope  `json:"scope"`
	SubjectID *string      `json:"subjectId"` // the agent, key or automation; nil for the organization
	Metric    BudgetMetric `json:"metric"`
	Period    BudgetPeriod `json:"period"`
	Limit     int64        `json:"limit"`
	Currency  string       `json:"currency,omitempty"` // of the amounts, if the metric is BudgetCost
	Used      int64        `json:"used"`               // in this period
	Reserved  int64        `json:"reserved"`           // reserved for calls in progress, in addition to Used
	ResetsAt  Time         `json:"resetsAt"`
	CreatedAt Time         `json:"createdAt"`
	UpdatedAt Time         `json:"updatedAt"`

	SubjectName *string `json:"-"` // name of the agent or key, for messages
}
