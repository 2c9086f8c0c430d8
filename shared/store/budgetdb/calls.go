package budgetdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/store/pg"
)

// Call describes model calls that belong to no run but count against budgets: the calls of a check
// of an agent's connections, or of a request for embeddings. The budgets of the organization, the
// agent and the key count the calls.
type Call struct {
	OrganizationID string
	AgentID        string // empty: none
	KeyID          string // the API key of the request; empty: none
	StartedAt      time.Time
}

// CallUsage is the usage that the models have reported. It is part of the organization's usage.
type CallUsage struct {
	InputTokens  int64
	OutputTokens int64
	CostMicros   int64
}

// ReserveCall is like Reserve, for calls without a run. holdID must be unique. If the calls are
// never charged, the sweeper counts the reserved amounts as used.
func (s *Store) ReserveCall(
	ctx context.Context, c Call, holdID string, maximum Amounts,
) (budgets int, lacking *InsufficientBudget, err error) {
	return s.reserve(ctx, c.OrganizationID, maximum, `hold_budgets($1, $4, $5, NULL, '', 0, $6, $2, $3)`,
		pg.Optional(c.AgentID), pg.Optional(c.KeyID), holdID)
}

// ChargeCall is like Charge, for calls without a run. It also adds the reported usage to the usage
// of the agent and the key.
func (s *Store) ChargeCall(ctx context.Context, c Call, holdID string, used Amounts, reported CallUsage) error {
	metrics, amounts := used.columns(true)
	err := s.db.Within(ctx, []string{c.OrganizationID}, func(tx *sqlx.Tx) error {
		// A new budget starts with the stored usage. The budgets are therefore opened before the
		// usage is added, so that the usage is not counted twice.
		_, err := tx.ExecContext(ctx, `SELECT settle_holds($1, $2, $3, NULL, true, $4, $5, $6)`,
			c.OrganizationID, pg.Optional(c.AgentID), pg.Optional(c.KeyID), holdID, pq.Array(metrics), pq.Array(amounts))
		if err != nil || reported == (CallUsage{}) {
			return err
		}
		return addUsage(ctx, tx, c, reported)
	})
	if err != nil {
		return fmt.Errorf("charging calls without a run: %w", err)
	}
	return nil
}

// addUsage records usage that belongs to no stored run. It adds the usage to two rows of the
// organization: that of the agent's hour, and that of the agent's and key's day.
func addUsage(ctx context.Context, tx *sqlx.Tx, c Call, reported CallUsage) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO past_usage AS p
		(org_id, hour, target_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros, took)
		VALUES ($1, date_trunc('hour', $3::timestamptz, 'UTC'), $2, 0, 0, 0, 0, 0, $4, $5, $6, '{}')
		ON CONFLICT (org_id, hour, target_id) DO UPDATE SET input_tokens = p.input_tokens + excluded.input_tokens,
		  output_tokens = p.output_tokens + excluded.output_tokens, cost_micros = p.cost_micros + excluded.cost_micros`,
		c.OrganizationID, c.AgentID, c.StartedAt, reported.InputTokens, reported.OutputTokens, reported.CostMicros)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO past_usage_by AS p
		(org_id, day, target_id, key_id, automation_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens,
		 cost_micros, sandbox_ms)
		VALUES ($1, ($3::timestamptz AT TIME ZONE 'UTC')::date, $2, $7, '', 0, 0, 0, 0, 0, $4, $5, $6, 0)
		ON CONFLICT (org_id, day, target_id, key_id, automation_id) DO UPDATE SET input_tokens = p.input_tokens + excluded.input_tokens,
		  output_tokens = p.output_tokens + excluded.output_tokens, cost_micros = p.cost_micros + excluded.cost_micros`,
		c.OrganizationID, c.AgentID, c.StartedAt, reported.InputTokens, reported.OutputTokens, reported.CostMicros, c.KeyID)
	return err
}
