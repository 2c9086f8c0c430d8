package store_test

import (
	"testing"

	"parley/migrations"
)

// The migration of budgets that is run again takes over what was removed before it once, and nothing that was counted since.
func TestMigratingBudgetsAgain(t *testing.T) {
	t.Parallel()
	_, db := released(t)
	const budgets = 17
	if err := migrations.To(t.Context(), db, budgets-1); err != nil {
		t.Fatal(err)
	}
	const columns = `runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros`
	mustExec(t, db, `INSERT INTO past_usage (org_id, hour, target_id, took, `+columns+`) VALUES ('org_a', '2026-11-20T10:00Z', 'ag_a', '{}', 5, 5, 0, 0, 0, 1, 1, 1)`)
	if err := migrations.To(t.Context(), db, budgets); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`INSERT INTO past_usage (org_id, hour, target_id, took, ` + columns + `) VALUES ('org_a', '2026-11-21T10:00Z', 'ag_a', '{}', 3, 3, 0, 0, 0, 1, 1, 1)`,
		`INSERT INTO past_usage_by (org_id, day, target_id, key_id, automation_id, sandbox_ms, ` + columns + `)
			VALUES ('org_a', '2026-11-21', 'ag_a', 'key_a', '', 0, 3, 3, 0, 0, 0, 1, 1, 1)`,
		`DELETE FROM goose_db_version WHERE version_id = 17`,
		`DROP POLICY tenant ON budgets`,
		`DROP TABLE budget_holds`,
		`DROP TRIGGER runs_within_budgets ON runs`,
		`DROP FUNCTION settle_lost_budgets, prune_past_2`,
		`GRANT CREATE ON SCHEMA public TO parley_system`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	wantTenancy(t, db)
	got := texts(t, db, `SELECT day || ' ' || key_id || ' ' || runs FROM past_usage_by ORDER BY day`)
	if len(got) != 2 || got[0] != "2026-11-20  5" || got[1] != "2026-11-21 key_a 3" {
		t.Errorf("removed runs: %q", got)
	}
}
