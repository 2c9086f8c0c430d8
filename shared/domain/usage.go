package domain

import "strconv"

// Consumption is a number of runs and their usage. The HTTP API uses its JSON form. Unfinished runs
// are counted only in the field Runs.
type Consumption struct {
	Runs         int64  `json:"runs" db:"runs"`
	Completed    int64  `json:"completed" db:"completed"`
	Failed       int64  `json:"failed" db:"failed"`
	Cancelled    int64  `json:"cancelled" db:"cancelled"`
	TimedOut     int64  `json:"timedOut" db:"timed_out"`
	InputTokens  int64  `json:"inputTokens" db:"input_tokens"`
	OutputTokens int64  `json:"outputTokens" db:"output_tokens"`
	CostMicros   int64  `json:"costMicros" db:"cost_micros"`
	SandboxTime  Millis `json:"sandboxSeconds" db:"sandbox_ms"` // of calls of codeExecution
	P50Ms        *int64 `json:"p50Ms" db:"p50_ms"`              // median time from a run's acceptance to its end; nil: no run has finished
	P95Ms        *int64 `json:"p95Ms" db:"p95_ms"`
}

// Add adds other to c, except the percentiles, which cannot be added.
func (c *Consumption) Add(other Consumption) {
	c.Runs += other.Runs
	c.Completed += other.Completed
	c.Failed += other.Failed
	c.Cancelled += other.Cancelled
	c.TimedOut += other.TimedOut
	c.InputTokens += other.InputTokens
	c.OutputTokens += other.OutputTokens
	c.CostMicros += other.CostMicros
	c.SandboxTime += other.SandboxTime
}

// UsageInterval is the consumption of the runs that were accepted in an interval.
type UsageInterval struct {
	StartsAt Time `json:"startsAt"`
	Consumption
}

// UsageReport is the consumption of an organization's runs per interval, between the times From and
// To.
type UsageReport struct {
	Interval string          `json:"interval"` // hour or day, in UTC
	Currency string          `json:"currency"` // of the costs
	From     Time            `json:"from"`
	To       Time            `json:"to"`
	Data     []UsageInterval `json:"data"`
	Totals   Consumption     `json:"totals"`
	Groups   []UsageGroup    `json:"groups,omitzero"` // nil if no grouping was requested
}

// UsageGroup is the consumption of the runs of an agent or template, of a key, or of an automation.
type UsageGroup struct {
	ID     *string `json:"id" db:"id"`         // nil: the runs without such an id, or the sum of the other groups
	Others bool    `json:"others" db:"others"` // the sum of all groups that are not shown separately
	Consumption
}

// Millis is a duration in milliseconds. Its JSON form is in seconds.
type Millis int64

// MarshalJSON writes seconds with up to three decimal places and without an exponent.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1000, 'f', -1, 64), nil
}

// Automation is a name under which runs were triggered, with data of its newest run.
type Automation struct {
	ID          string        `json:"id"`
	AgentID     string        `json:"agentId"`
	TriggerType string        `json:"triggerType"`
	LastRun     AutomationRun `json:"lastRun"`
}

// AutomationRun is the newest run of an automation.
type AutomationRun struct {
	ID         string    `json:"id"`
	Status     RunStatus `json:"status"`
	CreatedAt  Time      `json:"createdAt"`
	FinishedAt *Time     `json:"finishedAt"`
	Kept       bool      `json:"kept"` // whether the run is still stored; false after its retention period
}
