package store

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
)

// explainLosers answers the rows that were not inserted. It runs as separate statements, whose snapshots
// see the transaction that won the key: the inserting statement's does not.
func (s *Store) explainLosers(ctx context.Context, out []Accepted, rows []NewRun, losers []int, window int) error {
	keys := make([]KeyOf, len(losers))
	for j, i := range losers {
		keys[j] = KeyOf{rows[i].OrganizationID, rows[i].KeyHash}
	}
	holders, err := s.RunsByKey(ctx, keys)
	if err != nil {
		return err
	}
	var refused []NewRun
	for j, i := range losers {
		if holders[j] == nil {
			refused = append(refused, rows[i])
		}
	}
	callers, err := s.allowedCallers(ctx, refused)
	if err != nil {
		return err
	}
	var blocked []int // by a run whose retention has passed
	for j, i := range losers {
		r := rows[i]
		allowed, exists := callers[agentOf{r.OrganizationID, r.AgentID}]
		switch {
		case holders[j] != nil:
			out[i] = Accepted{Run: *holders[j], Existing: true}
		case r.AgentID != "" && exists && !slices.Contains(allowed, string(r.CallerKind)):
			out[i] = Accepted{Err: callerNotAllowed(r.CallerKind)}
		case r.KeyHash != nil && (exists || r.TemplateID != ""):
			blocked = append(blocked, i)
			out[i] = Accepted{Err: notFound()} // unless releasing the key shows otherwise
		default:
			out[i] = Accepted{Err: notFound()}
		}
	}
	return s.replaceExpired(ctx, out, rows, blocked, window)
}

func callerNotAllowed(kind domain.CallerKind) error {
	return apierr.New(apierr.CallerNotAllowed, "this agent's allowedCallers does not include %q", kind)
}

type agentOf struct{ organization, agent string }

// organizationsOf gives the organizations of runs, for within.
func organizationsOf(rows []NewRun) []string {
	return column(rows, func(r *NewRun) string { return r.OrganizationID })
}

// allowedCallers reads the allowedCallers of those of the runs' agents that exist.
func (s *Store) allowedCallers(ctx context.Context, rows []NewRun) (out map[agentOf][]string, err error) {
	if len(rows) == 0 {
		return map[agentOf][]string{}, nil
	}
	err = s.within(ctx, organizationsOf(rows), func(tx *sqlx.Tx) (err error) {
		out, err = allowedCallersIn(ctx, tx, rows)
		return err
	})
	return out, err
}

func allowedCallersIn(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[agentOf][]string, error) {
	var present []struct {
		ID             string         `db:"id"`
		OrganizationID string         `db:"org_id"`
		AllowedCallers pq.StringArray `db:"allowed_callers"`
	}
	err := tx.SelectContext(ctx, &present, `SELECT id, org_id, allowed_callers FROM agents WHERE id = ANY ($1) AND deleted_at IS NULL`,
		pq.Array(column(rows, func(r *NewRun) string { return r.AgentID })))
	if err != nil {
		return nil, fmt.Errorf("reading agents: %w", err)
	}
	out := make(map[agentOf][]string, len(present))
	for _, a := range present {
		out[agentOf{a.OrganizationID, a.ID}] = a.AllowedCallers
	}
	return out, nil
}

// replaceExpired frees the keys of runs whose retention has passed and accepts the blocked rows in their place.
func (s *Store) replaceExpired(ctx context.Context, out []Accepted, rows []NewRun, blocked []int, window int) error {
	if len(blocked) == 0 {
		return nil
	}
	again := make([]NewRun, len(blocked))
	hashes := make([][]byte, len(blocked))
	for j, i := range blocked {
		again[j], hashes[j] = rows[i], rows[i].KeyHash
	}
	var freed int64
	err := s.within(ctx, organizationsOf(again), func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE runs SET idempotency_hash = NULL
			WHERE idempotency_hash = ANY ($1) AND expires_at <= clock_timestamp()`, pq.ByteaArray(hashes))
		if err != nil {
			return err
		}
		freed, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return fmt.Errorf("releasing expired keys: %w", err)
	}
	if freed == 0 {
		return nil
	}
	accepted, err := s.Accept(ctx, again, window)
	if err != nil {
		return err
	}
	for j, i := range blocked {
		out[i] = accepted[j]
	}
	return nil
}

// acceptedAfterAll looks up what a statement did whose answer was lost, and tries once more for the rows
// that do not exist: their ids are theirs alone, so a run that appears meanwhile only fails the second try.
func (s *Store) acceptedAfterAll(ctx context.Context, rows []NewRun, window int, cause error) ([]Accepted, error) {
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
	accepted, err := s.acceptOnce(ctx, again, window)
	if violates(err, "runs_pkey") { // the first try has landed meanwhile
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
	err := s.within(ctx, organizationsOf(rows), func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, `SELECT id AS run_id, created_at, false AS dispatched FROM runs WHERE id = ANY ($1)`,
			pq.Array(column(rows, func(r *NewRun) string { return r.ID })))
	})
	if err != nil {
		return nil, fmt.Errorf("looking accepted runs up: %w", err)
	}
	return createdByID(found), nil
}
