package parley

import (
	"context"
	"net/http"
)

const (
	notificationsPath = "/api/notifications"
	messagesPath      = "/api/notifications/messages"
)

// Notifications manages the endpoints that receive the organization's events, and the messages that
// were sent to them. Only admins may use it. A message is one notification to one endpoint.
type Notifications struct{ group }

// NotificationQuery is a filter for messages. Empty fields select everything.
type NotificationQuery struct {
	Paging

	// Messages to this endpoint.
	EndpointID string
	// "pending", "delivered" or "failed".
	Status string
}

// Create creates an endpoint. Its secret is shown only in this result. The request is not repeated
// if the service may have executed it. Requests to the endpoint are signed with the secret, as
// Standard Webhooks defines.
func (n Notifications) Create(ctx context.Context, endpoint NewNotificationEndpoint) (*NotificationEndpoint, error) {
	return call[NotificationEndpoint](ctx, n.group, Request{Method: http.MethodPost, Path: notificationsPath, Body: endpoint})
}

// Get reads an endpoint. Its secret is replaced by "***".
func (n Notifications) Get(ctx context.Context, id string) (*NotificationEndpoint, error) {
	return one[NotificationEndpoint](ctx, n.group, notificationsPath, id)
}

// List lists endpoints. The newest is first.
func (n Notifications) List(paging Paging) Pages[NotificationEndpoint] {
	return list[NotificationEndpoint](n.group, notificationsPath, params(), paging)
}

// Update changes an endpoint. Omitted fields keep their values. The secret cannot be changed; use
// RotateSecret.
func (n Notifications) Update(ctx context.Context, id string, change NotificationEndpointChange) (*NotificationEndpoint, error) {
	request := Request{Method: http.MethodPut, Path: notificationsPath, Body: change, Keyed: true}
	return act[NotificationEndpoint](ctx, n.group, request, id, "")
}

// RotateSecret creates a new secret, which is shown only in this result. For a day, requests also
// carry a signature with the old secret. The request is not repeated if the service may have
// executed it.
func (n Notifications) RotateSecret(ctx context.Context, id string) (*NotificationEndpoint, error) {
	return act[NotificationEndpoint](ctx, n.group, Request{Method: http.MethodPost, Path: notificationsPath}, id, "rotate")
}

// Test sends a ping to an endpoint. GetMessage returns the outcome. Test works even if the endpoint
// is disabled.
func (n Notifications) Test(ctx context.Context, id string) (*NotificationMessage, error) {
	return act[NotificationMessage](ctx, n.group, Request{Method: http.MethodPost, Path: notificationsPath}, id, "test")
}

// Delete deletes an endpoint and its messages. Messages that were not sent yet are dropped.
func (n Notifications) Delete(ctx context.Context, id string) error {
	return remove(ctx, n.group, notificationsPath, id, nil)
}

// ListMessages lists messages to endpoints, newest first.
func (n Notifications) ListMessages(query NotificationQuery) Pages[NotificationMessage] {
	filter := params("endpointId", query.EndpointID, "status", query.Status)
	return list[NotificationMessage](n.group, messagesPath, filter, query.Paging)
}

// GetMessage reads a message with its payload. Messages in the results of ListMessages have no
// payload.
func (n Notifications) GetMessage(ctx context.Context, id string) (*NotificationMessage, error) {
	return one[NotificationMessage](ctx, n.group, messagesPath, id)
}

// Resend sends a message again, under the same id. Receivers recognize the repetition by the id.
// The error is an *APIError if the payload is no longer stored.
func (n Notifications) Resend(ctx context.Context, id string) (*NotificationMessage, error) {
	return act[NotificationMessage](ctx, n.group, Request{Method: http.MethodPost, Path: messagesPath, Keyed: true}, id, "resend")
}
