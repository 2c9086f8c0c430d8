package agentdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// agentRow is a row of agentColumns. Tools and Widget are JSON, without the widget's secret.
type agentRow struct {
	ID             string         `db:"id"`
	OrganizationID string         `db:"org_id"`
	Name           string         `db:"name"`
	Description    string         `db:"description"`
	SystemPrompt   string         `db:"system_prompt"`
	Model          string         `db:"model"`
	FallbackModels pq.StringArray `db:"fallback_models"`
	Tools          []byte         `db:"tools"`
	AllowedCallers pq.StringArray `db:"allowed_callers"`
	Widget         []byte         `db:"widget"`
	WidgetSecret   string         `db:"widget_secret"`
	AnswerSettings []byte         `db:"answer_settings"`
	AppendSources  bool           `db:"append_sources"`
	Suggestions    pq.StringArray `db:"suggestions"`
	LastCheck      []byte         `db:"last_check"`
	Version        int            `db:"version"`
	CreatedAt      domain.Time    `db:"created_at"`
	UpdatedAt      domain.Time    `db:"updated_at"`
}

// agentColumns are the columns of an agentRow.
const agentColumns = `id, org_id, name, description, system_prompt, model, fallback_models, tools, allowed_callers, widget, widget_secret,
	append_sources, suggestions, answer_settings, last_check, version, created_at, updated_at`

// agent decodes the row. The secrets stay sealed.
func (row agentRow) agent() (domain.Agent, error) {
	a := domain.Agent{
		ID: row.ID, OrganizationID: row.OrganizationID, Name: row.Name, Description: row.Description,
		SystemPrompt: row.SystemPrompt, Model: row.Model, FallbackModels: row.FallbackModels, AppendSources: row.AppendSources,
		Suggestions: row.Suggestions, Version: row.Version,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}

	// The database stores the kinds as text.
	for _, kind := range row.AllowedCallers {
		a.AllowedCallers = append(a.AllowedCallers, domain.CallerKind(kind))
	}

	if err := json.Unmarshal(row.Tools, &a.Tools); err != nil {
		return domain.Agent{}, fmt.Errorf("reading tools of %s: %w", row.ID, err)
	}

	if err := json.Unmarshal(row.Widget, &a.Widget); err != nil {
		return domain.Agent{}, fmt.Errorf("reading widget of %s: %w", row.ID, err)
	}

	if err := json.Unmarshal(row.AnswerSettings, &a.AnswerSettings); err != nil {
		return domain.Agent{}, fmt.Errorf("reading answer settings of %s: %w", row.ID, err)
	}

	if row.LastCheck != nil {
		if err := json.Unmarshal(row.LastCheck, &a.LastCheck); err != nil {
			return domain.Agent{}, fmt.Errorf("reading last check of %s: %w", row.ID, err)
		}
	}

	// The secret is in a separate column, so that lists can read the widget without it.
	a.Widget.IdentitySecret = row.WidgetSecret
	return a, nil
}

// agentWrite contains the changeable fields of an agent, encoded for the database. Empty lists are
// not null.
type agentWrite struct {
	tools, widget, answer string
	callers, fallbacks    pq.StringArray
	suggestions           pq.StringArray
}

// newAgentWrite encodes the changeable fields of an agent.
func newAgentWrite(a domain.Agent) (agentWrite, error) {
	tools, err := json.Marshal(a.Tools)
	if err != nil {
		return agentWrite{}, fmt.Errorf("rendering tools: %w", err)
	}

	shown := a.Widget
	shown.IdentitySecret = "" // has a separate column
	widget, err := json.Marshal(shown)
	if err != nil {
		return agentWrite{}, fmt.Errorf("rendering widget: %w", err)
	}

	answer, err := json.Marshal(a.AnswerSettings)
	if err != nil {
		return agentWrite{}, fmt.Errorf("rendering answer settings: %w", err)
	}

	w := agentWrite{
		tools: string(tools), widget: string(widget), answer: string(answer),
		fallbacks: append(pq.StringArray{}, a.FallbackModels...), suggestions: append(pq.StringArray{}, a.Suggestions...),
	}
	for _, kind := range a.AllowedCallers {
		w.callers = append(w.callers, string(kind))
	}

	return w, nil
}

// CreateAgent stores a new agent of organization org as version 1 and returns it as stored. The
// caller provides the agent's id, validates its fields and seals its secrets.
func (s *Store) CreateAgent(ctx context.Context, org string, a domain.Agent) (domain.Agent, error) {
	var stored domain.Agent
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		w, err := newAgentWrite(a)
		if err != nil {
			return err
		}

		var row agentRow
		err = tx.GetContext(ctx, &row, `INSERT INTO agents
			(id, org_id, name, description, system_prompt, model, tools, allowed_callers, widget, fallback_models, widget_secret,
			 append_sources, answer_settings, suggestions, version)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 1) RETURNING `+agentColumns,
			a.ID, org, a.Name, a.Description, a.SystemPrompt, a.Model, w.tools, w.callers, w.widget, w.fallbacks, a.Widget.IdentitySecret,
			a.AppendSources, w.answer, w.suggestions)
		if err != nil {
			return fmt.Errorf("creating agent: %w", err)
		}

		if stored, err = row.agent(); err != nil {
			return err
		}

		return insertConfig(ctx, tx, org, stored)
	})
	return stored, err
}

// insertConfig stores the configuration that runs of the agent's current version will use. A stored
// configuration never changes, so a run that has started keeps it.
func insertConfig(ctx context.Context, tx *sqlx.Tx, org string, a domain.Agent) error {
	config, err := json.Marshal(domain.Config{
		Name: a.Name, SystemPrompt: a.SystemPrompt, Model: a.Model, FallbackModels: a.FallbackModels, Tools: a.Tools,
		AppendSources: a.AppendSources, Answer: a.AnswerSettings, PromptVariables: true,
	})
	if err != nil {
		return fmt.Errorf("rendering configuration: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO agent_configs (target_id, org_id, version, config) VALUES ($1, $2, $3, $4)`,
		a.ID, org, a.Version, config)
	if err != nil {
		return fmt.Errorf("storing configuration: %w", err)
	}
	return nil
}

// Agent returns an agent of organization org. It returns not_found if there is no such agent or it
// is deleted.
func (s *Store) Agent(ctx context.Context, org, agentID string) (domain.Agent, error) {
	var row agentRow
	err := s.db.WithinPrepared(ctx, org, agentQuery, func(stmt *sqlx.Stmt) error { return stmt.GetContext(ctx, &row, agentID, org) })
	return readAgent(row, err)
}

// agentQuery reads agent $1 of organization $2, unless it is deleted. A locking clause may follow.
const agentQuery = `SELECT ` + agentColumns + ` FROM agents WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`

// SelectAgent returns an agent that is not deleted. The argument lock is a locking clause or empty.
// SelectAgent returns not_found if the organization has no such agent.
func SelectAgent(ctx context.Context, q sqlx.QueryerContext, org, agentID, lock string) (domain.Agent, error) {
	var row agentRow
	err := sqlx.GetContext(ctx, q, &row, agentQuery+lock, agentID, org)
	return readAgent(row, err)
}

// readAgent converts the result of a query for one agent: sql.ErrNoRows becomes not_found.
func readAgent(row agentRow, err error) (domain.Agent, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Agent{}, pg.NotFound()
	}
	if err != nil {
		return domain.Agent{}, fmt.Errorf("reading agent: %w", err)
	}
	return row.agent()
}

// agentsFrom is the SQL that selects a page of the agents of organization $1 that are not deleted,
// newest first. $2 is the last id of the previous page, $3 the words of the name, and $4 the limit.
const agentsFrom = ` FROM agents WHERE org_id = $1 AND deleted_at IS NULL AND ($2 = '' OR id < $2)
	AND NOT EXISTS (SELECT FROM unnest($3::text[]) w WHERE strpos(lower(name), lower(w)) = 0) ORDER BY id DESC LIMIT $4`

// AgentSizes returns the approximate sizes, in bytes, of the agents that Agents lists, in the same
// order. The caller uses them to read no more agents than fit into memory.
func (s *Store) AgentSizes(ctx context.Context, org, q, after string, limit int) (bytes []int, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		bytes = nil
		return tx.SelectContext(ctx, &bytes, `SELECT octet_length(name) + octet_length(description) + octet_length(system_prompt)
			+ octet_length(tools::text) + octet_length(widget::text) + coalesce(octet_length(last_check::text), 0)
			+ octet_length(answer_settings::text) + octet_length(suggestions::text) + 500`+agentsFrom, org, after, pq.Array(strings.Fields(q)), limit)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sizes of agents: %w", err)
	}
	return bytes, nil
}

// Agents lists up to limit agents of organization org, newest first. The argument after, if not
// empty, is the last id of the previous page. The argument q selects the agents whose names contain
// all its words, ignoring case.
func (s *Store) Agents(ctx context.Context, org, q, after string, limit int) ([]domain.Agent, error) {
	var rows []agentRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT `+agentColumns+agentsFrom, org, after, pq.Array(strings.Fields(q)), limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing agents: %w", err)
	}

	out := make([]domain.Agent, len(rows))
	for i, row := range rows {
		if out[i], err = row.agent(); err != nil {
			return nil, err
		}
	}

	return out, nil
}

// UpdateAgent applies the function change to an agent of organization org under a lock, and returns
// the stored agent with the next version. A version other than 0 must be the current version
// (version_conflict otherwise). If change returns an error, the agent stays unchanged and
// UpdateAgent returns this error. The function change may be called again if the transaction is
// retried.
//
// UpdateAgent returns not_found if there is no such agent or it is deleted. Runs that were accepted
// before keep the old version.
func (s *Store) UpdateAgent(ctx context.Context, org, agentID string, version int, change func(*domain.Agent) error) (domain.Agent, error) {
	var stored domain.Agent
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		a, err := SelectAgent(ctx, tx, org, agentID, " FOR UPDATE")
		if err != nil {
			return err
		}

		if version != 0 && version != a.Version {
			return apierr.New(apierr.VersionConflict, "the agent %q is at version %d, not %d: read the agent again", a.Name, a.Version, version)
		}

		// The change runs under the lock, so that no concurrent change is lost.
		if err := change(&a); err != nil {
			return err
		}
		stored, err = writeAgent(ctx, tx, org, a)
		return err
	})
	return stored, err
}

// writeAgent stores an agent as its next version, together with the configuration of that
// version.
func writeAgent(ctx context.Context, tx *sqlx.Tx, org string, a domain.Agent) (domain.Agent, error) {
	w, err := newAgentWrite(a)
	if err != nil {
		return domain.Agent{}, err
	}

	var row agentRow
	err = tx.GetContext(ctx, &row, `UPDATE agents SET name = $3, description = $4, system_prompt = $5, model = $6, tools = $7,
		  allowed_callers = $8, widget = $9, fallback_models = $10, widget_secret = $11, append_sources = $12, answer_settings = $13,
		  suggestions = $14, version = version + 1, updated_at = clock_timestamp()
		WHERE id = $1 AND org_id = $2 RETURNING `+agentColumns,
		a.ID, org, a.Name, a.Description, a.SystemPrompt, a.Model, w.tools, w.callers, w.widget, w.fallbacks, a.Widget.IdentitySecret,
		a.AppendSources, w.answer, w.suggestions)
	if err != nil {
		return domain.Agent{}, fmt.Errorf("updating agent: %w", err)
	}

	// The stored agent has the new version and the times of the database.
	stored, err := row.agent()
	if err != nil {
		return domain.Agent{}, err
	}

	return stored, insertConfig(ctx, tx, org, stored)
}

// SaveCheck stores the result of a check of an agent of organization org. The agent's version does
// not change, so that clients with the current version can still change the agent. SaveCheck
// returns not_found if there is no such agent. The result of an older check never replaces a newer
// one.
func (s *Store) SaveCheck(ctx context.Context, org, agentID string, check domain.AgentCheck) error {
	raw, err := json.Marshal(check)
	if err != nil {
		return fmt.Errorf("rendering check: %w", err)
	}
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if _, err := SelectAgent(ctx, tx, org, agentID, " FOR NO KEY UPDATE"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE agents SET last_check = $3 WHERE id = $1 AND org_id = $2
			AND (last_check IS NULL OR (last_check ->> 'checkedAt')::timestamptz <= $4)`, agentID, org, string(raw), check.CheckedAt.Time)
		if err != nil {
			return fmt.Errorf("saving check: %w", err)
		}
		return nil
	})
}

// DeleteAgent deletes an agent of organization org. It returns not_found if there is no such agent.
// DeleteAgent calls each check with the current version, and does not delete the agent if a check
// returns an error. The agent's row is kept for its runs. The caller cancels the agent's queued
// runs.
func (s *Store) DeleteAgent(ctx context.Context, org, agentID string, checks ...func(version int) error) error {
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		a, err := SelectAgent(ctx, tx, org, agentID, " FOR UPDATE")
		// The checks run under the lock, so the version cannot change after the checks.
		for _, check := range checks {
			if err == nil {
				err = check(a.Version)
			}
		}

		if err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, `UPDATE agents SET deleted_at = clock_timestamp() WHERE id = $1 AND org_id = $2`, agentID, org)
		if err != nil {
			return fmt.Errorf("deleting agent: %w", err)
		}

		return nil
	})
}
