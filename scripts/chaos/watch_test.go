package chaos

import (
	"context"
	"database/sql"
	"time"

	"parley/scripts/internal/cluster"
	"parley/shared/lifecycle"
)

// watcher samples the rows of the database and the resource usage of the processes.
type watcher struct {
	cluster *cluster.Cluster
	past    *history

	// Observations of runs that have not finished.
	rungAgain map[string]bool // IDs of runs that had more than one job message
	looks     int
}

const (
	lookEvery   = time.Second
	lookTimeout = 10 * time.Second
	// lookBack is the overlap of the periods that consecutive calls of look read. A run's finish
	// time is earlier than its commit, so a call may miss a run. The next call must find it.
	lookBack = time.Minute
)

// work takes samples until ctx ends.
func (w *watcher) work(ctx context.Context) {
	last := time.Now().Add(-lookBack)
	for ctx.Err() == nil {
		began := time.Now()
		if w.look(ctx, last.Add(-lookBack)) == nil {
			last = began
			w.looks++
		}
		w.measure()
		_ = lifecycle.Sleep(ctx, lookEvery)
	}
}

// fingerprint is an SQL expression for the fingerprint of a row's version and content.
const fingerprint = "r.xmin::text || ' ' || md5(r::text)"

// look records the runs that have finished since the given time.
func (w *watcher) look(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	err := w.each(ctx, "SELECT id, "+fingerprint+" FROM runs r WHERE status IS NOT NULL AND finished_at > $1", func(rows *sql.Rows) error {
		var id, seen string
		if err := rows.Scan(&id, &seen); err != nil {
			return err
		}
		w.past.note(func(all *evidence) {
			if _, known := all.Seen[id]; !known {
				all.Seen[id] = seen
			}
		})
		return nil
	}, since)
	if err != nil {
		return err
	}

	return w.each(ctx, "SELECT run_id FROM open_runs WHERE dispatch_no > 1", func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		w.rungAgain[id] = true
		return err
	})
}

// measure records the resource usage of the processes.
func (w *watcher) measure() {
	for _, p := range w.cluster.Of(cluster.Ingress, cluster.Agent, cluster.Tool, cluster.Sweep) {
		if held, up := p.Usage(); up {
			s := sample{Part: p.Name, PID: held.PID, At: time.Now(), Memory: held.Memory, Descriptors: held.Descriptors}
			w.past.note(func(all *evidence) { all.Samples = append(all.Samples, s) })
		}
	}
}

func (w *watcher) each(ctx context.Context, query string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := w.cluster.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *watcher) open(ctx context.Context) (found []open, err error) {
	err = w.each(ctx, "SELECT run_id, status, deadline FROM open_runs ORDER BY run_id", func(rows *sql.Rows) error {
		var o open
		defer func() { found = append(found, o) }()
		return rows.Scan(&o.ID, &o.Status, &o.Deadline)
	})
	return found, err
}

// rows returns all runs. The map names contains the names of organizations by ID.
func (w *watcher) rows(ctx context.Context, names map[string]string) (found []row, err error) {
	const query = `SELECT id, org_id, CASE WHEN idempotency_key IS NULL THEN '' ELSE
		(CASE WHEN caller_kind = 'system' THEN '/automation/' ELSE '/chat/' END) || idempotency_key END, session_id, coalesce(status, ''),
		coalesce(input->>'message', ''), coalesce(result, ''), seq, coalesce(attempts, 0), created_at, coalesce(started_at, 'epoch'),
		coalesce(finished_at, 'epoch'), ` + fingerprint + ` FROM runs r ORDER BY id`

	err = w.each(ctx, query, func(rows *sql.Rows) error {
		var r row
		var org string
		if err := rows.Scan(&r.ID, &org, &r.Key, &r.Session, &r.Status, &r.Message, &r.Result, &r.Seq, &r.Attempts, &r.Created, &r.Started,
			&r.Finished, &r.Print); err != nil {
			return err
		}
		if r.Key != "" {
			r.Key = names[org] + r.Key
		}
		for _, at := range []*time.Time{&r.Started, &r.Finished} {
			if at.Unix() == 0 {
				*at = time.Time{}
			}
		}
		found = append(found, r)
		return nil
	})
	return found, err
}
