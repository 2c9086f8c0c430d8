package usage

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/budgetdb"
)

// getBudgets is GET /api/budgets: those of the organization, or the one that the query names.
func (h *Handler) getBudgets(c *gin.Context) {
	org := httpx.Caller(c).OrganizationID
	budgetID, given, err := httpx.QueryID(c, id.Budget)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	if given {
		budget, err := h.BudgetsDB.Budget(c.Request.Context(), org, budgetID)
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		httpx.WriteJSON(c, http.StatusOK, budget)
		return
	}
	p, err := httpx.ReadPage(c, id.Budget)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	budgets, err := h.BudgetsDB.Budgets(c.Request.Context(), org, p.After, p.Limit+1)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, httpx.NewList(budgets, p, func(b domain.Budget) string { return b.ID }))
}

type budgetBody struct {
	Scope     domain.BudgetScope  `json:"scope" need:"yes"`
	SubjectID *string             `json:"subjectId"`
	Metric    domain.BudgetMetric `json:"metric" need:"yes"`
	Period    domain.BudgetPeriod `json:"period" need:"yes"`
	Limit     int64               `json:"limit" need:"yes"`
}

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

func checkLimit(p *httpx.Problems, limit int64) {
	if limit < 0 || limit > budgetdb.MaxBudget {
		p.Add("limit", httpx.CodeInvalidValue, "must be from 0 to %d", int64(budgetdb.MaxBudget))
	}
}

// createBudget is POST /api/budgets. On other ingresses and workers it holds within 5 s.
func (h *Handler) createBudget(c *gin.Context) {
	body, err := httpx.Bind[budgetBody](c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	budget, err := h.BudgetsDB.CreateBudget(c.Request.Context(), httpx.Caller(c).OrganizationID, domain.Budget{
		Scope: body.Scope, SubjectID: body.SubjectID, Metric: body.Metric, Period: body.Period, Limit: body.Limit,
	})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusCreated, budget)
}

// budgetChange takes back what reading a budget gave; only the limit changes anything.
type budgetChange struct {
	Limit     httpx.Optional[int64] `json:"limit"`
	ID        httpx.ReadOnly        `json:"id"`
	Scope     httpx.ReadOnly        `json:"scope"`
	SubjectID httpx.ReadOnly        `json:"subjectId"`
	Metric    httpx.ReadOnly        `json:"metric"`
	Period    httpx.ReadOnly        `json:"period"`
	Used      httpx.Moving[int64]   `json:"used"`
	Reserved  httpx.Moving[int64]   `json:"reserved"`
	ResetsAt  httpx.Moving[string]  `json:"resetsAt"`
	CreatedAt httpx.ReadOnly        `json:"createdAt"`
	UpdatedAt httpx.ReadOnly        `json:"updatedAt"`
}

func (b *budgetChange) Check(p *httpx.Problems) {
	if b.Limit.Set {
		checkLimit(p, b.Limit.Value)
	}
}

// updateBudget is PUT /api/budgets?id=: another limit, at once.
func (h *Handler) updateBudget(c *gin.Context) {
	body, err := httpx.Bind[budgetChange](c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	budgetID, err := httpx.RequiredID(c, id.Budget)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	org := httpx.Caller(c).OrganizationID
	known, err := h.BudgetsDB.Budget(c.Request.Context(), org, budgetID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	if err := httpx.Unchanged(&httpx.Problems{}, body, known); err != nil {
		httpx.Fail(c, err)
		return
	}
	budget, err := h.BudgetsDB.UpdateBudget(c.Request.Context(), org, budgetID, body.Limit.Or(known.Limit))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, budget)
}

// deleteBudget is DELETE /api/budgets?id=.
func (h *Handler) deleteBudget(c *gin.Context) {
	budgetID, err := httpx.RequiredID(c, id.Budget)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	if err := h.BudgetsDB.DeleteBudget(c.Request.Context(), httpx.Caller(c).OrganizationID, budgetID); err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, httpx.Deleted(budgetID))
}
