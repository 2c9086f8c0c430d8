package usage

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/store/budgetdb"
	"parley/shared/store/overviewdb"
)

// getHome handles GET /api/home: it returns which first steps are done, and the runs and problems
// that require an action of the caller. Members see only their own runs. Only admins get budgets,
// because only they can change them.
func (h *Handler) getHome(c *gin.Context) {
	ctx, who := c.Request.Context(), httpx.Caller(c)
	admin := who.Role.AtLeast(domain.RoleAdmin)
	view, err := h.OverviewsDB.Overview(ctx, overviewdb.Reader{
		OrganizationID: who.OrganizationID, UserID: who.UserID, Principal: who.Principal(), Principals: who.Readable(), Admin: admin,
	})
	if err == nil && admin {
		view.Budgets, err = h.nearlyUsed(ctx, who.OrganizationID)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, view)
}

// nearlyUsed returns the organization's budgets of which at least 80 % is used. If no budget is
// nearly used, the list is empty and not nil. Organizations without budgets cost no query while
// Budgeted has a cached result.
func (h *Handler) nearlyUsed(ctx context.Context, org string) ([]domain.TightBudget, error) {
	out := []domain.TightBudget{}
	has, err := h.BudgetsDB.Budgeted(ctx, org)
	if err != nil || !has {
		return out, err
	}

	budgets, err := h.BudgetsDB.Budgets(ctx, org, "", budgetdb.MaxBudgets)
	for i := range budgets {
		b := &budgets[i]
		if !b.NearlyUsed() {
			continue
		}

		// Show the name of an agent or key. The name is nil for automations and for deleted
		// subjects.
		subject := b.SubjectID
		if b.SubjectName != nil {
			subject = b.SubjectName
		}
		out = append(out, domain.TightBudget{
			ID: b.ID, Scope: b.Scope, Subject: subject, Metric: b.Metric, Period: b.Period,
			Limit: b.Limit, Used: b.Used, Reserved: b.Reserved, ResetsAt: b.ResetsAt,
		})
	}
	return out, err
}
