package usagedb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

const (
	// usageTime is the statement timeout of usage reports, because a report for very many runs must
	// not slow down the database.
	usageTime = 4 * time.Second // shorter than the lock timeout
	// idSkew is the maximum difference between the database's clock and the clock of any process
	// that generates ids of runs.
	idSkew = time.Hour
	// hourlyDays is the maximum number of days for which a report has hourly intervals. Longer
	// reports have daily intervals.
	hourlyDays = 2
)

// UsageFilter selects the runs to count. A run must satisfy all conditions. Only Days is required.
type UsageFilter struct {
	// Days is the number of days, including today in UTC. A report of at most hourlyDays days has
	// hourly intervals, 24 for each day, and ends with the current hour. If KeyID, AutomationID or
	// By is set, the first day starts at midnight, because the table past_usage_by contains the
	// usage of removed runs only per day.
	Days    int
	AgentID string // "": all agents and templates
	KeyID   string // the API key of the request; "": all, including requests of users
	// AutomationID is the name of the automation; empty: all.
	AutomationID string
	By           UsageBy // additional grouping; "": none
}

// intervals returns the start of the first interval, the length of each interval, and the number of
// intervals. The last interval contains the current time, now.
func (f UsageFilter) intervals(now time.Time) (from time.Time, each time.Duration, n int) {
	each, n = 24*time.Hour, f.Days
	if f.Days <= hourlyDays {
		each, n = time.Hour, 24*f.Days
		if f.KeyID != "" || f.AutomationID != "" || f.By != "" {
			// The report begins at midnight, so the current day has only the hours that have
			// already begun.
			n += now.UTC().Hour() + 1 - 24
		}
	}
	return now.UTC().Truncate(each).Add(-time.Duration(n-1) * each), each, n
}

// usageRow is a part of the usage of an interval. It describes one of three sets: the stored runs
// in one duration bucket, all removed runs, or the removed runs in one duration bucket, of which
// only the number is known.
type usageRow struct {
	Nth int `db:"nth"` // index of the interval
	domain.Consumption
	Bucket sql.NullInt64 `db:"bucket"` // duration bucket of finished runs
	Ended  int64         `db:"ended"`
	TookMs sql.NullInt64 `db:"took_ms"` // sum of the durations in milliseconds; null: only the bucket is known
}

// usageQuery reads a range of the index runs_org. An interval is a range of ids, because run ids
// begin with their time. It is a single statement, so that a run that is being removed is counted
// exactly once.
const usageQuery = `WITH kept AS MATERIALIZED (
	  SELECT floor(extract(epoch FROM r.created_at - $4::timestamptz) / $6)::int AS nth,
	    r.status, r.input_tokens, r.output_tokens, r.cost_micros, r.sandbox_ms, run_took(r.created_at, r.finished_at) AS took
	  FROM runs r WHERE r.org_id = $1 AND r.id >= $2 AND ($3 = '' OR r.agent_id = $3) AND r.created_at >= $4 AND r.created_at < $5
	    AND ($7 = '' OR r.key_id = $7) AND ($8 = '' OR r.automation_id = $8)
	), past AS MATERIALIZED (
	  SELECT floor(extract(epoch FROM p.hour - $4::timestamptz) / $6)::int AS nth, p.runs, p.completed, p.failed, p.cancelled, p.timed_out,
	    p.input_tokens, p.output_tokens, p.cost_micros, p.sandbox_ms, p.took
	  FROM past_usage p WHERE $7 = '' AND $8 = '' AND p.org_id = $1 AND p.hour >= $4 AND p.hour < $5 AND ($3 = '' OR p.target_id = $3)
	  UNION ALL SELECT floor(extract(epoch FROM p.day::timestamp AT TIME ZONE 'UTC' - $4::timestamptz) / $6)::int, p.runs, p.completed,
	    p.failed, p.cancelled, p.timed_out, p.input_tokens, p.output_tokens, p.cost_micros, p.sandbox_ms, '{}'::int[]
	  FROM past_usage_by p WHERE ($7 <> '' OR $8 <> '') AND p.org_id = $1 AND p.day >= ($4::timestamptz AT TIME ZONE 'UTC')::date
	    AND p.day::timestamp AT TIME ZONE 'UTC' < $5 AND ($3 = '' OR p.target_id = $3)
	    AND ($7 = '' OR p.key_id = $7) AND ($8 = '' OR p.automation_id = $8)
	)
	SELECT nth, count(*) AS runs,
	  count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
	  count(*) FILTER (WHERE status = 'cancelled') AS cancelled, count(*) FILTER (WHERE status = 'timed_out') AS timed_out,
	  coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
	  coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(sum(sandbox_ms), 0)::bigint AS sandbox_ms,
	  took_bucket(took) AS bucket, count(took) AS ended, sum(took)::bigint AS took_ms
	FROM kept GROUP BY nth, bucket
	UNION ALL SELECT nth, sum(runs)::bigint, sum(completed)::bigint, sum(failed)::bigint, sum(cancelled)::bigint, sum(timed_out)::bigint,
	  sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_micros)::bigint, sum(sandbox_ms)::bigint, NULL, 0, NULL
	FROM past GROUP BY nth
	UNION ALL SELECT p.nth, 0, 0, 0, 0, 0, 0, 0, 0, 0, array_lower(p.took, 1) + t.place::int - 1 AS bucket, sum(t.n)::bigint, NULL
	FROM past p CROSS JOIN LATERAL unnest(p.took) WITH ORDINALITY AS t (n, place) WHERE t.n > 0 GROUP BY p.nth, bucket`

// Usage counts the usage of an organization's runs until now, including erased runs and runs that
// were removed after their retention. The durations of removed runs are approximate. If counting
// takes longer than usageTime, Usage returns unavailable.
func (s *Store) Usage(ctx context.Context, org string, f UsageFilter, now time.Time) (domain.UsageReport, error) {
	from, each, n := f.intervals(now)
	var rows []usageRow
	var groups []domain.UsageGroup
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each try starts with empty lists.
		rows, groups = nil, nil
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, usageTime.Milliseconds())); err != nil {
			return err
		}

		// An id contains its time, so the index on ids limits the runs that are read.
		first := id.First(id.Run, from.Add(-idSkew))
		err := tx.SelectContext(ctx, &rows, usageQuery, org, first, f.AgentID, from, now, each.Seconds(), f.KeyID, f.AutomationID)
		if err != nil || f.By == "" {
			return err
		}
		groups, err = usageGroups(ctx, tx, org, first, f, from, now)
		return err
	})

	// PostgreSQL cancelled the statement because of the statement timeout.
	if pg.HasCode(err, "57014") {
		slow := apierr.Wrap(apierr.Unavailable, err, "too many runs to count; ask for fewer days, or try again later")
		slow.RetryAfter = usageTime
		return domain.UsageReport{}, slow
	}

	if err != nil {
		return domain.UsageReport{}, fmt.Errorf("counting usage: %w", err)
	}

	out := domain.UsageReport{Interval: "day", From: domain.At(from), To: domain.At(now), Groups: groups}
	out.Data = make([]domain.UsageInterval, n)
	if each == time.Hour {
		out.Interval = "hour"
	}

	for i := range out.Data {
		out.Data[i].StartsAt = domain.At(from.Add(time.Duration(i) * each))
	}

	addUp(&out, rows)
	return out, nil
}

// addUp adds the rows to their intervals and to the totals, and computes the percentiles of the
// durations.
func addUp(out *domain.UsageReport, rows []usageRow) {
	all, took := durationHistogram{}, make([]durationHistogram, len(out.Data))
	for _, row := range rows {
		// Past usage of keys and automations is stored by day, and the first day may begin before the
		// first interval.
		if row.Nth < 0 || row.Nth >= len(out.Data) {
			continue
		}
		out.Totals.Add(row.Consumption)
		out.Data[row.Nth].Add(row.Consumption)
		if took[row.Nth] == nil {
			took[row.Nth] = durationHistogram{}
		}
		for _, of := range []durationHistogram{all, took[row.Nth]} {
			of.add(int(row.Bucket.Int64), row.Ended, row.TookMs)
		}
	}

	out.Totals.P50Ms, out.Totals.P95Ms = all.percentile(50), all.percentile(95)
	for i := range out.Data {
		out.Data[i].P50Ms, out.Data[i].P95Ms = took[i].percentile(50), took[i].percentile(95)
	}
}
