package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// actFor names the organizations that the rest of a transaction acts for, in place of those before: for
// transactions that learn on the way which these are.
func actFor(ctx context.Context, tx *sqlx.Tx, orgs ...string) error {
	if _, err := tx.ExecContext(ctx, `SELECT parley_act_for($1)`, pq.Array(orgs)); err != nil {
		return fmt.Errorf("naming organizations: %w", err)
	}
	return nil
}

// withinOwn is within for rows of an organization and those of a user that belong to none; either may be empty.
func (s *Store) withinOwn(ctx context.Context, org, userID string, f func(*sqlx.Tx) error) error {
	return s.within(ctx, list(org), func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT set_config('parley.user', $1, true)`, userID); err != nil {
			return fmt.Errorf("naming user: %w", err)
		}
		return f(tx)
	})
}

// as is withinOwn for what an actor does.
func (s *Store) as(ctx context.Context, who Actor, f func(*sqlx.Tx) error) error {
	return s.withinOwn(ctx, who.OrganizationID, who.UserID, f)
}

// list is the value alone, or no list at all of the empty one.
func list(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}
