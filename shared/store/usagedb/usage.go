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
	// usageTime bounds counting: an organization with very many runs must not keep the database from its work.
	usageTime = 4 * time.Second // less than a lock is waited for
	// idSkew is by how much the clocks of those who made runs' ids may differ from the database's, by which runs are counted.
	idSkew = time.Hour
	// hourlyDays is how many days are shown by the hour.
	hourlyDays = 2
)

// UsageFilter says which runs count.
type UsageFilter struct {
	// Days are today by UTC, and so many less one before. Up to two of them are shown by the hour: so many times 24, this one and those
	// before; or since midnight where keys or automations matter, by which removed runs are known by the day only.
	Days    int
	AgentID string // "" for all, also those of templates
	KeyID   string // the API key that they entered by; "" for all, also those of people
	// AutomationID is the name that they were triggered under; "" for all.
	AutomationID string
	By           UsageBy // what they are shown by besides; "" for nothing
}

// intervals gives the beginning of the first interval, how long each is and how many they are, the one of now being the last.
func (f UsageFilter) intervals(now time.Time) (from time.Time, each time.Duration, n int) {
	each, n = 24*time.Hour, f.Days
	if f.Days <= hourlyDays {
		each, n = time.Hour, 24*f.Days
		if f.KeyID != "" || f.AutomationID != "" || f.By != "" {
			n += now.UTC().Hour() + 1 - 24
		}
	}
	return now.UTC().Truncate(each).Add(-time.Duration(n-1) * each), each, n
}

// usageRow is a part of what the runs of an interval came to: of those that were kept and took about as long, of all that were
// removed, or of these only how many took about as long.
type usageRow struct {
	Nth int `db:"nth"` // the interval's number
	domain.Consumption
	Bucket sql.NullInt64 `db:"bucket"` // of what those took that have ended
	Ended  int64         `db:"ended"`
	TookMs sql.NullInt64 `db:"took_ms"` // all of these together; null: only the bucket is known
}

// Ids of runs begin with their time, so that the interval is a range of the index runs_org. That it is one statement keeps runs that are
// being removed from being counted twice, or not at all.
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

// Usage counts what an organization's runs came to until now, and with them those that were erased, or removed when their
// retention was over. How long these took is known nearly.
func (s *Store) Usage(ctx context.Context, org string, f UsageFilter, now time.Time) (domain.UsageReport, error) {
	from, each, n := f.intervals(now)
	var rows []usageRow
	var groups []domain.UsageGroup
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows, groups = nil, nil
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, usageTime.Milliseconds())); err != nil {
			return err
		}
		first := id.First(id.Run, from.Add(-idSkew))
		err := tx.SelectContext(ctx, &rows, usageQuery, org, first, f.AgentID, from, now, each.Seconds(), f.KeyID, f.AutomationID)
		if err != nil || f.By == "" {
			return err
		}
		groups, err = usageGroups(ctx, tx, org, first, f, from, now)
		return err
	})
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

// addUp counts the parts into their intervals and all together.
func addUp(out *domain.UsageReport, rows []usageRow) {
	all, took := tooks{}, make([]tooks, len(out.Data))
	for _, row := range rows {
		if row.Nth < 0 || row.Nth >= len(out.Data) {
			continue
		}
		out.Totals.Add(row.Consumption)
		out.Data[row.Nth].Add(row.Consumption)
		if took[row.Nth] == nil {
			took[row.Nth] = tooks{}
		}
		for _, of := range []tooks{all, took[row.Nth]} {
			of.add(int(row.Bucket.Int64), row.Ended, row.TookMs)
		}
	}
	out.Totals.P50Ms, out.Totals.P95Ms = all.percentile(50), all.percentile(95)
	for i := range out.Data {
		out.Data[i].P50Ms, out.Data[i].P95Ms = took[i].percentile(50), took[i].percentile(95)
	}
}
