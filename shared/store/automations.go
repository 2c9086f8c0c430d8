package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// ofAutomation restricts runs to those of an automation; the index runs_automation is in this order.
const ofAutomation = `r.automation_id COLLATE "C"`

// From one automation to the next along the index, however many runs each has, and of each the newest run. That the order names the automation
// keeps the planner from looking for it among all of the organization's newest runs.
const automationsQuery = `WITH RECURSIVE named AS (
	  (SELECT ` + ofAutomation + ` AS name, 1 AS n FROM runs r
	    WHERE r.org_id = $1 AND ` + ofAutomation + ` > $2 AND` + runLive + `ORDER BY ` + ofAutomation + ` LIMIT 1)
	  UNION ALL
	  SELECT next.name, named.n + 1 FROM named CROSS JOIN LATERAL (SELECT ` + ofAutomation + ` AS name FROM runs r
	    WHERE r.org_id = $1 AND ` + ofAutomation + ` > named.name AND` + runLive + `ORDER BY ` + ofAutomation + ` LIMIT 1) next
	  WHERE named.n < $3
	)
	SELECT named.name, coalesce(last.agent_id, last.template_id) AS target_id, last.trigger_type, last.id,
	  coalesce(last.status, o.status, 'queued') AS status, last.created_at, last.finished_at
	FROM named CROSS JOIN LATERAL (SELECT r.id, r.agent_id, r.template_id, r.trigger_type, r.status, r.created_at, r.finished_at FROM runs r
	  WHERE r.org_id = $1 AND ` + ofAutomation + ` = named.name AND` + runLive + `ORDER BY ` + ofAutomation + ` DESC, r.id DESC LIMIT 1) last
	LEFT JOIN open_runs o ON o.run_id = last.id ORDER BY named.n`

// Automations reads up to limit automations of an organization by their names, behind one. They are known by their runs: of one whose runs
// were all erased or removed nothing is.
func (s *Store) Automations(ctx context.Context, org, after string, limit int) ([]domain.Automation, error) {
	var rows []struct {
		Name        string       `db:"name"`
		TargetID    string       `db:"target_id"`
		TriggerType string       `db:"trigger_type"`
		RunID       string       `db:"id"`
		Status      string       `db:"status"`
		CreatedAt   time.Time    `db:"created_at"`
		FinishedAt  *domain.Time `db:"finished_at"`
	}
	err := s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		// While little is known of the table, reading all of the organization's runs and sorting them looks cheaper.
		if _, err := tx.ExecContext(ctx, `SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &rows, automationsQuery, org, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing automations: %w", err)
	}
	out := make([]domain.Automation, len(rows))
	for i, row := range rows {
		out[i] = domain.Automation{ID: row.Name, AgentID: row.TargetID, TriggerType: row.TriggerType, LastRun: domain.AutomationRun{
			ID: row.RunID, Status: domain.RunStatus(row.Status), CreatedAt: domain.At(row.CreatedAt), FinishedAt: row.FinishedAt,
		}}
	}
	return out, nil
}
