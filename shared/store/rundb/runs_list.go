package rundb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/id"
)

const (
	// listedCharacters is the maximum number of characters of a question and of an answer in a
	// list.
	listedCharacters = 500

	// questionBytes is the maximum stored size of an input from which a list reads the question.
	// For a larger input, a list shows no question.
	questionBytes = 64 << 10
)

// summaryColumns returns the columns of a run that a list shows. characters is the maximum length
// of a text. summaryColumns selects one character more of the answer than is shown, so that
// truncation can be detected. It selects only the beginning of the input, because the attachments
// and the question are there. Large values stay in the database; see
// migrations/functions/run_summary.sql.
func summaryColumns(characters int) string {
	plain, attached := domain.QuestionPrefix(characters)
	return fmt.Sprintf(`r.id, r.agent_id, r.template_id, r.session_id, `+PreviousRun+`, r.trigger_type, r.automation_id, r.idempotency_key,
	r.config_version, CASE WHEN pg_column_size(r.input) <= %d THEN left(r.input::text,
	  CASE WHEN strpos(left(r.input::text, %d), '%s') > 0 THEN %d ELSE %d END) END AS input,
	coalesce(r.status, o.status, 'queued') AS status, left(r.answer, %d) AS message,
	coalesce(r.summary, run_summary(r.result)) AS summary, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
	coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at,
	CASE WHEN o.status = 'requires_action' THEN
	  (CASE WHEN octet_length(o.required_action::text) <= 2000 OR strpos(o.required_action::text, '\u0000') > 0 THEN o.required_action
	  ELSE json_build_object('kind', o.required_action->'kind', 'toolCallId', o.required_action->'toolCallId',
	    'name', o.required_action->'name', 'expiresAt', o.required_action->'expiresAt', 'input', null, 'inputCut', true) END) END AS required_action`,
		questionBytes, len(domain.UnstoredInput+domain.AttachmentsKey), domain.AttachmentsKey, attached, plain, characters+1)
}

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
	Input          sql.NullString `db:"input"` // its beginning
}

// shown converts the row to the summary in a list. The argument characters is the maximum length of
// the summary's texts.
func (row *summaryRow) shown(characters int) (domain.RunSummary, error) {
	run := domain.RunSummary{
		ID: row.ID, Status: domain.RunStatus(row.Status), AgentID: row.AgentID, TemplateID: row.TemplateID, SessionID: row.SessionID,
		PreviousRunID: NamedRun(row.PreviousRun),
		Trigger:       domain.Trigger{Type: row.TriggerType, AutomationID: row.AutomationID}, Attempts: row.Attempts, Message: row.Message,
		IdempotencyKey: row.IdempotencyKey, CreatedAt: domain.At(row.CreatedAt), StartedAt: domain.AtPtr(row.StartedAt.Time),
		FinishedAt: domain.AtPtr(row.FinishedAt.Time), ExpiresAt: domain.AtPtr(row.ExpiresAt.Time),
	}

	// The database stores an empty answer as null. Clients distinguish an empty answer from a
	// missing one, so shown returns the empty answer.
	if run.Message == nil && run.Status == domain.RunCompleted {
		run.Message = new("")
	}
	if run.AgentID != nil {
		run.AgentVersion = &row.ConfigVersion
	}
	if row.Input.Valid {
		run.Input, run.Attachments = domain.ReadQuestion(row.Input.String)
	}

	// The summary contains the fields of the result that a list shows.
	if row.Summary.Valid {
		if err := json.Unmarshal([]byte(row.Summary.String), &run); err != nil {
			return run, fmt.Errorf("reading summary of run %s: %w", row.ID, err)
		}
	}

	// The service itself has written this value. If it is unreadable, only the action is missing in
	// the summary.
	var action domain.RequiredActionSummary
	if len(row.RequiredAction) > 0 && json.Unmarshal(row.RequiredAction, &action) == nil {
		run.RequiredAction = &action
	}

	run.Truncate(characters)
	return run, nil
}

// RunFilter narrows a list of runs. A run must satisfy all conditions. Zero fields are ignored.
type RunFilter struct {
	Principals   []string // nil: all principals
	AgentID      string
	SessionID    string
	AutomationID string
	TriggerType  string
	Status       domain.RunStatus
	WaitsFor     domain.Awaited // only runs in requires_action that wait for this kind of input
	From, Until  time.Time      // bounds of the time of acceptance; Until is not included
	Before       string         // only runs older than the run with this id
	Words        string         // only finished runs whose question, answer and automation's name together contain these words
	Characters   int            // the maximum length of the texts; 0: as in a list
}

// idSkew is the maximum difference between the database's clock and the clock of any process that
// generates ids of runs.
const idSkew = time.Hour

// bounds returns the range of the ids of the filter's runs: at least since, and less than before.
// An empty string means no limit. An id contains its time, so the index on ids limits the runs that
// are read. The range is wider than From and Until by idSkew, so the statements check the times,
// too.
func (f *RunFilter) bounds() (since, before string) {
	before = f.Before
	if !f.From.IsZero() {
		since = id.First(id.Run, f.From.Add(-idSkew))
	}
	if !f.Until.IsZero() {
		if last := id.First(id.Run, f.Until.Add(idSkew)); before == "" || last < before {
			before = last
		}
	}
	return since, before
}

// ListRuns lists summaries of an organization's runs that are not erased, newest first, at most
// limit of them. It ignores Words. The summaries contain no large values; RunByID reads a whole
// run.
func (s *Store) ListRuns(ctx context.Context, org string, f RunFilter, limit int) ([]domain.RunSummary, error) {
	automation := ` $5 = ''`
	if f.AutomationID != "" { // the condition is added only if needed, so that PostgreSQL can use the index
		automation = ` ` + ofAutomation + ` = $5`
	}

	// Few runs are open. A search along all runs for the few runs that wait would read the whole
	// history.
	within, status := s.db.WithinPage, ` ($6 = '' OR coalesce(r.status, o.status) = $6) AND $13 = ''`
	if f.Status == domain.RunRequiresAction || f.WaitsFor != "" {
		within = s.within
		status = ` o.status = 'requires_action' AND ($6 IN ('', o.status))
			AND ($13 = '' OR waits_for_client(o.required_action) = ($13 = 'client')) AND r.id = ANY (ARRAY (SELECT p.run_id FROM open_runs p WHERE p.org_id = $1 AND p.status = 'requires_action'))`
	}

	since, before := f.bounds()
	characters := f.characters()
	var rows []summaryRow
	err := within(ctx, org, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT `+summaryColumns(characters)+runFrom+`WHERE r.org_id = $1
			AND ($2::text[] IS NULL OR r.principal = ANY ($2)) AND ($3 = '' OR r.agent_id = $3) AND ($4 = '' OR r.session_id = $4)
			AND`+automation+` AND`+status+` AND ($7 = '' OR r.trigger_type = $7)
			AND ($8::timestamptz IS NULL OR r.created_at >= $8) AND ($9::timestamptz IS NULL OR r.created_at < $9)
			AND ($10 = '' OR r.id < $10) AND ($11 = '' OR r.id >= $11) AND`+RunLive+`AND (r.status IS NULL OR r.result IS NOT NULL)
			ORDER BY r.id DESC LIMIT $12`,
			org, pq.Array(f.Principals), f.AgentID, f.SessionID, f.AutomationID, string(f.Status), f.TriggerType,
			optionalTime(f.From), optionalTime(f.Until), before, since, limit, string(f.WaitsFor))
	})
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	return summaries(rows, characters)
}

// characters returns the maximum length of the texts in the list.
func (f *RunFilter) characters() int { return cmp.Or(f.Characters, listedCharacters) }

// summaries converts the rows in their order.
func summaries(rows []summaryRow, characters int) (out []domain.RunSummary, err error) {
	out = make([]domain.RunSummary, len(rows))
	for i := range rows {
		if out[i], err = rows[i].shown(characters); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// within is the variant of pg.DB.Within for one organization.
func (s *Store) within(ctx context.Context, org string, f func(*sqlx.Tx) error) error {
	return s.db.Within(ctx, []string{org}, f)
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
