package httpx

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	demoSpendAge   = 5 * time.Second // maximum age of the cached amount
	demoBudgetWait = 10 * time.Minute
)

// demoBudget limits the tokens that all demo visitors together may use per day. A limit for each
// visitor would not suffice, because there may be any number of visitors. The tokens of a run are
// known only when the run has finished, so the runs in progress can exceed the budget.
type demoBudget struct {
	spent func(ctx context.Context) (tokens int64, err error)

	mu sync.Mutex

	known int64 // number of tokens that were spent today, as of the time in the field at
	at    time.Time
}

// check returns the error budget_exceeded if today's runs have used the maximum number of tokens.
func (b *demoBudget) check(ctx context.Context, maximum int64, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	// Hold the lock during the query, so that concurrent requests share one query.
	if now.Sub(b.at) >= demoSpendAge {
		tokens, err := b.spent(ctx)
		if err != nil {
			return err
		}
		b.known, b.at = tokens, now
	}

	if b.known < maximum {
		return nil
	}

	e := apierr.New(apierr.BudgetExceeded, "the demo's daily budget is used up; log in or use an API key")
	e.RetryAfter = demoBudgetWait
	return e
}
