package queuedb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// acceptTries is the maximum number of tries for a row whose key belongs to a run that cannot be
// found. The waits between the tries add up to about 60 ms.
const acceptTries = 6

// explainLosers sets the results of the rows that were not inserted; losers contains their indexes.
// explainLosers uses new statements, whose snapshots include the transactions that took the rows'
// idempotency keys. The snapshot of the inserting statement does not include them.
func (s *Store) explainLosers(ctx context.Context, out []Accepted, rows []NewRun, losers []int, call acceptCall) error {
	keys := make([]rundb.KeyRef, len(losers))
	for j, i := range losers {
		keys[j] = rundb.KeyRef{OrganizationID: rows[i].OrganizationID, Hash: rows[i].KeyHash}
	}

	// Most rows are not inserted because another run has their idempotency key.
	holders, err := s.runs.RunsByKey(ctx, keys)
	if err != nil {
		return err
	}

	// If no run has the row's key, the row was refused because of its agent or template.
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

	var again []int // rows for which no reason can be found
	for j, i := range losers {
		r := rows[i]
		agent, exists := callers[agentRef{r.OrganizationID, r.AgentID}]
		switch {
		case holders[j] != nil:
			out[i] = Accepted{Run: *holders[j], Existing: true}
		case exists && !slices.Contains(agent.allowed, string(r.CallerKind)):
			out[i] = Accepted{Err: callerNotAllowed(&r, agent.name)}
		case exists || templates[r.TemplateID]:
			again = append(again, i)
		default:
			out[i] = Accepted{Err: pg.NotFound()}
		}
	}

	return s.acceptAgain(ctx, out, rows, again, call)
}

// callerNotAllowed is the error of a run whose agent does not allow its kind of caller. Visitors of
// a widget do not get the agent's name.
func callerNotAllowed(r *NewRun, name string) error {
	if strings.HasPrefix(r.Principal, domain.WidgetPrincipal) {
		name = ""
	}
	return apierr.New(apierr.CallerNotAllowed, "%s", CallerNotAllowedMessage(r.AgentID, name, r.CallerKind))
}

// agentRef identifies an agent. The organization is part of it, because a request may name the
// agent of another organization.
type agentRef struct{ organization, agent string }

// organizationsFor returns the organizations of the runs, as the argument of Within.
func organizationsFor(rows []NewRun) []string {
	return pg.Column(rows, func(r *NewRun) string { return r.OrganizationID })
}

// callable returns the allowedCallers of the runs' agents, and the set of the runs' templates.
// Agents and templates that do not exist are missing in the results.
func (s *Store) callable(ctx context.Context, rows []NewRun) (callers map[agentRef]agentCallers, templates map[string]bool, err error) {
	// A row was usually not inserted because another run has its key. If this is true for all rows,
	// no agent needs to be read.
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

// agentCallers contains an agent's name and its allowedCallers.
type agentCallers struct {
	name    string
	allowed []string
}

// allowedCallersIn reads the names and the allowedCallers of the runs' agents, within the
// organizations of the transaction. Agents that do not exist or are deleted are missing in the
// result.
func allowedCallersIn(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[agentRef]agentCallers, error) {
	// A deleted agent counts as missing.
	var present []struct {
		ID             string         `db:"id"`
		OrganizationID string         `db:"org_id"`
		Name           string         `db:"name"`
		AllowedCallers pq.StringArray `db:"allowed_callers"`
	}

	err := tx.SelectContext(ctx, &present, `SELECT id, org_id, name, allowed_callers FROM agents WHERE id = ANY ($1) AND deleted_at IS NULL`,
		pq.Array(pg.Column(rows, func(r *NewRun) string { return r.AgentID })))
	if err != nil {
		return nil, fmt.Errorf("reading agents: %w", err)
	}

	out := make(map[agentRef]agentCallers, len(present))
	for _, a := range present {
		out[agentRef{a.OrganizationID, a.ID}] = agentCallers{a.Name, a.AllowedCallers}
	}

	return out, nil
}

// acceptAgain accepts rows whose keys belonged to another run, if that run is gone or its retention
// period has ended. It first releases the key of such a run. It tries the rows even if it has
// released no key, because the sweeper or another process may have released the key.
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

	// An expired run still occupies its key until the sweeper removes it.
	freed, err := s.freeExpired(ctx, organizationsFor(again), hashes)
	if err != nil {
		return err
	}

	// The number of tries is limited, because other requests may take the key again and again.
	if call.tries++; call.tries == acceptTries {
		for _, i := range which {
			out[i] = Accepted{Err: pg.ErrLocked}
		}
		return nil
	}

	if freed == 0 && call.tries > 1 { // another transaction has locked the run that has the key, and is about to remove the run
		if lifecycle.Sleep(ctx, time.Millisecond<<call.tries) != nil {
			return fmt.Errorf("waiting: %w", ctx.Err())
		}
	}

	// Each try passes the state of the call on to the next try, so the number of tries stays
	// bounded.
	accepted, err := s.accept(ctx, again, call)
	if err != nil {
		return err
	}

	for j, i := range which {
		out[i] = accepted[j]
	}

	return nil
}

// freeExpired removes the idempotency keys of runs whose retention period has ended, and returns
// the number of removed keys. It skips locked runs. The runs themselves are deleted later, by the
// sweeper.
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
		return 0, fmt.Errorf("releasing expired idempotency keys: %w", err)
	}

	return freed, nil
}

// recoverAccepted looks up the result of a statement whose reply was lost, and repeats the
// statement for the rows that do not exist. The ids are unique, so the second statement fails if
// the first one is committed in the meantime.
func (s *Store) recoverAccepted(ctx context.Context, rows []NewRun, call acceptCall, cause error) ([]Accepted, error) {
	// The deadline of ctx may be the reason why the first try failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUpTimeout)
	defer cancel()
	created, err := s.createdRuns(ctx, rows)
	if err != nil {
		return nil, errors.Join(cause, err)
	}

	// Rows that exist are accepted, and only the remaining rows are tried again.
	out := make([]Accepted, len(rows))
	missing := fillCreated(out, rows, created)
	if len(missing) == 0 {
		return out, nil
	}

	again := make([]NewRun, len(missing))
	for j, i := range missing {
		again[j] = rows[i]
	}

	// A second lost reply is not looked up again: the rows get the error, and their callers may
	// retry.
	accepted, err := s.acceptOnce(ctx, again, call)
	if pg.Violates(err, "runs_pkey") { // the first try has committed meanwhile
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

// lookUpTimeout bounds the look-up of runs after the reply to their insertion was lost.
const lookUpTimeout = 5 * time.Second

// createdRuns reads which of the rows exist as runs, by run id. It reports none of them as
// dispatched, because it is unknown whether their jobs were published. The sweeper will publish the
// jobs.
func (s *Store) createdRuns(ctx context.Context, rows []NewRun) (map[string]createdRow, error) {
	var found []createdRow
	err := s.db.Within(ctx, organizationsFor(rows), func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, `SELECT id AS run_id, created_at, false AS dispatched, config_version AS version FROM runs WHERE id = ANY ($1)`,
			pq.Array(pg.Column(rows, func(r *NewRun) string { return r.ID })))
	})
	if err != nil {
		return nil, fmt.Errorf("looking up accepted runs: %w", err)
	}
	return createdByID(found), nil
}

// lockSessions locks the sessions of the runs, in the order in which acceptance locks them. It
// returns the keys of the sessions that another transaction has locked.
func lockSessions(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[string]bool, error) {
	// The session of a run with OwnSession does not exist yet, so no transaction can have locked
	// it.
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
