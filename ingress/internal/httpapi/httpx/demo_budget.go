package httpx

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	demoSpendAge   = 5 * time.Second // how old a known spending may be
	demoBudgetWait = 10 * time.Minute
)

// demoBudget bounds what all demo visitors together may spend in a day, in tokens: each has its own limit of
// requests, and there may be any number of them. What runs have spent is known when they end, so those that are
// open when the budget is used up still go over it.
type demoBudget struct {
	spent func(ctx context.Context) (tokens int64, err error)

	mu    sync.Mutex
	known int64
	at    time.Time
}

// check refuses a new run if all runs of the day have spent that many tokens.
func (b *demoBudget) check(ctx context.Context, maximum int64, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
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
