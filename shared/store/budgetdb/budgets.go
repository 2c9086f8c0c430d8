package budgetdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// MaxBudgets is how many budgets an organization may have: each that a run falls under is counted at each of its calls.
const MaxBudgets = 100

// MaxBudget is the most that a budget's limit can be: sums of what is used stay far from where numbers end.
const MaxBudget = 1_000_000_000_000_000

// budgetRow is a budget with what is counted of it in the period that goes on; amounts are as the database counts them.
type budgetRow struct {
	ID        string       `db:"id"`
	Scope     string       `db:"scope"`
	SubjectID *string      `db:"subject_id"`
	Metric    string       `db:"metric"`
	Period    string       `db:"period"`
	Max       int64        `db:"most"`
	Used      int64        `db:"used"`
	Reserved  int64        `db:"reserved"`
	StartsOn  time.Time    `db:"starts_on"`
	CreatedAt *domain.Time `db:"created_at"`
	UpdatedAt *domain.Time `db:"updated_at"`
}

// unit is how many of the database's count make one of the metric.
func unit(metric domain.BudgetMetric) int64 {
	if metric == domain.BudgetSandbox {
		return 1000 // it counts milliseconds
	}
	return 1
}

func (row budgetRow) budget() domain.Budget {
	b := domain.Budget{
		ID: row.ID, Scope: domain.BudgetScope(row.Scope), SubjectID: row.SubjectID, Metric: domain.BudgetMetric(row.Metric),
		Period: domain.BudgetPeriod(row.Period), CreatedAt: *row.CreatedAt, UpdatedAt: *row.UpdatedAt,
	}
	each := unit(b.Metric)
	b.Limit, b.Used, b.Reserved = row.Max/each, (row.Used+each-1)/each, (row.Reserved+each-1)/each
	resets := row.StartsOn.AddDate(0, 0, 1)
	if b.Period == domain.BudgetMonth {
		resets = row.StartsOn.AddDate(0, 1, 0)
	}
	b.ResetsAt = domain.At(resets)
	return b
}

// budgetSelect reads budgets k as they stand now. Of a period that nobody has counted in nothing is used: see openBudgets.
const budgetSelect = `SELECT k.id, k.scope, k.subject_id, k.metric, k.period, k.most, k.created_at, k.updated_at, p.starts_on,
	coalesce(c.used, 0) AS used, coalesce(c.reserved, 0) AS reserved
	FROM budgets k CROSS JOIN LATERAL (SELECT budget_start(k.period, clock_timestamp()) AS starts_on) p
	LEFT JOIN budget_counts c ON c.budget_id = k.id AND c.starts_on = p.starts_on WHERE k.org_id = $1 `

// openBudgets gives budgets k of an organization a count for the period that goes on, where they have none yet: what runs have used of it
// is looked up then, and never again.
const openBudgets = `SELECT open_budget(k, budget_start(k.period, clock_timestamp())) FROM budgets k
	WHERE k.org_id = $1 AND NOT EXISTS (SELECT FROM budget_counts c
	  WHERE c.budget_id = k.id AND c.starts_on = budget_start(k.period, clock_timestamp())) `

// covered are the budgets that runs fall under of an agent $2, by a key $3, of an automation $4.
const covered = `AND budget_covers(k.scope, k.subjects, $2, $3, $4) `

// selectBudgets reads budgets k of an organization: which says by the parameters from $2 on of which of them the count is opened, and
// then those are read that tail leaves.
func (s *Store) selectBudgets(ctx context.Context, org, which, tail string, args ...any) ([]budgetRow, error) {
	var rows []budgetRow
	args = append([]any{org}, args...)
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		if _, err := tx.ExecContext(ctx, openBudgets+which+`ORDER BY k.id`, args...); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &rows, budgetSelect+which+tail, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("reading budgets: %w", err)
	}
	return rows, nil
}

// Budgets lists up to limit budgets of an organization, newest first, older than the one of the id after.
func (s *Store) Budgets(ctx context.Context, org, after string, limit int) ([]domain.Budget, error) {
	rows, err := s.selectBudgets(ctx, org, `AND ($2 = '' OR k.id < $2) `, `ORDER BY k.id DESC LIMIT `+strconv.Itoa(limit), after)
	return pg.Column(rows, func(row *budgetRow) domain.Budget { return row.budget() }), err
}

// Budget reads one budget of an organization.
func (s *Store) Budget(ctx context.Context, org, budgetID string) (domain.Budget, error) {
	rows, err := s.selectBudgets(ctx, org, `AND k.id = $2 `, ``, budgetID)
	if err == nil && len(rows) == 0 {
		err = pg.NotFound()
	}
	if err != nil {
		return domain.Budget{}, err
	}
	return rows[0].budget(), nil
}

// CreateBudget stores a budget of an organization: its scope, subject, metric, period and limit. The subject must be an agent or a key of
// the organization's; of an automation it is any name. A second one of the same is refused, and so are more than MaxBudgets. What its runs
// have used is looked up behind it, in a transaction by itself.
func (s *Store) CreateBudget(ctx context.Context, org string, b domain.Budget) (domain.Budget, error) {
	b.ID = id.New(id.Budget)
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if err := checkBudget(ctx, tx, org, b); err != nil {
			return err
		}
		subjects := []string{}
		if b.SubjectID != nil {
			subjects = []string{*b.SubjectID}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO budgets (id, org_id, scope, subject_id, subjects, metric, period, most)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			b.ID, org, b.Scope, b.SubjectID, pq.Array(subjects), b.Metric, b.Period, b.Limit*unit(b.Metric))
		if pg.Violates(err, "budgets_one") {
			return apierr.New(apierr.Conflict, "a budget with this metric and period exists: change its limit")
		}
		return err
	})
	if err != nil {
		return domain.Budget{}, fmt.Errorf("creating budget: %w", err)
	}
	s.budgeted.forget(org)
	return s.Budget(ctx, org, b.ID)
}

// checkBudget looks whether a budget's subject is there, and whether there may be another budget.
func checkBudget(ctx context.Context, tx *sqlx.Tx, org string, b domain.Budget) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('parley.budgets ' || $1, 0))`, org); err != nil {
		return err
	}
	var n int
	if err := tx.GetContext(ctx, &n, `SELECT count(*) FROM budgets WHERE org_id = $1`, org); err != nil {
		return err
	}
	if n >= MaxBudgets {
		return apierr.New(apierr.Conflict, "budget quota of the organization exceeded (%d); delete a budget first", MaxBudgets)
	}
	query := map[domain.BudgetScope]string{
		domain.BudgetAgent: `SELECT EXISTS (SELECT FROM agents WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL)`,
		domain.BudgetKey:   `SELECT EXISTS (SELECT FROM api_keys WHERE id = $1 AND org_id = $2 AND scope = 'organization' AND revoked_at IS NULL)`,
	}[b.Scope]
	if query == "" {
		return nil
	}
	var there bool
	if err := tx.GetContext(ctx, &there, query, *b.SubjectID, org); err != nil {
		return err
	}
	if !there {
		return apierr.Invalid("subjectId", "invalid_value", "must be an agent or an API key of the organization")
	}
	return nil
}

// UpdateBudget changes a budget's limit; what is used of it stays.
func (s *Store) UpdateBudget(ctx context.Context, org, budgetID string, limit int64) (domain.Budget, error) {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return changedOne(tx.ExecContext(ctx, `UPDATE budgets SET updated_at = clock_timestamp(),
			most = $3 * CASE metric WHEN 'sandboxSeconds' THEN 1000 ELSE 1 END WHERE id = $1 AND org_id = $2`, budgetID, org, limit))
	})
	if err != nil {
		return domain.Budget{}, fmt.Errorf("changing budget: %w", err)
	}
	return s.Budget(ctx, org, budgetID)
}

// DeleteBudget removes a budget with what was counted of it.
func (s *Store) DeleteBudget(ctx context.Context, org, budgetID string) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return changedOne(tx.ExecContext(ctx, `DELETE FROM budgets WHERE id = $1 AND org_id = $2`, budgetID, org))
	})
	if err != nil {
		return fmt.Errorf("deleting budget: %w", err)
	}
	return nil
}

// changedOne is not_found unless a statement changed a row.
func changedOne(done sql.Result, err error) error {
	changed, err := pg.AnyRow(done, err)
	if err == nil && !changed {
		err = pg.NotFound()
	}
	return err
}

// MoveBudgets lets the budgets of a key go on as those of the key that takes its place; they count both.
func MoveBudgets(ctx context.Context, tx *sqlx.Tx, org, from, to string) error {
	_, err := tx.ExecContext(ctx, `UPDATE budgets SET subject_id = $3, subjects = subjects || $3::text
		WHERE org_id = $1 AND scope = 'key' AND subject_id = $2`, org, from, to)
	if err != nil {
		return fmt.Errorf("moving budgets to the new key: %w", err)
	}
	return nil
}

// ErrRunsUsedUp is the cause of a refusal by a budget of runs: what begins none is not refused by it.
var ErrRunsUsedUp = errors.New("a budget of runs is used up")

// UsedUp is the refusal of what a budget has no room for: budget_exceeded, until the budget begins anew.
func UsedUp(b domain.Budget) *apierr.Error {
	e := apierr.New(apierr.BudgetExceeded, "%s", spent(b))
	if b.Metric == domain.BudgetRuns {
		e.Err = ErrRunsUsedUp
	}
	e.RetryAfter = max(time.Until(b.ResetsAt.Time), time.Second)
	return e
}

// spent says which budget has no room.
func spent(b domain.Budget) string {
	whose := "the organization's"
	if b.SubjectID != nil {
		whose = fmt.Sprintf("the %s's (%s)", b.Scope, *b.SubjectID)
	}
	what := map[domain.BudgetMetric]string{
		domain.BudgetCost: "millionths of the currency", domain.BudgetTokens: "tokens", domain.BudgetRuns: "runs",
		domain.BudgetSandbox: "seconds in sandboxes",
	}[b.Metric]
	state := "is used up"
	if b.Used < b.Limit {
		state = fmt.Sprintf("has no room for another call (%d used)", b.Used)
	}
	return fmt.Sprintf("%s budget of %d %s per %s %s; its next period starts at %s (%s)",
		whose, b.Limit, what, b.Period, state, b.ResetsAt.UTC().Format(time.RFC3339), b.ID)
}

// WithinBudget refuses a new run when one of the budgets that it would fall under is used up: budget_exceeded. keyID and
// automationID are "" for none. ErrRunsUsedUp is its cause when none but budgets of runs are. An organization without budgets is not
// looked up each time. Counts that the run is accepted by are open then: the statement that accepts it, with others, has nothing to look
// up.
func (s *Store) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	some, err := s.Budgeted(ctx, org)
	if err != nil || !some {
		return err
	}
	rows, err := s.selectBudgets(ctx, org, covered, `AND c.used >= k.most ORDER BY k.metric = 'runs', k.id LIMIT 1`,
		pg.Optional(agentID), pg.Optional(keyID), pg.Optional(automationID))
	if err != nil || len(rows) == 0 {
		return err
	}
	return UsedUp(rows[0].budget())
}

// Rejected is why an organization's run was not accepted. One for which a budget of runs has no room is refused by budget_exceeded.
func (s *Store) Rejected(ctx context.Context, org, doing string, cause error) error {
	pqErr, ok := errors.AsType[*pq.Error](cause)
	if !ok || pqErr.Code != "23B01" {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	budgetID, _, _ := strings.Cut(pqErr.Detail, " ")
	b, err := s.Budget(ctx, org, budgetID)
	if err != nil { // it was deleted meanwhile, or cannot be read: the next request knows more
		e := apierr.Wrap(apierr.BudgetExceeded, err, "a budget of runs is used up")
		e.RetryAfter = time.Second
		return e
	}
	return UsedUp(b)
}
