package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	// usageTime bounds counting: an organization with very many runs must not keep the database from its work.
	usageTime = 5 * time.Second
	// idSkew is by how much the clocks of those who made runs' ids may differ from the database's, by which runs are counted.
	idSkew = time.Hour
	// hourlyDays is how many days are shown by the hour.
	hourlyDays = 2
)

// UsageFilter says which runs count.
type UsageFilter struct {
	Days    int    // today by UTC, and so many less one before; of up to two days so many times 24 hours, this one and those before
	AgentID string // "" for all, also those of templates
}

// intervals gives the beginning of the first interval, how long each is and how many they are, the one of now being the last.
func (f UsageFilter) intervals(now time.Time) (from time.Time, each time.Duration, n int) {
	each, n = 24*time.Hour, f.Days
	if f.Days <= hourlyDays {
		each, n = time.Hour, 24*f.Days
	}
	return now.UTC().Truncate(each).Add(-time.Duration(n-1) * each), each, n
}

type usageRow struct {
	Interval sql.NullInt64 `db:"interval"` // its number; null: all together
	domain.Consumption
}

// Ids of runs begin with their time, so that the interval is a range of the index runs_org.
const usageQuery = `WITH counted AS (
	  SELECT floor(extract(epoch FROM r.created_at - $4::timestamptz) / $6)::int AS interval, r.status, r.input_tokens, r.output_tokens, r.cost_micros,
	    CASE WHEN r.status IS NOT NULL THEN greatest(round(extract(epoch FROM r.finished_at - r.created_at) * 1000), 0)::bigint END AS took
	  FROM runs r WHERE r.org_id = $1 AND r.id >= $2 AND ($3 = '' OR r.agent_id = $3) AND r.created_at >= $4 AND r.created_at < $5
	)
	SELECT interval, count(*) AS runs, count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
	  count(*) FILTER (WHERE status = 'cancelled') AS cancelled, count(*) FILTER (WHERE status = 'timed_out') AS timed_out,
	  coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
	  coalesce(sum(cost_micros), 0)::bigint AS cost_micros,
	  percentile_disc(0.5) WITHIN GROUP (ORDER BY took) AS p50_ms, percentile_disc(0.95) WITHIN GROUP (ORDER BY took) AS p95_ms
	FROM counted GROUP BY GROUPING SETS ((interval), ()) ORDER BY interval`

// Usage counts what an organization's runs came to until now. Runs that were removed, their retention being over, are counted no more;
// those that were erased are.
func (s *Store) Usage(ctx context.Context, org string, f UsageFilter, now time.Time) (domain.UsageReport, error) {
	from, each, n := f.intervals(now)
	out := domain.UsageReport{Interval: "day", From: domain.At(from), To: domain.At(now), Data: make([]domain.UsageInterval, n)}
	if each == time.Hour {
		out.Interval = "hour"
	}
	for i := range out.Data {
		out.Data[i].StartsAt = domain.At(from.Add(time.Duration(i) * each))
	}
	var rows []usageRow
	err := s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, usageTime.Milliseconds())); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &rows, usageQuery, org, id.First(id.Run, from.Add(-idSkew)), f.AgentID, from, now, each.Seconds())
	})
	if hasCode(err, "57014") {
		slow := apierr.Wrap(apierr.Unavailable, err, "there are more runs than can be counted now; ask for fewer days, or again later")
		slow.RetryAfter = usageTime
		return domain.UsageReport{}, slow
	}
	if err != nil {
		return domain.UsageReport{}, fmt.Errorf("counting usage: %w", err)
	}
	for _, row := range rows {
		switch i := row.Interval.Int64; {
		case !row.Interval.Valid:
			out.Totals = row.Consumption
		case i >= 0 && i < int64(n):
			out.Data[i].Consumption = row.Consumption
		}
	}
	return out, nil
}
