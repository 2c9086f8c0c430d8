package parley

import (
	"context"
	"net/http"
)

const (
	hooksPath      = "/api/hooks"
	deliveriesPath = "/api/hooks/deliveries"
)

// Hooks manages webhooks that start runs, and reads their deliveries. Only admins may use it. A
// hook connects a source of webhooks with an agent.
type Hooks struct{ group }

// DeliveryQuery is a filter for deliveries. Empty fields select everything.
type DeliveryQuery struct {
	Paging

	// HookID selects deliveries to this hook, and RunID selects deliveries that started this run.
	HookID, RunID string
	// Deliveries with this outcome.
	Status DeliveryStatus
}

// Create creates a hook. If the argument hook has no secret, the service generates a secret, which
// is shown only in this result. The request is not repeated if the service may have executed it.
func (h Hooks) Create(ctx context.Context, hook NewHook) (*Hook, error) {
	return call[Hook](ctx, h.group, Request{Method: http.MethodPost, Path: hooksPath, Body: hook})
}

// Get reads a hook. Its secret is replaced by "***".
func (h Hooks) Get(ctx context.Context, id string) (*Hook, error) {
	return one[Hook](ctx, h.group, hooksPath, id)
}

// List lists hooks, newest first.
func (h Hooks) List(paging Paging) Pages[Hook] {
	return list[Hook](h.group, hooksPath, params(), paging)
}

// Update changes a hook. Omitted fields keep their values. The secret cannot be changed; use
// RotateSecret.
func (h Hooks) Update(ctx context.Context, id string, change HookChange) (*Hook, error) {
	return act[Hook](ctx, h.group, Request{Method: http.MethodPut, Path: hooksPath, Body: change, Keyed: true}, id, "")
}

// RotateSecret sets a new secret. The previous secret stays valid for rotation.KeepSeconds. A
// secret that the service generates is shown only in this result. The request is not repeated if
// the service may have executed it.
func (h Hooks) RotateSecret(ctx context.Context, id string, rotation HookRotation) (*Hook, error) {
	return act[Hook](ctx, h.group, Request{Method: http.MethodPost, Path: hooksPath, Body: rotation}, id, "rotate")
}

// Test sends a test delivery to a hook, signed as the hook's source would sign it. The delivery can
// start a real run. The request is not repeated if the service may have executed it.
func (h Hooks) Test(ctx context.Context, id string, test HookTest) (*TakenDelivery, error) {
	return act[TakenDelivery](ctx, h.group, Request{Method: http.MethodPost, Path: hooksPath, Body: test}, id, "test")
}

// Delete deletes a hook and its deliveries. The runs that the deliveries started stay. Deliveries
// that arrive later are rejected.
func (h Hooks) Delete(ctx context.Context, id string) error {
	return remove(ctx, h.group, hooksPath, id, nil)
}

// ListDeliveries lists deliveries, newest first.
func (h Hooks) ListDeliveries(query DeliveryQuery) Pages[Delivery] {
	filter := params("hookId", query.HookID, "runId", query.RunID, "status", string(query.Status))
	return list[Delivery](h.group, deliveriesPath, filter, query.Paging)
}

// GetDelivery reads a delivery with its body. The body is missing if it is not stored.
func (h Hooks) GetDelivery(ctx context.Context, hookID, id string) (*DeliveryWithBody, error) {
	request := Request{Method: http.MethodGet, Path: deliveriesPath, Query: params("hookId", hookID)}
	return act[DeliveryWithBody](ctx, h.group, request, id, "")
}

// Redeliver starts a new run from a stored delivery. The new delivery has an id of its own. The
// request is not repeated if the service may have executed it.
func (h Hooks) Redeliver(ctx context.Context, hookID, id string) (*TakenDelivery, error) {
	request := Request{Method: http.MethodPost, Path: deliveriesPath, Query: params("hookId", hookID)}
	return act[TakenDelivery](ctx, h.group, request, id, "redeliver")
}
