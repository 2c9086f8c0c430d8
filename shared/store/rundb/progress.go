package rundb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// Progress is the usage and the tool calls of an open run so far, as recorded in its journal and
// effect ledger.
type Progress struct {
	Usage            domain.Usage
	ToolCalls        []domain.ToolCall
	CitationsRemoved int

	// undecided contains the indexes in ToolCalls of the calls that were sent, have no stored
	// outcome, and do not wait for a person.
	undecided []int
}

// recorded is the part of a journal step that Progress needs. Package agentloop writes the steps.
type recorded struct {
	Turn *struct {
		Model            string       `json:"model"`
		Usage            domain.Usage `json:"usage"`
		CostMicros       int64        `json:"costMicros"`
		CitationsRemoved int          `json:"citationsRemoved"`
	} `json:"turn"`
	Tool *struct {
		Call domain.ToolCall `json:"call"`
	} `json:"tool"`
}

// Progress reads the usage and the tool calls of a run so far. A run without steps has the zero
// Progress.
func (s *Store) Progress(ctx context.Context, org, runID string) (Progress, error) {
	var all map[string]*Progress
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		all, err = ReadProgress(ctx, tx, []string{org}, []string{runID})
		return err
	})
	if err != nil {
		return Progress{}, fmt.Errorf("reading a run's progress: %w", err)
	}
	return *all[runID], nil
}

// progressBytes returns the number of bytes that ReadProgress would read for a run.
func progressBytes(ctx context.Context, tx *sqlx.Tx, org, runID string) (bytes int, err error) {
	err = tx.GetContext(ctx, &bytes, `SELECT
		(SELECT coalesce(sum(octet_length(step::text)), 0) FROM steps WHERE run_id = $1 AND org_id = $2) +
		(SELECT coalesce(sum(octet_length(input::text) + coalesce(octet_length(outcome::text), 0)), 0) FROM effects
			WHERE run_id = $1 AND org_id = $2 AND sent_at IS NOT NULL)`, runID, org)
	return bytes, err
}

// ReadProgress reads the progress of runs, with an entry for each run. It skips unreadable steps,
// because they must not prevent a run from ending.
func ReadProgress(ctx context.Context, tx *sqlx.Tx, orgs, runs []string) (map[string]*Progress, error) {
	// A run without steps keeps the zero Progress.
	all := make(map[string]*Progress, len(runs))
	for _, id := range runs {
		all[id] = &Progress{}
	}

	var steps []struct {
		RunID string `db:"run_id"`
		Step  []byte `db:"step"`
	}
	if err := tx.SelectContext(ctx, &steps, `SELECT run_id, step FROM steps WHERE run_id = ANY ($1) AND org_id = ANY ($2)
		ORDER BY run_id, n`, pq.Array(runs), pq.Array(orgs)); err != nil {
		return nil, err
	}

	// A step is either a turn or a finished tool call. recordedCalls contains the calls, so that
	// their effects are not added again.
	recordedCalls := map[string]bool{}
	for _, row := range steps {
		var step recorded
		if json.Unmarshal(row.Step, &step) != nil {
			continue
		}
		p := all[row.RunID]
		if turn := step.Turn; turn != nil {
			// The last turn determines the model, because a run may have switched to a fallback.
			p.Usage.Model = turn.Model
			p.Usage.InputTokens += turn.Usage.InputTokens
			p.Usage.OutputTokens += turn.Usage.OutputTokens
			p.Usage.CostMicros += turn.CostMicros
			p.CitationsRemoved += turn.CitationsRemoved
		}
		if step.Tool != nil {
			p.ToolCalls = append(p.ToolCalls, step.Tool.Call)
			recordedCalls[row.RunID+" "+step.Tool.Call.ID] = true
		}
	}

	return all, sent(ctx, tx, orgs, runs, all, recordedCalls)
}

// sent adds the calls that may have been sent but are not recorded in a step. A run that ends now
// must include these calls in its result. recordedCalls contains the calls that steps record, as
// the run's id, a space, and the call's id.
func sent(ctx context.Context, tx *sqlx.Tx, orgs, runs []string, all map[string]*Progress, recordedCalls map[string]bool) error {
	var effects []struct {
		RunID   string `db:"run_id"`
		CallID  string `db:"call_id"`
		Name    string `db:"name"`
		State   string `db:"state"`
		Input   []byte `db:"input"`
		Outcome []byte `db:"outcome"`
	}
	if err := tx.SelectContext(ctx, &effects, `SELECT run_id, call_id, name, state, input, outcome FROM effects
		WHERE run_id = ANY ($1) AND org_id = ANY ($2) AND sent_at IS NOT NULL ORDER BY run_id, sent_at, call_id`,
		pq.Array(runs), pq.Array(orgs)); err != nil {
		return err
	}

	// A step is written after the effect of its call. If a worker died in between, only the effect
	// exists.
	for _, e := range effects {
		if recordedCalls[e.RunID+" "+e.CallID] {
			continue
		}

		// A call without a known outcome counts as failed.
		call := domain.ToolCall{
			ID: e.CallID, Name: e.Name, Status: "failed", Input: e.Input, Output: json.RawMessage(`{"error":"The outcome of this call is unknown."}`),
		}

		var outcome struct {
			Output  json.RawMessage `json:"output"`
			Failure *struct {
				Message string `json:"message"`
			} `json:"failure"`
		}
		if e.State == string(domain.EffectDone) && json.Unmarshal(e.Outcome, &outcome) == nil && outcome.Failure == nil {
			call.Status, call.Output = "completed", outcome.Output
		}
		p := all[e.RunID]
		if e.State == string(domain.EffectSending) || e.State == string(domain.EffectReady) {
			p.undecided = append(p.undecided, len(p.ToolCalls))
		}
		p.ToolCalls = append(p.ToolCalls, call)
	}

	return nil
}

// Show overwrites the corresponding fields of a run object with the progress.
func (p *Progress) Show(run *domain.Run) {
	run.Usage, run.ToolCalls, run.CitationsRemoved = p.Usage, p.ToolCalls, p.CitationsRemoved
}

// showOpen is Show for a run that has not finished. While a worker executes the run, a sent call
// without an outcome is running. In every other status, its outcome is unknown.
func (p *Progress) showOpen(run *domain.Run) {
	p.Show(run)
	if run.Status != domain.RunRunning {
		return
	}

	for _, i := range p.undecided {
		run.ToolCalls[i].Status, run.ToolCalls[i].Output = "running", nil
	}
}
