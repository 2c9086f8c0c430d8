package executiondb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// decisionResults is the decision that the effect ledger stores when the run's client has sent the
// result of a call. In this case no person has made a decision.
const decisionResults = "results"

// TakeResults records the results of the client's calls for which a run waits, and resumes the run.
// The argument by is the name of the sender. If principal is not empty, only that principal's runs
// are found. The request must contain the results of all calls for which the run waits.
//
// Only the first results count. For a repetition, TakeResults changes nothing and returns no error;
// for different results it returns version_conflict. The run's deadline is extended by the time for
// which the run has waited.
func (s *Store) TakeResults(
	ctx context.Context, org, principal, runID string, results []domain.ClientResult, by string,
) (Decided, error) {
	var out Decided
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		var open []openRow
		out = Decided{}
		err := tx.SelectContext(ctx, &open, openSelect+`o.run_id = $1 AND o.org_id = $2 AND ($3 = '' OR r.principal = $3) FOR UPDATE OF o`,
			runID, org, principal)
		if err != nil {
			return fmt.Errorf("locking run: %w", err)
		}
		// A run that is not open has finished, has been erased, or does not exist.
		if len(open) == 0 {
			return resultsAfterEnd(ctx, tx, org, principal, runID, results)
		}
		out.Lane = open[0].Lane
		out.Resumed, err = takeResults(ctx, tx, open[0], results, by)
		return err
	})
	if err != nil {
		return Decided{}, fmt.Errorf("taking results: %w", err)
	}

	// The run is read after the commit, so that the answer contains its new status.
	out.Run, err = s.runs.ShortRun(ctx, org, principal, runID)
	return out, err
}

// takeResults records results of calls of an open run whose row is locked, and requeues the run.
// resumed is false without an error if the same results were recorded before. Results for other
// calls, a missing result and an expired action are errors.
func takeResults(ctx context.Context, tx *sqlx.Tx, row openRow, results []domain.ClientResult, by string) (resumed bool, err error) {
	var waits []string
	action := row.Stored().Run.RequiredAction
	if action != nil && action.Kind == domain.ActionClientTools {
		waits = action.CallIDs()
	}

	// A result of another call than those for which the run waits can only repeat an earlier one.
	given := make(map[string]bool, len(results))
	for _, result := range results {
		if !slices.Contains(waits, result.ToolCallID) {
			return false, repeatedResults(ctx, tx, row.OrganizationID, row.ID, results, waits)
		}
		given[result.ToolCallID] = true
	}
	for _, call := range action.Calls {
		if !given[call.ToolCallID] {
			return false, apierr.Invalid("results", "required", "the result of the call %s of the tool %q is missing", call.ToolCallID, call.Name)
		}
	}

	// After the action has expired, no result is accepted. The sweeper will end the run as failed.
	if !row.Now.Before(action.ExpiresAt.Time) {
		return false, apierr.New(apierr.VersionConflict, "the time to send the results ended at %s", action.ExpiresAt.Format(time.RFC3339))
	}

	// One statement stores all results. The arrays of ids and outcomes are parallel.
	outcomes := make([]string, len(results))
	ids := make([]string, len(results))
	for i, result := range results {
		raw, err := storedResult(result)
		if err != nil {
			return false, err
		}
		ids[i], outcomes[i] = result.ToolCallID, string(raw)
	}
	_, err = tx.ExecContext(ctx, `UPDATE effects e SET state = 'done', outcome = u.outcome::json, decision = $5, decided_by = $6,
		decided_at = clock_timestamp()
		FROM unnest($3::text[], $4::text[]) AS u (call_id, outcome)
		WHERE e.run_id = $1 AND e.org_id = $2 AND e.call_id = u.call_id`,
		row.ID, row.OrganizationID, pq.Array(ids), pq.Array(outcomes), decisionResults, by)
	if err != nil {
		return false, fmt.Errorf("keeping results: %w", err)
	}
	return true, resume(ctx, tx, row, decisionResults)
}

// storedResult returns the JSON form in which the ledger stores a result. Equal results have equal
// forms, so that a repetition can be recognized.
func storedResult(result domain.ClientResult) ([]byte, error) {
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return raw, nil
}

// repeatedResults returns nil if the ledger has the same results. Otherwise it returns the error
// for results that the run does not wait for. The argument waits contains the ids of the calls for
// whose results the run waits.
func repeatedResults(ctx context.Context, tx *sqlx.Tx, org, runID string, results []domain.ClientResult, waits []string) error {
	ids := make([]string, len(results))
	for i, result := range results {
		ids[i] = result.ToolCallID
	}
	// Only results from the client count, not outcomes that a worker or a person has recorded.
	var rows []effectRow
	if err := tx.SelectContext(ctx, &rows, effectsSelect, runID, pq.Array(ids), org); err != nil {
		return fmt.Errorf("reading effects: %w", err)
	}
	kept := make(map[string]effectRow, len(rows))
	for _, row := range rows {
		if row.Decision.String == decisionResults {
			kept[row.CallID] = row
		}
	}

	// The error names the first result that the run neither waits for nor has. If there is none, it
	// names the first result that the run has.
	isWaited := func(result domain.ClientResult) bool { return slices.Contains(waits, result.ToolCallID) }
	at := slices.IndexFunc(results, func(result domain.ClientResult) bool { return !isWaited(result) })
	for i, result := range results {
		row, known := kept[result.ToolCallID]
		if !known && isWaited(result) {
			continue
		}
		if !known {
			at = i
			break
		}
		raw, err := storedResult(result)
		if err != nil {
			return err
		}
		if !bytes.Equal(raw, row.Outcome) {
			return apierr.New(apierr.VersionConflict, "the call %s of the tool %q already has another result", result.ToolCallID, row.Name)
		}
	}
	if len(kept) == len(results) {
		return nil
	}
	return apierr.Invalid("results["+strconv.Itoa(at)+"].toolCallId", "invalid_value", "the run does not wait for the result of this call")
}

// resultsAfterEnd checks results for a run that is not open. It returns nil for a repetition and
// for an erased run, and version_conflict if the run finished while it waited for one of the
// results. It changes nothing.
func resultsAfterEnd(ctx context.Context, tx *sqlx.Tx, org, principal, runID string, results []domain.ClientResult) error {
	erased, err := findEnded(ctx, tx, org, principal, runID)
	if err != nil || erased {
		return err
	}

	ids := make([]string, len(results))
	for i, result := range results {
		ids[i] = result.ToolCallID
	}
	var unanswered int
	err = tx.GetContext(ctx, &unanswered, `SELECT count(*) FROM effects
		WHERE run_id = $1 AND call_id = ANY ($2) AND org_id = $3 AND state = 'awaiting' AND decision IS NULL`, runID, pq.Array(ids), org)
	switch {
	case err != nil:
		return fmt.Errorf("reading effects: %w", err)
	case unanswered > 0:
		return apierr.New(apierr.VersionConflict, "the run has finished without these results")
	}
	return repeatedResults(ctx, tx, org, runID, results, nil)
}
