package executiondb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// The errors of runs whose required action was abandoned or not decided in time.
var (
	OutcomeAbandoned = &domain.RunError{
		Code: "outcome_unknown_abandoned", Message: "The outcome of a call is unknown, and a person abandoned the run.",
	}
	ActionExpired = &domain.RunError{Code: "action_expired", Message: "The required action was not decided in time."}
)

// Decided is the result of recording a decision, or of recording the results of a client's calls.
// If Ended is set, the run has ended, and the caller publishes its end. If Resumed is set, the run
// continues and waits for a slot of Lane. If neither is set, the same decision was already made
// before.
type Decided struct {
	Run     rundb.StoredRun // as ShortRun reads it
	Ended   []Ended
	Resumed bool
	Lane    domain.Lane
}

// Decide records a decision about the action that a run waits for. The argument by is the name of
// the person who decides. If principal is not empty, only that principal's runs are found.
//
// Only the first decision counts. For a repetition, Decide changes nothing and returns no error;
// for a different decision it returns version_conflict. The run's deadline is extended by the time
// for which the run has waited.
//
// Decide returns not_found for an unknown run, and version_conflict after the action has expired.
// It returns conflict for a decision that the kind of action does not allow.
func (s *Store) Decide(
	ctx context.Context, org, principal, runID, callID string, decision domain.Decision, by string,
) (Decided, error) {
	var out Decided
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// The row lock makes decisions about one run take effect in sequence, and keeps the sweeper
		// from ending the run in between.
		var open []openRow
		out = Decided{}
		err := tx.SelectContext(ctx, &open, openSelect+`o.run_id = $1 AND o.org_id = $2 AND ($3 = '' OR r.principal = $3) FOR UPDATE OF o`,
			runID, org, principal)
		if err != nil {
			return fmt.Errorf("locking run: %w", err)
		}

		if len(open) > 0 {
			out.Lane = open[0].Lane
			out.Ended, out.Resumed, err = decideOpen(ctx, tx, open[0], callID, decision, by)
			return err
		}

		// A run that is not open has finished, has been erased, or does not exist.
		return decideEnded(ctx, tx, org, principal, runID, callID, decision)
	})
	if err != nil {
		return Decided{}, fmt.Errorf("deciding: %w", err)
	}

	// The run is read after the commit, because the decision may have ended it.
	out.Run, err = s.runs.ShortRun(ctx, org, principal, runID)
	return out, err
}

// decideOpen decides about a call of an open run whose row is locked. ended is set if the run was
// abandoned, and resumed if it continues. If both are unset without an error, the decision is a
// repetition.
func decideOpen(
	ctx context.Context, tx *sqlx.Tx, row openRow, callID string, decision domain.Decision, by string,
) (ended []Ended, resumed bool, err error) {
	// The effect is locked after its run. Parking a run locks both in this order, too.
	var effect []effectRow
	if err := tx.SelectContext(ctx, &effect, effectSelect+` FOR UPDATE`, row.ID, callID, row.OrganizationID); err != nil {
		return nil, false, fmt.Errorf("reading effect: %w", err)
	}

	// The run may wait for a decision about another call, or for no decision. In either case, this
	// decision can only be a repetition.
	action := row.Stored().Run.RequiredAction
	if action == nil || action.ToolCallID != callID || len(effect) == 0 {
		return nil, false, checkRepeated(effect, decision)
	}

	// An action requests either an approval or the outcome of a call. Each of these kinds has its
	// own decisions.
	if !action.Kind.Takes(decision) {
		if effect[0].Decision.String == string(decision) {
			return nil, false, nil // a repetition of the decision about an earlier action of this call
		}
		return nil, false, apierr.New(apierr.Conflict, "the run waits for %s; the possible decisions are %s",
			action.Kind, joinDecisions(action.Kind.Decisions()))
	}

	// After the action has expired, no decision is accepted. The sweeper will end the run as
	// failed.
	if !row.Now.Before(action.ExpiresAt.Time) {
		return nil, false, apierr.New(apierr.VersionConflict, "the time to decide about the call of %q ended at %s; start a new run",
			action.Name, action.ExpiresAt.Format(time.RFC3339))
	}

	// After the decision to resend, the call is sent as if for the first time, so the time of its
	// first sending is removed.
	// An empty new state keeps the state of the effect.
	_, err = tx.ExecContext(ctx, `UPDATE effects SET state = coalesce(nullif($4, ''), state), decision = $5, decided_by = $6,
		decided_at = clock_timestamp(), sent_at = CASE WHEN $5 = 'resend' THEN NULL ELSE sent_at END
		WHERE run_id = $1 AND call_id = $2 AND org_id = $3`,
		row.ID, callID, row.OrganizationID, string(decided(decision)), string(decision), by)
	if err != nil {
		return nil, false, fmt.Errorf("keeping decision: %w", err)
	}

	// The decision to abandon fails the run. After every other decision the run continues.
	if decision == domain.DecisionAbandon {
		ended, err = closeRuns(ctx, tx, []openRow{row}, endAs(domain.RunFailed, OutcomeAbandoned))
		return ended, false, err
	}

	return nil, true, resume(ctx, tx, row, string(decision))
}

// joinDecisions joins decisions into a list for an error message.
func joinDecisions(decisions []domain.Decision) string {
	words := make([]string, len(decisions))
	for i, decision := range decisions {
		words[i] = string(decision)
	}
	return strings.Join(words, ", ")
}

// decided returns the state of an effect after a decision, or "" if the state does not change.
func decided(decision domain.Decision) domain.EffectState {
	switch decision {
	case domain.DecisionApprove, domain.DecisionResend:
		return domain.EffectReady
	case domain.DecisionDeny:
		return domain.EffectDenied
	case domain.DecisionHappened:
		return domain.EffectHappened
	default:
		return ""
	}
}

// resume requeues a parked run, records how long it waited, and adds that time to its deadline.
// decision is recorded in the run's timeline. The row of the run must be locked. The caller gives
// the run a slot after the commit.
func resume(ctx context.Context, tx *sqlx.Tx, row openRow, decision string) error {
	if err := noteWaits(ctx, tx, []endedWait{newEndedWait(row, domain.SpanCompleted, decision)}); err != nil {
		return err
	}

	// The resumed run needs a slot again, like any queued run. The time for which it waited for a
	// person does not count towards its deadline.
	_, err := tx.ExecContext(ctx, `UPDATE open_runs SET status = 'queued', dispatched = false, not_before = NULL,
		deadline = deadline + (clock_timestamp() - parked_at), required_action = NULL, action_expires_at = NULL, parked_at = NULL
		WHERE run_id = $1 AND org_id = $2`, row.ID, row.OrganizationID)
	if err != nil {
		return fmt.Errorf("resuming run: %w", err)
	}
	return nil
}

// decideEnded checks a decision about a run that is not open. It returns nil for a repetition of
// the decision that was made, and for an erased run, whose effects no longer exist. It changes
// nothing.
func decideEnded(ctx context.Context, tx *sqlx.Tx, org, principal, runID, callID string, decision domain.Decision) error {
	erased, err := findEnded(ctx, tx, org, principal, runID)
	if err != nil || erased {
		return err
	}

	var effect []effectRow
	if err := tx.SelectContext(ctx, &effect, effectSelect, runID, callID, org); err != nil {
		return fmt.Errorf("reading effect: %w", err)
	}

	// The run was cancelled or timed out while it waited. The decision came too late to have an
	// effect, so the caller gets an error.
	if len(effect) > 0 && effect[0].State == string(domain.EffectAwaiting) && !effect[0].Decision.Valid {
		return apierr.New(apierr.VersionConflict, "the run has finished without this decision")
	}

	return checkRepeated(effect, decision)
}

// findEnded reports whether a run that is not open was erased. Erasing a run also erases its
// effects. findEnded returns not_found if there is no such run.
func findEnded(ctx context.Context, tx *sqlx.Tx, org, principal, runID string) (erased bool, err error) {
	var found []bool
	err = tx.SelectContext(ctx, &found, `SELECT r.result IS NULL FROM runs r WHERE r.id = $1 AND r.org_id = $2
		AND ($3 = '' OR r.principal = $3) AND`+rundb.RunLive, runID, org, principal)
	switch {
	case err != nil:
		return false, fmt.Errorf("reading run: %w", err)
	case len(found) == 0:
		return false, pg.NotFound()
	default:
		return found[0], nil
	}
}

// checkRepeated returns nil if the same decision about the call was made before. Otherwise it
// returns the error for a decision for which the run does not wait.
func checkRepeated(effect []effectRow, decision domain.Decision) error {
	switch {
	case len(effect) == 0 || !effect[0].Decision.Valid:
		return apierr.Invalid("toolCallId", "invalid_value", "the run does not wait for a decision on this call")
	case effect[0].Decision.String != string(decision):
		return apierr.New(apierr.VersionConflict, "the decision was already made: %s", effect[0].Decision.String)
	default:
		return nil
	}
}

// EndUnanswered fails up to limit runs whose required action was not decided in time. It skips runs
// that another transaction has locked; a later call ends them. If it returns an error, it also
// returns the runs that it ended before the error.
func (s *Store) EndUnanswered(ctx context.Context, limit int) ([]Ended, error) {
	// The SQL function finds runs of all organizations without locks. Each run is checked again
	// under its lock, because a decision may have arrived in between.
	late, err := s.db.Find(ctx, `SELECT run_id, org_id FROM unanswered_runs($1)`, limit)
	if err != nil || len(late.Runs) == 0 {
		return nil, err
	}
	return endFound(late, func(part pg.Found) ([]Ended, error) {
		return s.end(ctx, part.Organizations, endAs(domain.RunFailed, ActionExpired), `o.run_id = ANY ($1) AND o.status = 'requires_action'
			AND o.action_expires_at <= clock_timestamp() ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED`, pq.Array(part.Runs))
	})
}
