package dispatch

import (
	"context"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
)

// Answer is a person's decision about the action that a run waits for.
type Answer struct {
	OrganizationID string
	Principal      string // the run's principal; "" allows any
	RunID          string
	ToolCallID     string // the call that the decision is about
	Decision       domain.Decision
	By             string // the person who decides
}

// Decide applies a decision to a waiting run. A run that continues takes a slot like any other run.
// If the decision finishes the run, its waiters are notified.
func (d *Dispatcher) Decide(ctx context.Context, a Answer) (rundb.StoredRun, error) {
	decided, err := d.store.Executions.Decide(ctx, a.OrganizationID, a.Principal, a.RunID, a.ToolCallID, a.Decision, a.By)
	return d.decided(ctx, a.OrganizationID, decided, err)
}

// TakeResults passes the client's results of its calls to a waiting run. The fields of a for a
// decision are not used.
func (d *Dispatcher) TakeResults(ctx context.Context, a Answer, results []domain.ClientResult) (rundb.StoredRun, error) {
	decided, err := d.store.Executions.TakeResults(ctx, a.OrganizationID, a.Principal, a.RunID, results, a.By)
	return d.decided(ctx, a.OrganizationID, decided, err)
}

// decided publishes the result of a decision.
func (d *Dispatcher) decided(ctx context.Context, org string, decided executiondb.Decided, err error) (rundb.StoredRun, error) {
	if err != nil {
		return rundb.StoredRun{}, refusal(err)
	}

	// A repeated decision has neither ended nor resumed the run. It is published as a change all
	// the same, which is harmless.
	d.bus.Changed(domain.ChangedRuns, org)
	d.notifyFinished(ctx, decided.Ended)
	if decided.Resumed {
		d.topUp(ctx, []queuedb.Lane{{OrganizationID: org, Lane: decided.Lane}})
	}
	return decided.Run, nil
}
