package dispatch

import (
	"context"

	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
)

// Answer is a person's decision about the action that a run waits for.
type Answer struct {
	OrganizationID string
	Principal      string // the run must belong to this principal; "": any principal
	RunID          string
	ToolCallID     string // id of the tool call that the decision is about
	Decision       domain.Decision
	By             string // the person who decides
}

// Decide applies a decision to a waiting run. If the run continues, it needs a slot like any other
// run. If the decision finishes the run, Decide notifies the requests that wait for the run. The
// error has a code of package apierr if the decision is not possible.
func (d *Dispatcher) Decide(ctx context.Context, a Answer) (rundb.StoredRun, error) {
	decided, err := d.store.Executions.Decide(ctx, a.OrganizationID, a.Principal, a.RunID, a.ToolCallID, a.Decision, a.By)
	return d.decided(ctx, a.OrganizationID, decided, err)
}

// TakeResults passes the results of a client's tool calls to the waiting run. It ignores the fields
// of the Answer that describe a person's decision.
func (d *Dispatcher) TakeResults(ctx context.Context, a Answer, results []domain.ClientResult) (rundb.StoredRun, error) {
	decided, err := d.store.Executions.TakeResults(ctx, a.OrganizationID, a.Principal, a.RunID, results, a.By)
	return d.decided(ctx, a.OrganizationID, decided, err)
}

// decided publishes the result of a decision, and makes a run that continues wait for a slot. It
// converts err with refusal.
func (d *Dispatcher) decided(ctx context.Context, org string, decided executiondb.Decided, err error) (rundb.StoredRun, error) {
	if err != nil {
		return rundb.StoredRun{}, refusal(err)
	}
	failpoint.Here(failpoint.DecideAfter)

	// If the decision had already been made, the run has not changed. Publishing a change
	// nevertheless does no harm.
	d.bus.Changed(domain.ChangedRuns, org)
	d.notifyFinished(ctx, decided.Ended)
	if decided.Resumed {
		d.topUp(ctx, []queuedb.Lane{{OrganizationID: org, Lane: decided.Lane}})
	}
	return decided.Run, nil
}
