package agentdb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// AgentName is the part of an agent that its callers may see.
type AgentName struct {
	ID          string      `db:"id"`
	Name        string      `db:"name"`
	Description string      `db:"description"`
	CreatedAt   domain.Time `db:"created_at"`
}

// OutputSchemas returns the output schemas of the agents that CallableAgents lists, by the agents'
// ids. If all schemas together have more than maxBytes, it omits the schemas of the oldest agents.
func (s *Store) OutputSchemas(
	ctx context.Context, org string, kind domain.CallerKind, limit, maxBytes int,
) (map[string]json.RawMessage, error) {
	var rows []struct {
		ID     string `db:"id"`
		Schema []byte `db:"schema"`
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each attempt starts with an empty list.
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT id, schema FROM (
			SELECT id, schema, sum(octet_length(schema::text)) OVER (ORDER BY id DESC) AS bytes FROM (
				SELECT id, answer_settings->'outputSchema' AS schema FROM agents
				WHERE org_id = $1 AND deleted_at IS NULL AND allowed_callers @> ARRAY[$2::text]
				ORDER BY id DESC LIMIT $3) a
			WHERE json_typeof(schema) = 'object') b
			WHERE bytes <= $4`, org, kind, limit, maxBytes)
	})
	if err != nil {
		return nil, fmt.Errorf("reading output schemas: %w", err)
	}
	schemas := make(map[string]json.RawMessage, len(rows))
	for _, row := range rows {
		schemas[row.ID] = row.Schema
	}
	return schemas, nil
}

// CallableAgents lists up to limit agents of organization org that allow a kind of caller, newest
// first. They are the models of the OpenAI protocol and the tools of the MCP server.
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
