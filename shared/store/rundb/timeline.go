package rundb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// TimelineBytes returns the approximate number of bytes that Timeline reads. It returns the same
// errors as Timeline. The caller uses it to reserve memory before it calls Timeline.
func (s *Store) TimelineBytes(ctx context.Context, org, principal, runID string) (bytes int, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &bytes, `SELECT octet_length(r.input::text) + coalesce((
			SELECT sum(octet_length((`+tracedColumns+`)::text)) FROM steps WHERE run_id = r.id AND org_id = $2), 0)`+runFrom+
			`WHERE r.id = $1 AND r.org_id = $2 AND ($3 = '' OR r.principal = $3) AND`+RunLive, runID, org, principal)
	})
	return bytes, pg.OneRow(err, "reading the size of a timeline")
}

// Timeline returns the timeline of a run. The timeline of an open run ends at the current time. If
// principal is not empty, only that principal's runs are found. Timeline returns not_found if the
// run does not exist, has expired or belongs to another organization. If erased is true, the run
// was erased and its timeline must not be shown.
func (s *Store) Timeline(ctx context.Context, org, principal, runID string) (of domain.Timeline, erased bool, err error) {
	var seen trace
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		seen = trace{}
		// All reads use one snapshot. Otherwise a finished run could seem to have a running
		// attempt.
		if _, err := tx.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &seen.run, `SELECT `+shortColumns+`, `+outcomeColumn+`, r.input, o.parked_at, clock_timestamp() AS db_now`+runFrom+
			`WHERE r.id = $1 AND r.org_id = $2 AND ($3 = '' OR r.principal = $3) AND`+RunLive, runID, org, principal); err != nil {
			return err
		}
		if err := seen.read(ctx, tx, org, runID); err != nil {
			return err
		}
		return seen.readAnswer(ctx, tx, org, runID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Timeline{}, false, pg.NotFound()
	}
	if err != nil {
		return domain.Timeline{}, false, fmt.Errorf("reading timeline: %w", err)
	}

	of = domain.Timeline{RunID: runID, Status: domain.RunStatus(seen.run.Status), Spans: seen.spans()}
	var input domain.Input
	if err := json.Unmarshal(seen.run.Input, &input); err != nil {
		return domain.Timeline{}, false, fmt.Errorf("reading a run's input: %w", err)
	}

	of.Input = input.Shown()
	return of, seen.run.Stored().Erased, nil
}

// trace contains all records about the execution of a run, as they were at one moment. spanBuilder
// converts it to spans.
type trace struct {
	run     tracedRun
	notes   []tracedNote // ordered by fence
	steps   []tracedStep // in order
	effects map[string]tracedEffect
	answer  string // the text of the last turn of a completed run, possibly truncated
}

// tracedRun is a run with the times that a timeline needs. Its field Result contains the value of
// outcomeColumn.
type tracedRun struct {
	RunRow
	Input    []byte       `db:"input"`
	ParkedAt sql.NullTime `db:"parked_at"` // start of the current wait for a person
	Now      time.Time    `db:"db_now"`    // the database's current time, which is the end of an open run's timeline
}

// tracedNote is a row of run_attempts.
type tracedNote struct {
	Fence   int64             `db:"fence"`
	Kind    domain.SpanKind   `db:"kind"`
	Attempt int               `db:"attempt"`
	BeganAt time.Time         `db:"began_at"`
	EndedAt sql.NullTime      `db:"ended_at"` // null: the end is not recorded
	Status  domain.SpanStatus `db:"status"`
	Code    string            `db:"code"` // code of the attempt's error, or the reason why a wait ended
	Message string            `db:"message"`
	CallID  string            `db:"call_id"` // the tool call for which the run waited

	ProviderStatus  sql.NullInt64 `db:"provider_status"` // status of the provider's refusal in the attempt; null: none
	ProviderMessage string        `db:"provider_message"`
}

// refusal returns the provider's refusal in the attempt, or nil.
func (n tracedNote) refusal() *domain.ProviderError {
	if !n.ProviderStatus.Valid {
		return nil
	}
	return &domain.ProviderError{Status: int(n.ProviderStatus.Int64), Message: n.ProviderMessage}
}

// tracedStep contains the fields of a journal step that a timeline needs. Package agentloop writes
// the steps.
type tracedStep struct {
	fence int64       // fence of the attempt that wrote the step
	at    time.Time   // time at which the step was written, which is the end of its work
	Turn  *tracedTurn `json:"turn"`
	Tool  *struct {
		Call domain.ToolCall `json:"call"`
	} `json:"tool"`
}

// tracedTurn is a finished model call and the tool calls that it requested.
type tracedTurn struct {
	Model      string       `json:"model"`
	Usage      domain.Usage `json:"usage"`
	CostMicros int64        `json:"costMicros"`
	ToolCalls  []tracedCall `json:"toolCalls"`
	Text       string       `json:"text"`
	Characters int          `json:"characters"` // length of the whole text; only set if Text is truncated
}

// characters returns the number of characters of the whole text.
func (t *tracedTurn) characters() int { return max(t.Characters, utf8.RuneCountInString(t.Text)) }

// tracedCall is a tool call that a turn requested.
type tracedCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// tracedEffect is a call in the effect ledger. SentAt is null if the call was never sent.
type tracedEffect struct {
	CallID string       `db:"call_id"`
	Name   string       `db:"name"`
	SentAt sql.NullTime `db:"sent_at"`
}

// tracedColumns selects the part of a large step that a timeline needs. Texts are truncated, and
// the inputs and outputs of tools are not read, except for the short output of a failed call. A
// step that contains U+0000, for example from the output of a program, is selected whole, because
// PostgreSQL cannot parse it.
var tracedColumns = fmt.Sprintf(`CASE WHEN octet_length(step::text) <= 8192 OR strpos(step::text, '\u0000') > 0 THEN step ELSE json_build_object(
	'turn', CASE WHEN json_typeof(step->'turn') = 'object' THEN json_build_object('model', step->'turn'->'model',
	  'text', left(step->'turn'->>'text', %d), 'characters', coalesce(char_length(step->'turn'->>'text'), 0),
	  'usage', step->'turn'->'usage',
	  'costMicros', coalesce(step->'turn'->'costMicros', '0'), 'toolCalls', (
	    SELECT coalesce(json_agg(json_build_object('id', c->'id', 'name', c->'name')), '[]') FROM json_array_elements(
	      CASE json_typeof(step->'turn'->'toolCalls') WHEN 'array' THEN step->'turn'->'toolCalls' ELSE '[]' END) c)) END,
	'tool', CASE WHEN json_typeof(step->'tool') = 'object' THEN json_build_object('call', json_build_object(
	  'id', step->'tool'->'call'->'id', 'name', step->'tool'->'call'->'name', 'status', step->'tool'->'call'->'status',
	  'durationMs', step->'tool'->'call'->'durationMs',
	  'output', CASE WHEN octet_length((step->'tool'->'call'->'output')::text) <= 8192 THEN step->'tool'->'call'->'output' END)) END) END`, domain.MaxSpanText+1)

// outcomeColumn selects the result of a run. If the result is large, it selects the stored summary
// instead.
const outcomeColumn = `CASE WHEN octet_length(r.result) <= 65536 THEN r.result ELSE coalesce(r.summary, run_summary(r.result))::text END AS result`

// read reads all data of the trace except the run's own row. An erased run has only that row.
func (s *trace) read(ctx context.Context, tx *sqlx.Tx, org, runID string) error {
	err := tx.SelectContext(ctx, &s.notes, `SELECT fence, kind, attempt, began_at, ended_at, coalesce(status, '') AS status,
		coalesce(code, '') AS code, coalesce(message, '') AS message, coalesce(call_id, '') AS call_id,
		provider_status, coalesce(provider_message, '') AS provider_message
		FROM run_attempts WHERE run_id = $1 AND org_id = $2 ORDER BY fence`, runID, org)
	if err != nil {
		return err
	}

	var effects []tracedEffect
	err = tx.SelectContext(ctx, &effects, `SELECT call_id, name, sent_at FROM effects WHERE run_id = $1 AND org_id = $2`, runID, org)
	if err != nil {
		return err
	}

	s.effects = make(map[string]tracedEffect, len(effects))
	for _, e := range effects {
		s.effects[e.CallID] = e
	}

	var steps []struct {
		Fence int64     `db:"fence"`
		Step  []byte    `db:"step"`
		At    time.Time `db:"created_at"`
	}

	err = tx.SelectContext(ctx, &steps, `SELECT fence, `+tracedColumns+` AS step, created_at FROM steps WHERE run_id = $1 AND org_id = $2 ORDER BY n`,
		runID, org)
	if err != nil {
		return err
	}

	for _, row := range steps {
		step := tracedStep{fence: row.Fence, at: row.At}
		if json.Unmarshal(row.Step, &step) == nil && (step.Turn != nil || step.Tool != nil) { // as in ReadProgress
			s.steps = append(s.steps, step)
		}
	}

	return nil
}

// turnGap is the number of characters that separate the texts of two turns in an answer.
const turnGap = 2

// readAnswer reads the text of the turn that completed the run. That turn is not in the journal, so
// its text is taken from the run's answer. The answer contains the texts of all turns, or only the
// text of the last turn if the run has an output contract.
func (s *trace) readAnswer(ctx context.Context, tx *sqlx.Tx, org, runID string) error {
	if domain.RunStatus(s.run.Status) != domain.RunCompleted {
		return nil
	}

	first, before := "", 0
	for _, step := range s.steps {
		if step.Turn == nil || step.Turn.Text == "" {
			continue
		}
		if before == 0 {
			first, _ = domain.FirstRunes(step.Turn.Text, domain.MaxSpanText)
			first, _, _ = strings.Cut(first, "\x00") // PostgreSQL has no U+0000
		}
		before += step.Turn.characters() + turnGap
	}

	return tx.GetContext(ctx, &s.answer, `SELECT coalesce(substr(answer, CASE WHEN starts_with(answer, $3) THEN $4::int ELSE 0 END + 1, $5), '')
		FROM runs WHERE id = $1 AND org_id = $2`, runID, org, first, before, domain.MaxSpanText+1)
}

// outcome contains the fields of a finished run's object that a timeline needs.
type outcome struct {
	Usage     domain.Usage     `json:"usage"`
	Error     *domain.RunError `json:"error"`
	StartedAt *domain.Time     `json:"startedAt"`
}

// outcome returns the outcome of a run. If the run is open, only StartedAt is set.
func (r tracedRun) outcome() outcome {
	// An open run has no result, and StartedAt comes from its row.
	var out outcome
	if r.Result.Valid {
		// The service itself has written this value. If it is unreadable, the timeline is returned
		// without some numbers.
		_ = json.Unmarshal([]byte(r.Result.String), &out)
	}
	if r.StartedAt.Valid {
		out.StartedAt = domain.AtPtr(r.StartedAt.Time)
	}
	return out
}
