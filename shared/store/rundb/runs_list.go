package rundb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// summaryColumns are the columns of a run that a list shows. The message has one character more
// than is shown, so that a truncated message can be recognized. Large values stay in the database;
// see migrations/functions/run_summary.sql.
const summaryColumns = `r.id, r.agent_id, r.template_id, r.session_id, ` + PreviousRun + `, r.trigger_type, r.automation_id, r.idempotency_key,
	r.config_version,
	coalesce(r.status, o.status, 'queued') AS status, left(r.answer, 501) AS message,
	coalesce(r.summary, run_summary(r.result)) AS summary, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
	coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at,
	CASE WHEN o.status = 'requires_action' THEN
	  (CASE WHEN octet_length(o.required_action::text) <= 2000 OR strpos(o.required_action::text, '\u0000') > 0 THEN o.required_action
	  ELSE json_build_object('kind', o.required_action->'kind', 'toolCallId', o.required_action->'toolCallId',
	    'name', o.required_action->'name', 'expiresAt', o.required_action->'expiresAt', 'input', null, 'inputCut', true) END) END AS required_action`

// summaryRow is a row of summaryColumns.
type summaryRow struct {
	ID             string         `db:"id"`
	AgentID        *string        `db:"agent_id"`
	TemplateID     *string        `db:"template_id"`
	SessionID      string         `db:"session_id"`
	PreviousRun    *string        `db:"previous_run"`
	TriggerType    string         `db:"trigger_type"`
	AutomationID   *string        `db:"automation_id"`
	IdempotencyKey *string        `db:"idempotency_key"`
	Status         string         `db:"status"`
	Message        *string        `db:"message"`
	Summary        sql.NullString `db:"summary"` // set for a finished run
	Attempts       int            `db:"attempts"`
	CreatedAt      time.Time      `db:"created_at"`
	StartedAt      sql.NullTime   `db:"started_at"`
	FinishedAt     sql.NullTime   `db:"finished_at"`
	ExpiresAt      sql.NullTime   `db:"expires_at"`
	RequiredAction []byte         `db:"required_action"`
	ConfigVersion  int            `db:"config_version"`
}

// shown converts the row. The database stores the empty message of a completed run as null.
func (row *summaryRow) shown() (domain.RunSummary, error) {
	run := domain.RunSummary{
		ID: row.ID, Status: domain.RunStatus(row.Status), AgentID: row.AgentID, TemplateID: row.TemplateID, SessionID: row.SessionID,
		PreviousRunID: NamedRun(row.PreviousRun),
		Trigger:       domain.Trigger{Type: row.TriggerType, AutomationID: row.AutomationID}, Attempts: row.Attempts, Message: row.Message,
		IdempotencyKey: row.IdempotencyKey, CreatedAt: domain.At(row.CreatedAt), StartedAt: domain.AtPtr(row.StartedAt.Time),
		FinishedAt: domain.AtPtr(row.FinishedAt.Time), ExpiresAt: domain.AtPtr(row.ExpiresAt.Time),
	}

	// Clients distinguish an empty answer from a missing answer.
	if run.Message == nil && run.Status == domain.RunCompleted {
		run.Message = new("")
	}
	if run.AgentID != nil {
		run.AgentVersion = &row.ConfigVersion
	}

	// The summary contains the fields of the result that a list shows.
	if row.Summary.Valid {
		if err := json.Unmarshal([]byte(row.Summary.String), &run); err != nil {
			return run, fmt.Errorf("reading summary of run %s: %w", row.ID, err)
		}
	}

	// The service itself has written the value. If it is unreadable, only the action is missing in
	// the summary.
	var action domain.RequiredActionSummary
	if len(row.RequiredAction) > 0 && json.Unmarshal(row.RequiredAction, &action) == nil {
		run.RequiredAction = &action
	}

	run.CutSummary()
	return run, nil
}

// RunFilter narrows a list of runs. Zero fields are ignored.
type RunFilter struct {
	Principals   []string // nil: all principals
	AgentID      string
	SessionID    string
	AutomationID string
	Status       domain.RunStatus
	Before       string // only runs older than the run with this id
}

// ListRuns lists summaries of up to limit runs of an organization that are not
// erased, newest first.
func (s *Store) ListRuns(ctx context.Context, org string, f RunFilter, limit int) ([]domain.RunSummary, error) {
	automation := ` $5 = ''`
	if f.AutomationID != "" { // a separate condition, so that PostgreSQL can use the index
		automation = ` ` + ofAutomation + ` = $5`
	}

	// Open runs are few. A search along all runs for the few that wait would read the whole history.
	within, status := s.db.WithinPage, ` ($6 = '' OR coalesce(r.status, o.status) = $6)`
	if f.Status == domain.RunRequiresAction {
		within = s.within
		status = ` o.status = $6 AND r.id = ANY (ARRAY (SELECT p.run_id FROM open_runs p WHERE p.org_id = $1 AND p.status = 'requires_action'))`
	}

	var rows []summaryRow
	err := within(ctx, org, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT `+summaryColumns+runFrom+`WHERE r.org_id = $1
			AND ($2::text[] IS NULL OR r.principal = ANY ($2)) AND ($3 = '' OR r.agent_id = $3) AND ($4 = '' OR r.session_id = $4)
			AND`+automation+` AND`+status+`
			AND ($7 = '' OR r.id < $7) AND`+RunLive+`AND (r.status IS NULL OR r.result IS NOT NULL) ORDER BY r.id DESC LIMIT $8`,
			org, pq.Array(f.Principals), f.AgentID, f.SessionID, f.AutomationID, string(f.Status), f.Before, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}

	out := make([]domain.RunSummary, len(rows))
	for i := range rows {
		if out[i], err = rows[i].shown(); err != nil {
			return nil, err
		}
	}

	return out, nil
}

// within is pg.DB.Within for one organization.
func (s *Store) within(ctx context.Context, org string, f func(*sqlx.Tx) error) error {
	return s.db.Within(ctx, []string{org}, f)
}
