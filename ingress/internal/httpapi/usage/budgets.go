package usage

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/budgetdb"
)

// getBudgets handles GET /api/budgets: it returns the organization's budgets sorted by id, or with
// ?id= one budget. Each budget contains its usage in the current period.
func (h *Handler) getBudgets(c *gin.Context) error {
	org := httpx.Caller(c).OrganizationID
	budgetID, present, err := httpx.QueryID(c, id.Budget)
	if err != nil {
		return err
	}
	if present {
		budget, err := h.BudgetsDB.Budget(c.Request.Context(), org, budgetID)
		if err != nil {
			return err
		}
		return httpx.JSON(c, http.StatusOK, budget)
	}

	p, err := httpx.ReadPage(c, id.Budget)
	if err != nil {
		return err
	}

	budgets, err := h.BudgetsDB.Budgets(c.Request.Context(), org, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(budgets, p, func(b domain.Budget) string { return b.ID }))
}

// budgetBody is the body of POST /api/budgets. Check checks only the form of the fields.
// CreateBudget checks that the subject exists in the organization.
type budgetBody struct {
	Scope domain.BudgetScope `json:"scope" required:"true"`
	// Id of the agent or API key, or name of the automation; nil for the scope organization.
	SubjectID *string             `json:"subjectId"`
	Metric    domain.BudgetMetric `json:"metric" required:"true"`
	Period    domain.BudgetPeriod `json:"period" required:"true"`
	// In the unit of the metric: millionths of the currency, tokens, runs or seconds.
	Limit int64 `json:"limit" required:"true"`
}

// Check checks the fields. Every scope except organization requires a subject. The rules for the
// subject depend on the scope. If the scope is invalid, only the scope is reported.
func (b *budgetBody) Check(p *httpx.Problems) {
	httpx.OneOf(p, "metric", b.Metric, domain.BudgetCost, domain.BudgetTokens, domain.BudgetRuns, domain.BudgetSandbox)
	httpx.OneOf(p, "period", b.Period, domain.BudgetDay, domain.BudgetMonth)
	checkLimit(p, b.Limit)
	httpx.OneOf(p, "scope", b.Scope, domain.BudgetOrganization, domain.BudgetAgent, domain.BudgetKey, domain.BudgetAutomation)
	switch {
	case p.Has("scope"):
	case b.Scope == domain.BudgetOrganization && b.SubjectID != nil:
		p.Add("subjectId", httpx.CodeConflict, "must be omitted for a budget of the organization")
	case b.Scope == domain.BudgetOrganization:
	case b.SubjectID == nil:
		p.Add("subjectId", httpx.CodeRequired, "is required: an agent, an API key or an automation")
	case b.Scope == domain.BudgetAutomation:
		httpx.CheckAutomationID(p, "subjectId", *b.SubjectID)
	default:
		p.Text("subjectId", *b.SubjectID, 1, httpx.MaxAutomationID)
	}
}

// checkLimit checks a limit in the unit of the budget's metric. The limit 0 allows no usage.
// MaxBudget keeps the sums of the database from overflowing.
func checkLimit(p *httpx.Problems, limit int64) {
	if limit < 0 || limit > budgetdb.MaxBudget {
		p.Add("limit", httpx.CodeInvalidValue, "must be from 0 to %d", int64(budgetdb.MaxBudget))
	}
}

// createBudget handles POST /api/budgets. Other ingress processes and workers apply the budget
// within 5 seconds. The response is 201 with the budget, including the usage of runs before its
// creation. The error has the code conflict if the same budget exists, or if the organization has
// budgetdb.MaxBudgets budgets.
func (h *Handler) createBudget(c *gin.Context) error {
	body, err := httpx.Bind[budgetBody](c)
	if err != nil {
		return err
	}

	budget, err := h.BudgetsDB.CreateBudget(c.Request.Context(), httpx.Caller(c).OrganizationID, domain.Budget{
		Scope: body.Scope, SubjectID: body.SubjectID, Metric: body.Metric, Period: body.Period, Limit: body.Limit,
	})
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusCreated, budget)
}

// budgetChange is the body of PUT /api/budgets. It may have all fields of a budget that was read,
// but only the limit can change. A client can therefore send back an object that it has read.
// Fields of type ReadOnly must have their current values. Fields of type Volatile may have any
// values, because they change without a request.
type budgetChange struct {
	Limit     httpx.Optional[int64]  `json:"limit"`
	ID        httpx.ReadOnly         `json:"id"`
	Scope     httpx.ReadOnly         `json:"scope"`
	SubjectID httpx.ReadOnly         `json:"subjectId"`
	Metric    httpx.ReadOnly         `json:"metric"`
	Period    httpx.ReadOnly         `json:"period"`
	Currency  httpx.ReadOnly         `json:"currency"`
	Used      httpx.Volatile[int64]  `json:"used"`
	Reserved  httpx.Volatile[int64]  `json:"reserved"`
	ResetsAt  httpx.Volatile[string] `json:"resetsAt"`
	CreatedAt httpx.ReadOnly         `json:"createdAt"`
	UpdatedAt httpx.ReadOnly         `json:"updatedAt"`
}

// Check checks the limit, if it is present.
func (b *budgetChange) Check(p *httpx.Problems) {
	if b.Limit.Set {
		checkLimit(p, b.Limit.Value)
	}
}

// updateBudget handles PUT /api/budgets?id=. The new limit applies immediately. The amounts used so
// far stay. If they exceed the new limit, new runs are rejected with budget_exceeded until the
// period ends. If the body has no limit, the limit stays.
func (h *Handler) updateBudget(c *gin.Context) error {
	body, err := httpx.Bind[budgetChange](c)
	if err != nil {
		return err
	}

	budgetID, err := httpx.RequiredID(c, id.Budget)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID
	known, err := h.BudgetsDB.Budget(c.Request.Context(), org, budgetID)
	if err != nil {
		return err
	}
	if err := httpx.Unchanged(&httpx.Problems{}, body, known); err != nil {
		return err
	}

	budget, err := h.BudgetsDB.UpdateBudget(c.Request.Context(), org, budgetID, body.Limit.Or(known.Limit))
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, budget)
}

// deleteBudget handles DELETE /api/budgets?id=. The error is not_found if the organization has no
// such budget.
func (h *Handler) deleteBudget(c *gin.Context) error {
	budgetID, err := httpx.RequiredID(c, id.Budget)
	if err != nil {
		return err
	}
	if err := h.BudgetsDB.DeleteBudget(c.Request.Context(), httpx.Caller(c).OrganizationID, budgetID); err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, httpx.Deleted(budgetID))
}
