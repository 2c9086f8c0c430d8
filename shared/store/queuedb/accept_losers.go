package queuedb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// acceptTries is how often a row is tried whose key is held by no run that can be found.
const acceptTries = 6

// explainLosers answers the rows that were not inserted. It runs as separate statements, whose snapshots
// see the transaction that won the key: the inserting statement's does not.
func (s *Store) explainLosers(ctx context.Context, out []Accepted, rows []NewRun, losers []int, call acceptCall) error {
	keys := make([]rundb.KeyRef, len(losers))
	for j, i := range losers {
		keys[j] = rundb.KeyRef{OrganizationID: rows[i].OrganizationID, Hash: rows[i].KeyHash}
	}
	holders, err := s.runs.RunsByKey(ctx, keys)
	if err != nil {
		return err
	}
	var refused []NewRun
	for j, i := range losers {
		if holders[j] == nil {
			refused = append(refused, rows[i])
		}
	}
	callers, templates, err := s.callable(ctx, refused)
	if err != nil {
		return err
	}
	var again []int // nothing that can be found stands in their way
	for j, i := range losers {
		r := rows[i]
		allowed, exists := callers[agentOf{r.OrganizationID, r.AgentID}]
		switch {
		case holders[j] != nil:
			out[i] = Accepted{Run: *holders[j], Existing: true}
		case exists && !slices.Contains(allowed, string(r.CallerKind)):
			out[i] = Accepted{Err: callerNotAllowed(r.CallerKind)}
		case exists || templates[r.TemplateID]:
			again = append(again, i)
		default:
			out[i] = Accepted{Err: pg.NotFound()}
		}
	}
	return s.acceptAgain(ctx, out, rows, again, call)
}

func callerNotAllowed(kind domain.CallerKind) error {
	return apierr.New(apierr.CallerNotAllowed, "this agent's allowedCallers does not include %q", kind)
}

type agentOf struct{ organization, agent string }

// organizationsFor gives the organizations of runs, for within.
func organizationsFor(rows []NewRun) []string {
	return pg.Column(rows, func(r *NewRun) string { return r.OrganizationID })
}

// callable reads the allowedCallers of those of the runs' agents that exist, and which of their templates do.
func (s *Store) callable(ctx context.Context, rows []NewRun) (callers map[agentOf][]string, templates map[string]bool, err error) {
	if len(rows) == 0 {
		return nil, nil, nil
	}
	var found []string
	err = s.db.Within(ctx, organizationsFor(rows), func(tx *sqlx.Tx) (err error) {
		if callers, err = allowedCallersIn(ctx, tx, rows); err != nil {
			return err
		}
		found = nil
		return tx.SelectContext(ctx, &found, `SELECT id FROM templates WHERE id = ANY ($1)`,
			pq.Array(pg.Column(rows, func(r *NewRun) string { return r.TemplateID })))
	})
	templates = make(map[string]bool, len(found))
	for _, id := range found {
		templates[id] = true
	}
	return callers, templates, err
}

func allowedCallersIn(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[agentOf][]string, error) {
	var present []struct {
		ID             string         `db:"id"`
		OrganizationID string         `db:"org_id"`
		AllowedCallers pq.StringArray `db:"allowed_callers"`
	}
	err := tx.SelectContext(ctx, &present, `SELECT id, org_id, allowed_callers FROM agents WHERE id = ANY ($1) AND deleted_at IS NULL`,
		pq.Array(pg.Column(rows, func(r *NewRun) string { return r.AgentID })))
	if err != nil {
		return nil, fmt.Errorf("reading agents: %w", err)
	}
	out := make(map[agentOf][]string, len(present))
	for _, a := range present {
		out[agentOf{a.OrganizationID, a.ID}] = a.AllowedCallers
	}
	return out, nil
}

// acceptAgain accepts rows that lost to a run which was gone when it was looked for, or whose retention has passed: the key of such a
// run is freed first. Meanwhile the sweeper or another process may free it, or another one's run may take it, so the rows
// are tried whoever freed the key.
func (s *Store) acceptAgain(ctx context.Context, out []Accepted, rows []NewRun, which []int, call acceptCall) error {
	if len(which) == 0 {
		return nil
	}
	again := make([]NewRun, len(which))
	var hashes [][]byte
	for j, i := range which {
		if again[j] = rows[i]; rows[i].KeyHash != nil {
			hashes = append(hashes, rows[i].KeyHash)
		}
	}
	freed, err := s.freeExpired(ctx, organizationsFor(again), hashes)
	if err != nil {
		return err
	}
	if call.tries++; call.tries == acceptTries {
		for _, i := range which {
			out[i] = Accepted{Err: pg.ErrLocked}
		}
		return nil
	}
	if freed == 0 && call.tries > 1 { // whoever has locked the run is about to remove it
		if err := pg.Pause(ctx, time.Millisecond<<call.tries); err != nil {
			return err
		}
	}
	accepted, err := s.accept(ctx, again, call)
	if err != nil {
		return err
	}
	for j, i := range which {
		out[i] = accepted[j]
	}
	return nil
}

// freeExpired takes keys from runs whose retention has passed, and returns from how many. Runs that are locked are skipped.
func (s *Store) freeExpired(ctx context.Context, orgs []string, hashes [][]byte) (freed int64, err error) {
	err = s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE runs SET idempotency_hash = NULL WHERE id IN (SELECT id FROM runs
			WHERE idempotency_hash = ANY ($1) AND expires_at <= clock_timestamp() ORDER BY idempotency_hash FOR UPDATE SKIP LOCKED)`,
			pq.ByteaArray(hashes))
		if err != nil {
			return err
		}
		freed, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("releasing expired keys: %w", err)
	}
	return freed, nil
}

// acceptedAfterAll looks up what a statement did whose answer was lost, and tries once more for the rows
// that do not exist: their ids are theirs alone, so a run that appears meanwhile only fails the second try.
func (s *Store) acceptedAfterAll(ctx context.Context, rows []NewRun, call acceptCall, cause error) ([]Accepted, error) {
	// The time of the first try may be what ran out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUpTimeout)
	defer cancel()
	created, err := s.createdRuns(ctx, rows)
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	out := make([]Accepted, len(rows))
	missing := fillCreated(out, rows, created)
	if len(missing) == 0 {
		return out, nil
	}
	again := make([]NewRun, len(missing))
	for j, i := range missing {
		again[j] = rows[i]
	}
	accepted, err := s.acceptOnce(ctx, again, call)
	if pg.Violates(err, "runs_pkey") { // the first try has landed meanwhile
		if created, err = s.createdRuns(ctx, rows); err != nil {
			return nil, errors.Join(cause, err)
		}
		for _, i := range fillCreated(out, rows, created) {
			out[i] = Accepted{Err: cause}
		}
		return out, nil
	}
	for j, i := range missing {
		if err != nil {
			out[i] = Accepted{Err: errors.Join(cause, err)}
			continue
		}
		out[i] = accepted[j]
	}
	return out, nil
}

// lookUpTimeout bounds finding out what became of runs whose acceptance was not answered.
const lookUpTimeout = 5 * time.Second

// createdRuns reads which of the rows exist. None counts as dispatched: whether its doorbell was rung is
// not known, and the sweeper rings for it.
func (s *Store) createdRuns(ctx context.Context, rows []NewRun) (map[string]createdRow, error) {
	var found []createdRow
	err := s.db.Within(ctx, organizationsFor(rows), func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, `SELECT id AS run_id, created_at, false AS dispatched FROM runs WHERE id = ANY ($1)`,
			pq.Array(pg.Column(rows, func(r *NewRun) string { return r.ID })))
	})
	if err != nil {
		return nil, fmt.Errorf("looking accepted runs up: %w", err)
	}
	return createdByID(found), nil
}

// lockSessions locks the sessions of the runs and returns the keys of those that another transaction has locked. They are locked in the
// order of their keys, as acceptance does.
func lockSessions(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[string]bool, error) {
	var keys, locked [][]byte
	for i := range rows {
		if !rows[i].OwnSession {
			keys = append(keys, rows[i].SessionKey)
		}
	}
	if len(keys) == 0 {
		return map[string]bool{}, nil
	}
	err := tx.SelectContext(ctx, &locked, `WITH free AS MATERIALIZED (
		  SELECT ref FROM sessions WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
		SELECT key FROM sessions s WHERE key = ANY ($1) AND NOT EXISTS (SELECT FROM free f WHERE f.ref = s.ref)`, pq.ByteaArray(keys))
	if err != nil {
		return nil, fmt.Errorf("locking sessions: %w", err)
	}
	out := make(map[string]bool, len(locked))
	for _, key := range locked {
		out[string(key)] = true
	}
	return out, nil
}
