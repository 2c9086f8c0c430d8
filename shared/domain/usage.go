package domain

import "strconv"

// Consumption is what runs came to and used; its JSON form is the contract's. Runs that go on are counted in Runs alone.
type Consumption struct {
	Runs         int64  `json:"runs" db:"runs"`
	Completed    int64  `json:"completed" db:"completed"`
	Failed       int64  `json:"failed" db:"failed"`
	Cancelled    int64  `json:"cancelled" db:"cancelled"`
	TimedOut     int64  `json:"timedOut" db:"timed_out"`
	InputTokens  int64  `json:"inputTokens" db:"input_tokens"`
	OutputTokens int64  `json:"outputTokens" db:"output_tokens"`
	CostMicros   int64  `json:"costMicros" db:"cost_micros"`
	SandboxTime  Millis `json:"sandboxSeconds" db:"sandbox_ms"` // of their calls of codeExecution
	P50Ms        *int64 `json:"p50Ms" db:"p50_ms"`              // from acceptance to the end, of runs that have ended; nil when none has
	P95Ms        *int64 `json:"p95Ms" db:"p95_ms"`
}

// Add counts other runs with these. What they took is not added.
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

// UsageInterval is what the runs of an interval came to: those that were accepted in it.
type UsageInterval struct {
	StartsAt Time `json:"startsAt"`
	Consumption
}

// UsageReport is what the runs of an organization came to, interval by interval, from the first one's beginning until To.
type UsageReport struct {
	Interval string          `json:"interval"` // hour or day, in UTC
	From     Time            `json:"from"`
	To       Time            `json:"to"`
	Data     []UsageInterval `json:"data"`
	Totals   Consumption     `json:"totals"`
	Groups   []UsageGroup    `json:"groups,omitzero"` // nil when none were asked for
}

// UsageGroup is what the runs of one agent or template came to, by one key or of one automation.
type UsageGroup struct {
	ID     *string `json:"id" db:"id"`         // nil: runs that have none, or others
	Others bool    `json:"others" db:"others"` // all groups together that are not shown by themselves
	Consumption
}

// Millis is a time in milliseconds; its JSON form is in seconds.
type Millis int64

// MarshalJSON writes seconds, with up to three digits behind the point.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1000, 'f', -1, 64), nil
}

// Automation is a name under which runs were triggered, as its newest run shows it.
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
	Kept       bool      `json:"kept"` // else it was removed, its retention being over: this is all that is known of it
}
