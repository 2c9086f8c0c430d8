package queuedb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// maxCollected is the approximate number of deliveries after which a run stops coalescing, even if
// its coalescing period has not ended. It bounds the run's input, which lists the ids of all
// deliveries.
const maxCollected = 1000

// releaseBytes bounds the total size of the inputs that ReleaseCollected holds in memory at a time.
const releaseBytes = 64 << 20

// releasedRun is a run whose coalescing has ended. Its row and the row of its
// coalescing key are locked.
type releasedRun struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Input          []byte `db:"input"` // from the newest delivery
}

// ReleaseCollected releases runs whose coalescing has ended, at most the given number. Such a run
// has the input of its newest delivery, with "deliveries": {"count", "ids"} added to its data; ids
// lists all deliveries in the order of their arrival. A delivery that arrives meanwhile waits and
// begins the next run.
//
// The released runs get slots like other waiting runs. The sweeper therefore calls DispatchWaiting
// afterwards. ReleaseCollected returns the organization of each released run, even if it also
// returns an error. If several processes call it, only one of them releases a given run.
func (s *Store) ReleaseCollected(ctx context.Context, maximum int) (orgs []string, err error) {
	due, err := s.db.Find(ctx, `SELECT run_id, org_id FROM collected_runs($1)`, maximum)
	if err != nil || len(due.Runs) == 0 {
		return nil, err
	}

	// The runs are released in several transactions. If one of them fails, the runs of the earlier
	// transactions stay released.
	for part := range due.Parts() {
		var released []releasedRun
		err := s.db.Within(ctx, part.Organizations, func(tx *sqlx.Tx) (err error) {
			if released, err = lockCollected(ctx, tx, part.Runs); err != nil {
				return err
			}
			return release(ctx, tx, released)
		})
		if err != nil {
			return orgs, fmt.Errorf("releasing runs that collect deliveries: %w", err)
		}
		orgs = append(orgs, pg.Column(released, func(r *releasedRun) string { return r.OrganizationID })...)
	}

	return orgs, nil
}

// lockCollected locks the runs to release and their coalescing keys, and returns these runs. It
// locks the rows of the runs first, in the same order as transactions that finish runs. It locks
// the keys in the same order as transactions that accept deliveries. It waits for the locks of the
// keys, because under a steady stream of deliveries some transaction always holds such a lock.
func lockCollected(ctx context.Context, tx *sqlx.Tx, runs []string) ([]releasedRun, error) {
	var locked, free []string
	err := tx.SelectContext(ctx, &locked, `SELECT run_id FROM open_runs WHERE run_id = ANY ($1)
		ORDER BY run_id FOR UPDATE SKIP LOCKED`, pq.Array(runs))
	if err != nil {
		return nil, err
	}

	// Runs whose inputs do not fit into memory are released in the next round.
	err = tx.SelectContext(ctx, &free, `SELECT run_id FROM (SELECT run_id, row_number() OVER keys AS n,
			sum(octet_length(input::text)) OVER keys AS bytes FROM collecting
			WHERE run_id = ANY ($1) WINDOW keys AS (ORDER BY hook_id, key_hash)) sized
		WHERE n = 1 OR bytes <= $2`, pq.Array(locked), releaseBytes)
	if err != nil {
		return nil, err
	}

	var released []releasedRun
	err = tx.SelectContext(ctx, &released, `SELECT run_id, org_id, input FROM collecting
		WHERE run_id = ANY ($1) AND closes_at <= clock_timestamp() ORDER BY hook_id, key_hash FOR UPDATE`, pq.Array(free))
	return released, err
}

// release sets the final input of locked runs, lets them start, and removes their coalescing keys.
// It changes nothing before all inputs are rendered.
func release(ctx context.Context, tx *sqlx.Tx, released []releasedRun) error {
	if len(released) == 0 {
		return nil
	}

	runs := pg.Column(released, func(r *releasedRun) string { return r.RunID })
	var rows []struct {
		RunID string `db:"run_id"`
		ID    string `db:"delivery_id"`
	}
	err := tx.SelectContext(ctx, &rows, `SELECT run_id, delivery_id FROM deliveries WHERE run_id = ANY ($1) ORDER BY ref`, pq.Array(runs))
	if err != nil {
		return fmt.Errorf("reading deliveries of runs: %w", err)
	}

	// The rows are ordered by ref, which increases with the time of arrival. So the ids are in the
	// order of arrival.
	ids := make(map[string][]string, len(runs))
	for _, row := range rows {
		ids[row.RunID] = append(ids[row.RunID], row.ID)
	}

	// All inputs are rendered before the first write of the transaction.
	inputs := make([]string, len(released))
	for i := range released {
		if inputs[i], err = released[i].input(ids[runs[i]]); err != nil {
			return err
		}
	}

	// Clearing not_before makes the run wait for a slot like any other run. Removing the coalescing
	// key makes the next delivery begin another run.
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`UPDATE runs r SET input = u.input::json FROM unnest($1::text[], $2::text[]) AS u (id, input) WHERE r.id = u.id`, []any{pq.Array(runs), pq.Array(inputs)}},
		{`UPDATE open_runs SET not_before = NULL WHERE run_id = ANY ($1)`, []any{pq.Array(runs)}},
		{`DELETE FROM collecting WHERE run_id = ANY ($1)`, []any{pq.Array(runs)}},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return err
		}
	}

	return nil
}

// input returns the run's input with the deliveries in its data. ids are the deliveries' ids in the
// order of arrival. Data that is not a JSON object is an error.
func (r *releasedRun) input(ids []string) (string, error) {
	var in domain.Input
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return "", fmt.Errorf("reading run input: %w", err)
	}

	// The other members of the data stay unchanged.
	data := map[string]json.RawMessage{}
	if in.Data != nil {
		if err := json.Unmarshal(in.Data, &data); err != nil {
			return "", fmt.Errorf("reading data of run input: %w", err)
		}
	}

	deliveries, err := json.Marshal(struct {
		Count int      `json:"count"`
		IDs   []string `json:"ids"`
	}{len(ids), ids})
	if err != nil {
		return "", fmt.Errorf("rendering deliveries: %w", err)
	}

	data["deliveries"] = deliveries
	if in.Data, err = json.Marshal(data); err != nil {
		return "", fmt.Errorf("rendering data of run input: %w", err)
	}

	// HTML escapes are disabled, because they could make a message six times as long.
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return "", fmt.Errorf("rendering run input: %w", err)
	}

	return out.String(), nil
}
