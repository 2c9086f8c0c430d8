package usagedb

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// UsageBy is a grouping of usage.
type UsageBy string

// The groupings.
const (
	UsageByAgent      UsageBy = "agent" // or template
	UsageByKey        UsageBy = "key"
	UsageByAutomation UsageBy = "automation"
)

// maxUsageGroups is the maximum number of groups that are shown separately.
const maxUsageGroups = 100

// usageGroupsQuery counts runs, grouped by the expression in parameter 8. It returns the $9 most
// expensive groups separately and the sum of all other groups.
const usageGroupsQuery = `WITH counted AS (
	  SELECT CASE $8 WHEN 'agent' THEN coalesce(r.agent_id, r.template_id) WHEN 'key' THEN r.key_id ELSE r.automation_id END COLLATE "C" AS id,
	    count(*) AS runs, count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
	    count(*) FILTER (WHERE status = 'cancelled') AS cancelled, count(*) FILTER (WHERE status = 'timed_out') AS timed_out,
	    sum(r.input_tokens) AS input_tokens, sum(r.output_tokens) AS output_tokens, sum(r.cost_micros) AS cost_micros,
	    sum(r.sandbox_ms) AS sandbox_ms
	  FROM runs r WHERE r.org_id = $1 AND r.id >= $2 AND ($3 = '' OR r.agent_id = $3) AND r.created_at >= $4 AND r.created_at < $5
	    AND ($6 = '' OR r.key_id = $6) AND ($7 = '' OR r.automation_id = $7) GROUP BY 1
	  UNION ALL SELECT nullif(CASE $8 WHEN 'agent' THEN p.target_id WHEN 'key' THEN p.key_id ELSE p.automation_id END, ''),
	    sum(p.runs), sum(p.completed), sum(p.failed), sum(p.cancelled), sum(p.timed_out), sum(p.input_tokens), sum(p.output_tokens),
	    sum(p.cost_micros), sum(p.sandbox_ms)
	  FROM past_usage_by p WHERE p.org_id = $1 AND p.day >= ($4::timestamptz AT TIME ZONE 'UTC')::date
	    AND p.day::timestamp AT TIME ZONE 'UTC' < $5 AND ($3 = '' OR p.target_id = $3)
	    AND ($6 = '' OR p.key_id = $6) AND ($7 = '' OR p.automation_id = $7) GROUP BY 1
	), ranked AS (
	  SELECT id, row_number() OVER (ORDER BY coalesce(sum(cost_micros), 0) DESC, sum(runs) DESC, id) > $9 AS others,
	    sum(runs) AS runs, sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled, sum(timed_out) AS timed_out,
	    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_micros) AS cost_micros, sum(sandbox_ms) AS sandbox_ms
	  FROM counted GROUP BY id
	)
	SELECT CASE WHEN NOT others THEN id END AS id, others, sum(runs)::bigint AS runs, sum(completed)::bigint AS completed,
	  sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled, sum(timed_out)::bigint AS timed_out,
	  coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
	  coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(sum(sandbox_ms), 0)::bigint AS sandbox_ms
	FROM ranked GROUP BY 1, 2 ORDER BY others, cost_micros DESC, runs DESC, id`

// usageGroups counts an organization's runs between the arguments from and now, grouped by f.By. It
// counts only runs whose ids are at least the argument first. It does not report durations.
func usageGroups(ctx context.Context, tx *sqlx.Tx, org, first string, f UsageFilter, from, now time.Time) ([]domain.UsageGroup, error) {
	groups := []domain.UsageGroup{}
	err := tx.SelectContext(ctx, &groups, usageGroupsQuery, org, first, f.AgentID, from, now, f.KeyID, f.AutomationID, string(f.By),
		maxUsageGroups)
	return groups, err
}
