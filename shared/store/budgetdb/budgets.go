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

// MaxBudgets is the maximum number of budgets of an organization. Every call in a run counts
// against each budget that covers the run.
const MaxBudgets = 100

// MaxBudget is the highest limit of a budget. It keeps the sums of used amounts far from an
// integer overflow.
const MaxBudget = 1_000_000_000_000_000

// budgetRow is a budget with its counts in the current period, in the units of the database:
// tokens, runs, milliseconds, or millionths of the currency.
type budgetRow struct {
	ID        string       `db:"id"`
	Scope     string       `db:"scope"`
	SubjectID *string      `db:"subject_id"`
	Metric    string       `db:"metric"`
	Period    string       `db:"period"`
	Max       int64        `db:"most"` // the limit
	Used      int64        `db:"used"`
	Reserved  int64        `db:"reserved"`
	StartsOn  time.Time    `db:"starts_on"` // the first day of the current period, in UTC
	CreatedAt *domain.Time `db:"created_at"`
	UpdatedAt *domain.Time `db:"updated_at"`

	SubjectName *string `db:"subject_name"` // name of the agent or key; nil: there is none, or it is deleted
}

// unit returns the number of database units in one unit of the metric.
func unit(metric domain.BudgetMetric) int64 {
	if metric == domain.BudgetSandbox {
		return 1000 // the database counts milliseconds
	}
	return 1
}

// budget returns the budget of a row in the units of the metric. Used and reserved amounts are
// rounded up, so that fractions of a second are visible.
func (s *Store) budget(row *budgetRow) domain.Budget {
	b := domain.Budget{
		ID: row.ID, Scope: domain.BudgetScope(row.Scope), SubjectID: row.SubjectID, Metric: domain.BudgetMetric(row.Metric),
		Period: domain.BudgetPeriod(row.Period), CreatedAt: *row.CreatedAt, UpdatedAt: *row.UpdatedAt,
		SubjectName: row.SubjectName,
	}

	each := unit(b.Metric)
	b.Limit, b.Used, b.Reserved = row.Max/each, (row.Used+each-1)/each, (row.Reserved+each-1)/each

	if b.Metric == domain.BudgetCost {
		b.Currency = s.currency
	}

	resets := row.StartsOn.AddDate(0, 0, 1)
	if b.Period == domain.BudgetMonth {
		resets = row.StartsOn.AddDate(0, 1, 0)
	}
	b.ResetsAt = domain.At(resets)
	return b
}

// budgetSelect reads budgets k with their current counts. If budget_counts has no row for a period,
// its usage counts as 0; see openBudgets.
const budgetSelect = `SELECT k.id, k.scope, k.subject_id, k.metric, k.period, k.most, k.created_at, k.updated_at, p.starts_on,
	coalesce(c.used, 0) AS used, coalesce(c.reserved, 0) AS reserved,
	CASE k.scope WHEN 'agent' THEN (SELECT a.name FROM agents a WHERE a.id = k.subject_id AND a.org_id = k.org_id)
	  WHEN 'key' THEN (SELECT ak.name FROM api_keys ak WHERE ak.id = k.subject_id AND ak.org_id = k.org_id) END AS subject_name
	FROM budgets k CROSS JOIN LATERAL (SELECT budget_start(k.period, clock_timestamp()) AS starts_on) p
	LEFT JOIN budget_counts c ON c.budget_id = k.id AND c.starts_on = p.starts_on WHERE k.org_id = $1 `

// openBudgets creates the missing counts of the current period for budgets k of an organization.
// When it creates a count, it sums up the usage of earlier runs in the period.
const openBudgets = `SELECT open_budget(k, budget_start(k.period, clock_timestamp())) FROM budgets k
	WHERE k.org_id = $1 AND NOT EXISTS (SELECT FROM budget_counts c
	  WHERE c.budget_id = k.id AND c.starts_on = budget_start(k.period, clock_timestamp())) `

// covered selects the budgets that cover a run of agent $2 that was started with key $3 or by
// automation $4.
const covered = `AND budget_covers(k.scope, k.subjects, $2, $3, $4) `

// selectBudgets reads budgets of an organization and opens their counts. The argument which is an
// SQL condition on budgets k; its parameters are numbered from $2. The argument tail is an SQL
// clause that restricts or orders the returned budgets.
func (s *Store) selectBudgets(ctx context.Context, org, which, tail string, args ...any) ([]budgetRow, error) {
	var rows []budgetRow
	args = append([]any{org}, args...)
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil

		// Counts are opened in the order of the budgets' ids, so that concurrent requests cannot
		// deadlock.
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

// Budgets lists up to limit budgets of an organization, newest first. after, if not empty, is
// the last id of the previous page.
func (s *Store) Budgets(ctx context.Context, org, after string, limit int) ([]domain.Budget, error) {
	rows, err := s.selectBudgets(ctx, org, `AND ($2 = '' OR k.id < $2) `, `ORDER BY k.id DESC LIMIT `+strconv.Itoa(limit), after)
	return pg.Column(rows, s.budget), err
}

// Budget returns a budget of an organization with its counts in the current period. It returns
// not_found if no budget has this id.
func (s *Store) Budget(ctx context.Context, org, budgetID string) (domain.Budget, error) {
	rows, err := s.selectBudgets(ctx, org, `AND k.id = $2 `, ``, budgetID)
	if err == nil && len(rows) == 0 {
		err = pg.NotFound()
	}
	if err != nil {
		return domain.Budget{}, err
	}
	return s.budget(&rows[0]), nil
}

// CreateBudget stores a budget of an organization with its scope, subject, metric, period and
// limit; the limit is in units of the metric. The subject must be an agent or a key of the
// organization; for an automation any name is allowed. CreateBudget returns conflict if the subject
// already has a budget with this metric and period, or if the organization already has MaxBudgets
// budgets. A separate transaction then sums up the usage of earlier runs.
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
			return errBudgetExists
		}

		return err
	})
	if errors.Is(err, errBudgetExists) {
		return domain.Budget{}, s.existing(ctx, org, b)
	}
	if err != nil {
		return domain.Budget{}, fmt.Errorf("creating budget: %w", err)
	}

	// This process applies the budget immediately. Other processes apply it when their cached
	// results expire.
	s.budgeted.forget(org)
	return s.Budget(ctx, org, b.ID)
}

var errBudgetExists = errors.New("budget exists")

// existing returns the error for a new budget whose subject already has a budget with its metric
// and period.
func (s *Store) existing(ctx context.Context, org string, b domain.Budget) error {
	const same = `AND k.scope = $2 AND k.subject_id IS NOT DISTINCT FROM $3 AND k.metric = $4 AND k.period = $5 `
	rows, err := s.selectBudgets(ctx, org, same, ``, b.Scope, b.SubjectID, b.Metric, b.Period)
	if err != nil {
		return err
	}
	if len(rows) == 0 { // deleted in the meantime
		return apierr.New(apierr.Conflict, "a budget with this metric and period existed; try again")
	}

	found := s.budget(&rows[0])
	return apierr.New(apierr.Conflict, "%s already has a budget of %s per %s (%s); change its limit",
		subject(found), amount(found), found.Period, found.ID)
}

// checkBudget returns an error if a budget's subject does not exist or the organization already has
// MaxBudgets budgets.
func checkBudget(ctx context.Context, tx *sqlx.Tx, org string, b domain.Budget) error {
	// The lock makes concurrent creations wait for each other, so that the organization cannot get
	// more than MaxBudgets budgets.
	if err := pg.AdvisoryLock(ctx, tx, "parley.budgets "+org); err != nil {
		return err
	}
	if err := pg.CheckQuota(ctx, tx, MaxBudgets, "budget quota of the organization exceeded (%d); delete a budget first",
		`SELECT count(*) FROM budgets WHERE org_id = $1`, org); err != nil {
		return err
	}

	// The subject of a budget for an automation is only a name, so there is no row to check.
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

// UpdateBudget changes a budget's limit, in units of the metric. The amount used does not change.
// UpdateBudget returns not_found if no budget has this id.
func (s *Store) UpdateBudget(ctx context.Context, org, budgetID string, limit int64) (domain.Budget, error) {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return requireRow(tx.ExecContext(ctx, `UPDATE budgets SET updated_at = clock_timestamp(),
			most = $3::bigint * CASE metric WHEN 'sandboxSeconds' THEN 1000 ELSE 1 END WHERE id = $1 AND org_id = $2`, budgetID, org, limit))
	})
	if err != nil {
		return domain.Budget{}, fmt.Errorf("changing budget: %w", err)
	}
	return s.Budget(ctx, org, budgetID)
}

// DeleteBudget deletes a budget and its counts. It returns not_found if no budget has this id.
func (s *Store) DeleteBudget(ctx context.Context, org, budgetID string) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return requireRow(tx.ExecContext(ctx, `DELETE FROM budgets WHERE id = $1 AND org_id = $2`, budgetID, org))
	})
	if err != nil {
		return fmt.Errorf("deleting budget: %w", err)
	}
	return nil
}

// requireRow returns not_found unless a statement changed a row.
func requireRow(done sql.Result, err error) error {
	changed, err := pg.AnyRow(done, err)
	if err == nil && !changed {
		err = pg.NotFound()
	}
	return err
}

// MoveBudgets assigns the budgets of a key to the key that replaces it. The budgets count the usage
// of both keys. MoveBudgets is part of the transaction that rotates the key.
func MoveBudgets(ctx context.Context, tx *sqlx.Tx, org, from, to string) error {
	_, err := tx.ExecContext(ctx, `UPDATE budgets SET subject_id = $3, subjects = subjects || $3::text
		WHERE org_id = $1 AND scope = 'key' AND subject_id = $2`, org, from, to)
	if err != nil {
		return fmt.Errorf("moving budgets to the new key: %w", err)
	}
	return nil
}

// ErrRunsUsedUp is the cause of a rejection by a budget that limits the number of runs. Such a
// budget rejects only requests that would start a new run.
var ErrRunsUsedUp = errors.New("a budget for the number of runs is used up")

// UsedUp returns the budget_exceeded error for an exhausted budget. Its RetryAfter is the time
// until the budget resets.
func UsedUp(b domain.Budget) *apierr.Error {
	e := apierr.New(apierr.BudgetExceeded, "%s", exhaustedMessage(b))
	if b.Metric == domain.BudgetRuns {
		e.Err = ErrRunsUsedUp
	}
	e.RetryAfter = max(time.Until(b.ResetsAt.Time), time.Second)
	return e
}

// subject names the subject of a budget.
func subject(b domain.Budget) string {
	switch {
	case b.SubjectID == nil:
		return "the organization"
	case b.SubjectName != nil:
		return fmt.Sprintf("the %s %q (%s)", b.Scope, *b.SubjectName, *b.SubjectID)
	default:
		return fmt.Sprintf("the %s %s", b.Scope, *b.SubjectID)
	}
}

// amount returns the limit of a budget with its unit, for example "1 run" or "0.50 USD".
func amount(b domain.Budget) string {
	if b.Metric == domain.BudgetCost {
		return domain.Money(b.Limit, b.Currency)
	}
	noun := map[domain.BudgetMetric]string{domain.BudgetTokens: "token", domain.BudgetRuns: "run", domain.BudgetSandbox: "second"}[b.Metric]
	if b.Limit != 1 {
		noun += "s"
	}
	if b.Metric == domain.BudgetSandbox {
		noun += " in sandboxes"
	}
	return fmt.Sprintf("%d %s", b.Limit, noun)
}

// exhaustedMessage is the error message for an exhausted budget. It names the budget's subject.
func exhaustedMessage(b domain.Budget) string {
	state := "is used up"
	if b.Used < b.Limit {
		used := strconv.FormatInt(b.Used, 10)
		if b.Metric == domain.BudgetCost {
			used = domain.Money(b.Used, b.Currency)
		}
		state = fmt.Sprintf("has no room for another call (%s used)", used)
	}

	return fmt.Sprintf("the budget of %s per %s of %s %s; raise its limit with PUT /api/budgets, or wait for its next period at %s (%s)",
		amount(b), b.Period, subject(b), state, b.ResetsAt.UTC().Format(time.RFC3339), b.ID)
}

// WithinBudget returns budget_exceeded if a budget that would cover a new run is used up. keyID is
// empty for a run without a key, and automationID for a run without an automation. The error wraps
// ErrRunsUsedUp if only budgets for the number of runs are used up. WithinBudget caches the fact
// that an organization has no budgets. WithinBudget also opens the counts of the current period, so
// that the statement that accepts the run does not have to open them.
func (s *Store) WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error {
	hasBudgets, err := s.Budgeted(ctx, org)
	if err != nil || !hasBudgets {
		return err
	}

	// A budget for the number of runs is returned only if no other budget is used up, because it
	// rejects fewer requests.
	rows, err := s.selectBudgets(ctx, org, covered, `AND c.used >= k.most ORDER BY k.metric = 'runs', k.id LIMIT 1`,
		pg.Optional(agentID), pg.Optional(keyID), pg.Optional(automationID))
	if err != nil || len(rows) == 0 {
		return err
	}
	return UsedUp(s.budget(&rows[0]))
}

// Rejected returns the error for a run that was not accepted. cause is the error of the database,
// and doing describes the action. If a budget for the number of runs is used up, Rejected returns
// budget_exceeded. Otherwise it returns an error that consists of the arguments doing and cause.
func (s *Store) Rejected(ctx context.Context, org, doing string, cause error) error {
	pqErr, ok := errors.AsType[*pq.Error](cause)
	if !ok || pqErr.Code != "23B01" {
		return fmt.Errorf("%s: %w", doing, cause)
	}

	// The schema raises 23B01 if a budget has no room. The first word of the detail is the budget's
	// id.
	budgetID, _, _ := strings.Cut(pqErr.Detail, " ")
	b, err := s.Budget(ctx, org, budgetID)
	if err != nil { // the budget was deleted meanwhile or cannot be read; if it still exists, it also rejects a retry
		e := apierr.Wrap(apierr.BudgetExceeded, err, "the budget %s for the number of runs is used up; "+
			"raise its limit with PUT /api/budgets, or wait", budgetID)
		e.RetryAfter = time.Second
		return e
	}
	return UsedUp(b)
}
