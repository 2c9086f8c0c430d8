package agentdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// templateRow is a row of templateColumns.
type templateRow struct {
	ID                string         `db:"id"`
	Name              string         `db:"name"`
	Description       string         `db:"description"`
	SystemPrompt      string         `db:"system_prompt"`
	Model             string         `db:"model"`
	Tools             []byte         `db:"tools"`
	SuggestedMessages pq.StringArray `db:"suggested_messages"`
	Version           int            `db:"version"`
}

// templateColumns are the columns of a templateRow.
const templateColumns = `id, name, description, system_prompt, model, tools, suggested_messages, version`

// template decodes the row.
func (row templateRow) template() (domain.Template, error) {
	t := domain.Template{
		ID: row.ID, Name: row.Name, Description: row.Description, SystemPrompt: row.SystemPrompt,
		Model: row.Model, SuggestedMessages: row.SuggestedMessages, Version: row.Version,
	}
	if err := json.Unmarshal(row.Tools, &t.Tools); err != nil {
		return domain.Template{}, fmt.Errorf("reading tools of %s: %w", row.ID, err)
	}
	return t, nil
}

// Templates lists all templates in their configured order. They are the same for all organizations.
func (s *Store) Templates(ctx context.Context) ([]domain.Template, error) {
	var rows []templateRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+templateColumns+` FROM templates ORDER BY position, id`)
	if err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	out := make([]domain.Template, len(rows))
	for i, row := range rows {
		if out[i], err = row.template(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Template returns a template by id. It returns not_found if there is none.
func (s *Store) Template(ctx context.Context, templateID string) (domain.Template, error) {
	var row templateRow
	err := s.db.GetContext(ctx, &row, `SELECT `+templateColumns+` FROM templates WHERE id = $1`, templateID)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Template{}, pg.NotFound()
	}
	if err != nil {
		return domain.Template{}, fmt.Errorf("reading template: %w", err)
	}
	return row.template()
}

// SyncTemplates stores these templates in this order. It needs a store opened with OpenOwner,
// because the service's role may not write templates. A changed template gets the next version
// and a configuration for it. Templates that are not in the list stay, because a process of an
// older or newer build may still offer them.
func (s *Store) SyncTemplates(ctx context.Context, templates []domain.Template) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		// Because of the lock, processes that start concurrently write their templates one after
		// the other.
		if _, err := tx.ExecContext(ctx, `LOCK TABLE templates IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return fmt.Errorf("locking templates: %w", err)
		}
		for i, t := range templates {
			if err := syncTemplate(ctx, tx, i, t); err != nil {
				return fmt.Errorf("storing template %s: %w", t.ID, err)
			}
		}
		return nil
	})
}

// syncTemplateQuery inserts or changes a template and returns its version. A template's version
// rises when any field except its position changes.
const syncTemplateQuery = `
INSERT INTO templates AS t (id, position, name, description, system_prompt, model, tools, suggested_messages, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)
ON CONFLICT (id) DO UPDATE SET position = EXCLUDED.position, name = EXCLUDED.name, description = EXCLUDED.description,
  system_prompt = EXCLUDED.system_prompt, model = EXCLUDED.model, tools = EXCLUDED.tools,
  suggested_messages = EXCLUDED.suggested_messages, version = t.version + CASE WHEN
    (t.name, t.description, t.system_prompt, t.model, t.tools, t.suggested_messages) IS DISTINCT FROM
    (EXCLUDED.name, EXCLUDED.description, EXCLUDED.system_prompt, EXCLUDED.model, EXCLUDED.tools, EXCLUDED.suggested_messages)
    THEN 1 ELSE 0 END
RETURNING version`

// syncTemplate stores a template at its position in the list, and the configuration of its
// version.
func syncTemplate(ctx context.Context, tx *sqlx.Tx, position int, t domain.Template) error {
	tools, err := json.Marshal(t.Tools)
	if err != nil {
		return fmt.Errorf("rendering tools: %w", err)
	}

	var version int
	err = tx.GetContext(ctx, &version, syncTemplateQuery, t.ID, position, t.Name, t.Description, t.SystemPrompt, t.Model,
		string(tools), pq.Array(t.SuggestedMessages))
	if err != nil {
		return fmt.Errorf("writing row: %w", err)
	}

	// An unchanged template already has a stored configuration for its version.
	config, err := json.Marshal(domain.Config{Name: t.Name, SystemPrompt: t.SystemPrompt, Model: t.Model, Tools: t.Tools})
	if err != nil {
		return fmt.Errorf("rendering configuration: %w", err)
	}

	_, err = tx.ExecContext(ctx, `INSERT INTO agent_configs (target_id, version, config) VALUES ($1, $2, $3)
		ON CONFLICT (target_id, version) DO NOTHING`, t.ID, version, config)
	if err != nil {
		return fmt.Errorf("storing configuration: %w", err)
	}

	return nil
}
