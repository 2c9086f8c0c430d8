package parley

import (
	"context"
	"net/http"
	"net/url"
)

const (
	keysPath    = "/api/keys"
	budgetsPath = "/api/budgets"
)

// Keys creates, lists, rotates and revokes API keys. A user's key acts for the user, in all of the
// user's organizations; an organization's key acts in that organization.
type Keys struct{ group }

// Create creates a key. The key itself is shown only in this result. The request is not repeated if
// the service may have executed it. Only admins may create keys of the organization.
func (k Keys) Create(ctx context.Context, key NewKey) (*KeyWithSecret, error) {
	return call[KeyWithSecret](ctx, k.group, Request{Method: http.MethodPost, Path: keysPath, Body: key})
}

// Get reads a key, without its secret. The secret is shown only by Create and Rotate.
func (k Keys) Get(ctx context.Context, id string) (*Key, error) {
	return one[Key](ctx, k.group, keysPath, id)
}

// List returns the caller's own keys. For admins, it returns all keys of the organization.
func (k Keys) List(paging Paging) Pages[Key] {
	return list[Key](k.group, keysPath, params(), paging)
}

// Rotate replaces a key with a new key. The old key stays valid for rotation.OverlapSeconds. The
// result contains the new key. The request is not repeated if the service may have executed it.
func (k Keys) Rotate(ctx context.Context, id string, rotation KeyRotation) (*KeyWithSecret, error) {
	return act[KeyWithSecret](ctx, k.group, Request{Method: http.MethodPost, Path: keysPath, Body: rotation}, id, "rotate")
}

// Delete revokes a key. The service accepts the key for at most 5 more seconds.
func (k Keys) Delete(ctx context.Context, id string) error {
	return remove(ctx, k.group, keysPath, id, nil)
}

// UsageReports reads counts, costs and limits. Reports include deleted runs.
type UsageReports struct{ group }

// UsageQuery selects the runs that Usage.Get counts. Days is at most 90, and zero means seven. The
// field By groups the counts by "agent", "key" or "automation". Empty ids select everything.
type UsageQuery struct {
	// Days to count, up to now.
	Days int
	// Only runs of this agent, key or automation are counted.
	AgentID, KeyID, AutomationID string
	// Grouping; "" for none.
	By string
}

// Get returns the runs, tokens, costs and latencies of each hour or day. Only admins may call it.
// The result may be some seconds old.
func (u UsageReports) Get(ctx context.Context, query UsageQuery) (*UsageReport, error) {
	return get[UsageReport](ctx, u.group, "/api/usage", params(
		"days", number(query.Days), "agentId", query.AgentID, "keyId", query.KeyID, "automationId", query.AutomationID, "by", query.By))
}

// Limits reads the organization's limits, and the used part of each. Every member may call it.
func (u UsageReports) Limits(ctx context.Context) (*Limits, error) {
	return get[Limits](ctx, u.group, "/api/organizations/limits", url.Values{})
}

// Budgets manages hard limits on tokens and costs. Only admins may use it. A budget stops new runs
// and calls when it is used up.
type Budgets struct{ group }

// Create creates a budget. The request is not repeated if the service may have executed it. If a
// budget of the same subject, metric and period exists, the error is an *APIError with the status
// 409.
func (b Budgets) Create(ctx context.Context, budget NewBudget) (*Budget, error) {
	return call[Budget](ctx, b.group, Request{Method: http.MethodPost, Path: budgetsPath, Body: budget})
}

// Get reads a budget and the amounts used and reserved in the current period. Amounts are in the
// unit of the budget's metric.
func (b Budgets) Get(ctx context.Context, id string) (*Budget, error) {
	return one[Budget](ctx, b.group, budgetsPath, id)
}

// List lists budgets.
func (b Budgets) List(paging Paging) Pages[Budget] {
	return list[Budget](b.group, budgetsPath, params(), paging)
}

// Update changes a budget's limit. The amounts used so far stay.
func (b Budgets) Update(ctx context.Context, id string, limit int64) (*Budget, error) {
	request := Request{Method: http.MethodPut, Path: budgetsPath, Body: map[string]any{"limit": limit}, Keyed: true}
	return act[Budget](ctx, b.group, request, id, "")
}

// Delete deletes a budget. Its limit no longer applies. If no budget has the id, the error is an
// *APIError with the status 404.
func (b Budgets) Delete(ctx context.Context, id string) error {
	return remove(ctx, b.group, budgetsPath, id, nil)
}
