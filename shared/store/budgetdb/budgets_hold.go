package budgetdb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

const (
	budgetedFor = 5 * time.Second // that it is remembered whether an organization has budgets
	maxBudgeted = 10_000          // organizations of which it is
)

// Budgeted remembers which organizations have budgets, so that the others pay nothing for there being any.
type Budgeted struct {
	mu   sync.Mutex
	kept map[string]budgetedOrganization
}

type budgetedOrganization struct {
	some  bool
	until time.Time
}

func (b *Budgeted) get(org string) (some, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.kept[org]
	return found.some, time.Now().Before(found.until)
}

func (b *Budgeted) set(org string, some bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil || len(b.kept) >= maxBudgeted {
		b.kept = map[string]budgetedOrganization{}
	}
	b.kept[org] = budgetedOrganization{some, time.Now().Add(budgetedFor)}
}

func (b *Budgeted) forget(org string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.kept, org)
}

// Budgeted reports whether an organization has budgets. One that was made in another process is known here within 5 s.
func (s *Store) Budgeted(ctx context.Context, org string) (bool, error) {
	if some, known := s.budgeted.get(org); known {
		return some, nil
	}
	var some bool
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &some, `SELECT EXISTS (SELECT FROM budgets WHERE org_id = $1)`, org)
	})
	if err != nil {
		return false, fmt.Errorf("looking for budgets: %w", err)
	}
	s.budgeted.set(org, some)
	return some, nil
}

// Amounts are what a call may use, or has used. Costs are in millionths of the currency.
type Amounts struct {
	CostMicros int64
	Tokens     int64
	Sandbox    time.Duration
}

// columns gives the amounts as the database counts them; nothing of a metric is left out.
func (a Amounts) columns(nothing bool) (metrics []string, amounts []int64) {
	add := func(metric domain.BudgetMetric, n int64) {
		if n > 0 || nothing {
			metrics, amounts = append(metrics, string(metric)), append(amounts, max(n, 0))
		}
	}
	add(domain.BudgetCost, a.CostMicros)
	add(domain.BudgetTokens, a.Tokens)
	add(domain.BudgetSandbox, int64((a.Sandbox+time.Millisecond-1)/time.Millisecond))
	return metrics, amounts
}

func (a Amounts) of(metric domain.BudgetMetric) int64 {
	metrics, amounts := a.columns(true)
	for i := range metrics {
		if metrics[i] == string(metric) {
			return amounts[i]
		}
	}
	return 0
}

// Hold is what a call of an attempt may use at most.
type Hold struct {
	ID string // of the caller's making, unique
	lease.Held
	Amounts
}

// Lacking is a budget that has no room for a hold.
type Lacking struct {
	domain.Budget
	// Later: there would be room if no other call held anything.
	Later bool
}

// Reserve holds amounts of all budgets that the run falls under, and says how many these are, or of none: then it gives one that lacks the
// room, if there is one that would lack it whatever becomes of other calls. A hold that was made must be settled.
func (s *Store) Reserve(ctx context.Context, h Hold) (budgets int, lacking *Lacking, err error) {
	metrics, amounts := h.columns(false)
	var held, refused []string
	var rows []budgetRow
	err = s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		rows = nil
		var found []struct {
			BudgetID string `db:"budget_id"`
			Held     bool   `db:"held"`
		}
		err := tx.SelectContext(ctx, &found, `SELECT budget_id, held FROM reserve_budgets($1, $2, $3, $4, $5, $6)`,
			h.OrganizationID, h.RunID, h.Fence, h.ID, pq.Array(metrics), pq.Array(amounts))
		held, refused = nil, nil
		for _, b := range found {
			if b.Held {
				held = append(held, b.BudgetID)
			} else {
				refused = append(refused, b.BudgetID)
			}
		}
		if err != nil || len(refused) == 0 {
			return err
		}
		return tx.SelectContext(ctx, &rows, budgetSelect+`AND k.id = ANY ($2) ORDER BY k.id`, h.OrganizationID, pq.Array(refused))
	})
	if err != nil {
		return 0, nil, fmt.Errorf("reserving: %w", err)
	}
	for _, row := range rows {
		b := row.budget()
		later := row.Used < row.Max && h.of(b.Metric) <= row.Max-row.Used
		if lacking == nil || !later {
			lacking = &Lacking{Budget: b, Later: later}
		}
	}
	if lacking == nil && len(refused) > 0 {
		return 0, nil, fmt.Errorf("reserving: budget %s was deleted concurrently", refused[0])
	}
	return len(held), lacking, nil
}

// Settle ends a hold of a run: used is what its call came to. One that was ended by the sweeper stays as it is. Budgets made since
// then count the call as well. Of a call that nothing was held for, holdID is "", and these alone count it: each time.
func (s *Store) Settle(ctx context.Context, held lease.Held, holdID string, used Amounts) error {
	metrics, amounts := used.columns(true)
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `SELECT settle_budgets($1, $2, $3, $4, $5)`,
			held.OrganizationID, held.RunID, holdID, pq.Array(metrics), pq.Array(amounts))
		return err
	})
	if err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

// lostHold is how old a hold is at least before anybody asks whether its attempt goes on: the worker that made it may settle it yet.
const lostHold = time.Minute

// SettleLost ends up to limit holds of attempts that are over: what they may have used counts as used. It reports how many there were.
func (s *Store) SettleLost(ctx context.Context, limit int) (n int, err error) {
	if err := s.db.GetContext(ctx, &n, `SELECT settle_lost_budgets($1, $2)`, limit, pg.Interval(lostHold)); err != nil {
		return 0, fmt.Errorf("settling what lost attempts hold: %w", err)
	}
	return n, nil
}
