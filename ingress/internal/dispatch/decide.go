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
	Principal      string // whose run it must be; "" is anybody's
	RunID          string
	ToolCallID     string
	Decision       domain.Decision
	By             string // who decides
}

// Decide answers the action that a run waits for. A run that goes on by that takes a place like any other; whoever
// waits for one that ends by it is told.
func (d *Dispatcher) Decide(ctx context.Context, a Answer) (rundb.StoredRun, error) {
	decided, err := d.store.Executions.Decide(ctx, a.OrganizationID, a.Principal, a.RunID, a.ToolCallID, a.Decision, a.By)
	if err != nil {
		return rundb.StoredRun{}, refusal(err)
	}
	d.bus.Changed(domain.ChangedRuns, a.OrganizationID)
	d.tell(ctx, decided.Ended)
	if decided.Resumed {
		d.topUp(ctx, []queuedb.Lane{{OrganizationID: a.OrganizationID, Lane: decided.Lane}})
	}
	return decided.Run, nil
}
