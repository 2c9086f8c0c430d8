package executiondb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// LateRun is a run that has finished before it was accepted.
type LateRun struct {
	domain.LateRun

	ConfigVersion int // of the agent with which the run was executed
	Outcome       Outcome
}

// Size is the approximate number of bytes that the run adds to a statement.
func (r LateRun) Size() int { return len(r.Input) + 1024 + r.Outcome.Size() }

// insertFinishedQuery is defined in migrations/functions/insert_finished_runs.sql.
const insertFinishedQuery = `SELECT run_id FROM insert_finished_runs($1, $2)`

// InsertFinished stores finished runs in one transaction. It returns the ids of the stored runs.
// Nothing is stored for the others, or if it returns an error, unless the reply to the commit was lost.
func (s *Store) InsertFinished(ctx context.Context, rows []LateRun) (map[string]bool, error) {
	var ids []string
	runs, organizations := lateRuns(rows)
	if err := s.lates.SelectInto(ctx, &ids, insertFinishedQuery, runs, pq.Array(organizations)); err != nil {
		return nil, fmt.Errorf("storing finished runs: %w", err)
	}
	stored := make(map[string]bool, len(ids))
	for _, id := range ids {
		stored[id] = true
	}
	return stored, nil
}

// lateRuns encodes the rows as an array of the SQL type late_run, and returns their distinct
// organizations.
func lateRuns(rows []LateRun) (runs string, organizations []string) {
	organizations = make([]string, 0, 4)
	t := pg.NewTuples(len(rows), 2048)
	for i := range rows {
		r, end := &rows[i], &rows[i].Outcome.Run
		if !slices.Contains(organizations, r.OrganizationID) {
			organizations = append(organizations, r.OrganizationID)
		}
		created := end.CreatedAt
		t.Next()
		t.Text(r.ID)
		t.Text(r.OrganizationID)
		t.Text(r.AgentID)
		t.Int(int64(r.ConfigVersion))
		t.Text(r.CallerKind)
		t.Text(r.Principal)
		t.Text(r.SessionID)
		t.Bytes(r.SessionHash)
		t.Text(r.TriggerType)
		t.Optional(r.AutomationID)
		t.Optional(r.IdempotencyKey)
		t.Bytes(r.KeyHash)
		t.Bytes(r.Fingerprint)
		t.Text(string(r.Input))
		t.Int(r.Retention)
		t.Optional(r.KeyID)
		t.Text(string(end.Status))
		t.Text(string(r.Outcome.Result))
		t.Optional(pg.Deref(end.Message))
		t.Int(end.Usage.InputTokens)
		t.Int(end.Usage.OutputTokens)
		t.Int(end.Usage.CostMicros)
		t.Time(&created)
		t.Time(end.StartedAt)
		t.Time(end.FinishedAt)
		t.Time(end.ExpiresAt)
		t.Int(int64(r.Outcome.EndN))
		t.Done()
	}
	return t.String(), organizations
}

// AgentVersion returns the current version of an agent's configuration.
func (s *Store) AgentVersion(ctx context.Context, org, agentID string) (version int, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &version, `SELECT version FROM agents WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`, agentID, org)
	})
	if err != nil {
		return 0, fmt.Errorf("reading the agent's version: %w", err)
	}
	return version, nil
}
