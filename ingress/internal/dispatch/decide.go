package dispatch

import (
	"context"

	"parley/shared/domain"
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
	if err != nil {
		return rundb.StoredRun{}, refusal(err)
	}

	// A repeated decision has neither ended nor resumed the run. It is published as a change all
	// the same, which is harmless.
	d.bus.Changed(domain.ChangedRuns, a.OrganizationID)
	d.notifyFinished(ctx, decided.Ended)
	if decided.Resumed {
		d.topUp(ctx, []queuedb.Lane{{OrganizationID: a.OrganizationID, Lane: decided.Lane}})
	}
	return decided.Run, nil
}
