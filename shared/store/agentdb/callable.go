package agentdb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// AgentName is an agent as its callers see it.
type AgentName struct {
	ID          string      `db:"id"`
	Name        string      `db:"name"`
	Description string      `db:"description"`
	CreatedAt   domain.Time `db:"created_at"`
}

// CallableAgents lists up to limit agents of organization org that allow a kind of
// caller, newest first.
func (s *Store) CallableAgents(ctx context.Context, org string, kind domain.CallerKind, limit int) ([]AgentName, error) {
	var agents []AgentName
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		agents = nil
		return tx.SelectContext(ctx, &agents, `SELECT id, name, description, created_at FROM agents
			WHERE org_id = $1 AND deleted_at IS NULL AND allowed_callers @> ARRAY[$2::text]
			ORDER BY id DESC LIMIT $3`, org, kind, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing agents that may be called: %w", err)
	}
	return agents, nil
}
