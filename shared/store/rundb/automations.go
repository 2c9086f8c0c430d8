package rundb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// ofAutomation is an SQL expression for the automation of a run. It is identical to the expression
// in the index runs_automation.
const ofAutomation = `r.automation_id COLLATE "C"`

// PastAutomations is how long an automation is still listed after its newest run, if all its runs
// have been removed.
const PastAutomations = 90 * 24 * time.Hour

// automationsQuery walks from one automation to the next along the index, regardless of how many
// runs each automation has. For each automation, it returns the newest run. It also returns
// automations whose runs are all removed. The ORDER BY includes the automation, so that the planner
// does not search all of the organization's newest runs.
const automationsQuery = `WITH RECURSIVE named AS (
	  (SELECT ` + ofAutomation + ` AS name, 1 AS n FROM runs r
	    WHERE r.org_id = $1 AND ` + ofAutomation + ` > $2 ORDER BY ` + ofAutomation + ` LIMIT 1)
	  UNION ALL
	  SELECT next.name, named.n + 1 FROM named CROSS JOIN LATERAL (SELECT ` + ofAutomation + ` AS name FROM runs r
	    WHERE r.org_id = $1 AND ` + ofAutomation + ` > named.name ORDER BY ` + ofAutomation + ` LIMIT 1) next
	  WHERE named.n < $3
	), listed AS (
	  SELECT name FROM named
	  UNION (SELECT p.automation_id FROM past_automations p WHERE p.org_id = $1 AND p.automation_id > $2
	    AND p.created_at > clock_timestamp() - $4::interval ORDER BY p.automation_id LIMIT $3)
	  ORDER BY name LIMIT $3
	) ` + newestRuns + ` ORDER BY listed.name`

// automationQuery reads the automation $2 of organization $1 by its name. It returns no row if the
// automation is no longer listed.
const automationQuery = `WITH listed AS (SELECT $2::text AS name) ` + newestRuns + `
	WHERE last.created_at > clock_timestamp() - $3::interval
	  OR EXISTS (SELECT FROM runs r WHERE r.org_id = $1 AND ` + ofAutomation + ` = $2)`

// newestRuns joins the newest run to each listed automation of organization $1.
const newestRuns = `SELECT listed.name, last.target_id, last.trigger_type, last.id, coalesce(last.status, o.status, 'queued') AS status,
	  last.created_at, last.finished_at, last.kept
	FROM listed CROSS JOIN LATERAL (
	  (SELECT r.id, coalesce(r.agent_id, r.template_id) AS target_id, r.trigger_type, r.status, r.created_at, r.finished_at,` + RunLive + `AS kept
	    FROM runs r WHERE r.org_id = $1 AND ` + ofAutomation + ` = listed.name ORDER BY ` + ofAutomation + ` DESC, r.id DESC LIMIT 1)
	  UNION ALL SELECT p.run_id, p.target_id, p.trigger_type, p.status, p.created_at, p.finished_at, false
	    FROM past_automations p WHERE p.org_id = $1 AND p.automation_id = listed.name
	  ORDER BY id DESC LIMIT 1) last
	LEFT JOIN open_runs o ON o.run_id = last.id`

// automationRow is a row of newestRuns: an automation and its newest run.
type automationRow struct {
	Name        string       `db:"name"`
	TargetID    string       `db:"target_id"`
	TriggerType string       `db:"trigger_type"`
	RunID       string       `db:"id"`
	Status      string       `db:"status"`
	CreatedAt   time.Time    `db:"created_at"`
	FinishedAt  *domain.Time `db:"finished_at"`
	Kept        bool         `db:"kept"` // the run can still be read
}

// automation converts the row. Its FinishedAt is nil while the newest run is open.
func (row *automationRow) automation() domain.Automation {
	return domain.Automation{ID: row.Name, AgentID: row.TargetID, TriggerType: row.TriggerType, LastRun: domain.AutomationRun{
		ID: row.RunID, Status: domain.RunStatus(row.Status), CreatedAt: domain.At(row.CreatedAt), FinishedAt: row.FinishedAt, Kept: row.Kept,
	}}
}

// Automations lists the automations of an organization by name, at most limit of them, starting
// after the given name. An automation is a name that a caller gives to the runs of the same
// purpose. It is listed while it has runs, and for the duration PastAutomations after its newest
// run if retention has removed its runs. If all its runs were erased, it is not listed.
func (s *Store) Automations(ctx context.Context, org, after string, limit int) ([]domain.Automation, error) {
	var rows []automationRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		// Without statistics the planner prefers to read and sort all runs of the organization.
		if _, err := tx.ExecContext(ctx, `SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &rows, automationsQuery, org, after, limit, pg.Interval(PastAutomations))
	})
	if err != nil {
		return nil, fmt.Errorf("listing automations: %w", err)
	}

	return pg.Column(rows, func(row *automationRow) domain.Automation { return row.automation() }), nil
}

// Automation returns an automation of an organization by its name. It returns not_found if no
// automation has that name.
func (s *Store) Automation(ctx context.Context, org, name string) (domain.Automation, error) {
	var row automationRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, automationQuery, org, name, pg.Interval(PastAutomations))
	})
	if err := pg.OneRow(err, "reading automation"); err != nil {
		return domain.Automation{}, err
	}
	return row.automation(), nil
}
