package notification

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/webhookin"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/id"
	"parley/shared/outbound"
	"parley/shared/secrets"
	"parley/shared/store/notificationdb"
)

// AddressChecker returns an error of package outbound if the service may not send requests to an
// address. The check is made when an address is set, so that a client gets the error early.
type AddressChecker interface {
	Check(address string) error
}

// previousSecretTTL is the time after a rotation for which notifications are signed with both
// secrets. Receivers can change their secret within this time without losing a notification.
const previousSecretTTL = 24 * time.Hour

// endpointFields contains the fields of an endpoint that callers can set. Each field may be
// missing. A null description becomes empty.
type endpointFields struct {
	// Address without variables.
	URL httpx.Optional[string] `json:"url"`
	// Text for people.
	Description httpx.Removable[string] `json:"description"`
	// Events to notify of; replaces the list.
	Events httpx.Optional[[]string] `json:"events"`
	// Agent to whose events the endpoint is limited.
	AgentID httpx.Optional[*string] `json:"agentId"` // null: all agents
	// Whether notifications are sent; missing in a new endpoint: true.
	Enabled httpx.Optional[bool] `json:"enabled"`
}

// Check checks the fields independently of the endpoint's previous state. The store checks whether
// the agent exists.
func (b *endpointFields) Check(p *httpx.Problems) {
	if b.URL.Set {
		checkEndpointURL(p, b.URL.Value)
	}
	if b.Description.Value != "" {
		p.Name("description", b.Description.Value, httpx.MaxDescription)
	}
	if b.Events.Set {
		checkEvents(p, b.Events.Value)
	}
	if agent := b.AgentID.Value; agent != nil && !id.Valid(id.Agent, *agent) {
		p.Add("agentId", httpx.CodeInvalidValue, "is not an agent of this organization")
	}
}

// checkEndpointURL checks the form of a URL, and checkReach checks the host. A URL of a tool's
// endpoint may have variables; this URL may not. Problems are added to p under the path url.
func checkEndpointURL(p *httpx.Problems, address string) {
	if httpx.CheckURL(p, "url", address); p.Has("url") {
		return
	}

	read, err := endpoint.Parse(address)
	if err != nil {
		p.Add("url", httpx.CodeInvalidValue, "%s", err)
		return
	}
	if path, queried := read.Variables(); len(path)+len(queried) > 0 {
		p.Add("url", httpx.CodeInvalidValue, "must not contain braces")
	}
}

// checkEvents checks the names of the events of which an endpoint is notified. The list must have
// at least one entry, and no entry twice. If the list has more entries than there are events to
// choose from, the further entries are not checked.
func checkEvents(p *httpx.Problems, events []string) {
	if len(events) == 0 {
		p.Add("events", httpx.CodeTooShort, "must contain at least one event")
	}

	for i, event := range events[:min(len(events), len(domain.NotificationEvents))] {
		switch {
		case !slices.Contains(domain.NotificationEvents, event):
			p.Add(httpx.Element("events", i), httpx.CodeInvalidValue, "must be one of %s", httpx.Enumerated(domain.NotificationEvents))
		case slices.Contains(events[:i], event):
			p.Add(httpx.Element("events", i), httpx.CodeDuplicate, "is given twice")
		}
	}

	p.Count("events", len(events), len(domain.NotificationEvents)) // last: a problem of the list would suppress those of its entries
}

// newEndpointBody is the body of POST /api/notifications. Except for url and events, its fields are
// optional.
type newEndpointBody struct{ endpointFields }

// Check checks the fields. URL and events are required.
func (b *newEndpointBody) Check(p *httpx.Problems) {
	b.endpointFields.Check(p)
	if !b.URL.Set {
		p.Add("url", httpx.CodeRequired, "is required")
	}
	if !b.Events.Set {
		p.Add("events", httpx.CodeRequired, "is required")
	}
}

// endpointChangeBody is the body of a PUT. It accepts all fields of an endpoint that was read with
// GET. It can change only the fields of endpointFields. The other fields are accepted so that a
// client can send back an endpoint.
type endpointChangeBody struct {
	endpointFields
	// Only the placeholder for secrets is accepted.
	Secret         httpx.Optional[string] `json:"secret"`
	ID             httpx.ReadOnly         `json:"id"`
	DisabledReason httpx.Volatile[string] `json:"disabledReason"`
	DisabledAt     httpx.Volatile[string] `json:"disabledAt"`
	PreviousUntil  httpx.Volatile[string] `json:"previousSecretUntil"`
	Failures       httpx.Volatile[int64]  `json:"failures"`
	LastSuccessAt  httpx.Volatile[string] `json:"lastSuccessAt"`
	CreatedAt      httpx.ReadOnly         `json:"createdAt"`
	UpdatedAt      httpx.ReadOnly         `json:"updatedAt"`
}

// Check checks the fields. All of them may be missing. A secret that a client has read as a
// placeholder may be sent back.
func (b *endpointChangeBody) Check(p *httpx.Problems) {
	b.endpointFields.Check(p)
	if b.Secret.Set && b.Secret.Value != httpx.HiddenSecret {
		p.Add("secret", httpx.CodeInvalidValue, "cannot be set: use POST with action=rotate")
	}
}

// checkReach adds a problem if the rules for outbound requests forbid requests to a well-formed
// address. The message does not reveal addresses of the internal network. The worker checks the
// address again for each request.
func (h *Handler) checkReach(found *httpx.Problems, address httpx.Optional[string]) {
	if !address.Set || found.Has("url") {
		return
	}
	if err := h.Outbound.Check(address.Value); err != nil {
		found.Add("url", httpx.CodeInvalidValue, "%s", outbound.AsError(err).Message)
	}
}

// getNotifications handles GET /api/notifications: it returns a page of the organization's
// endpoints, or with ?id= one endpoint. Secrets are replaced by a placeholder. Endpoints are listed
// by id, newest first.
func (h *Handler) getNotifications(c *gin.Context) error {
	endpointID, one, err := httpx.QueryID(c, id.Endpoint)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID
	if one {
		found, err := h.NotificationsDB.Endpoint(c.Request.Context(), org, endpointID)
		return h.writeEndpoint(c, found, err)
	}

	p, err := httpx.ReadPage(c, id.Endpoint)
	if err != nil {
		return err
	}

	endpoints, err := h.NotificationsDB.Endpoints(c.Request.Context(), org, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(endpoints, p, func(e domain.NotificationEndpoint) string { return e.ID }))
}

// writeEndpoint responds with an endpoint and the status 200. If err is not nil, writeEndpoint only
// returns err. It does not change the secret in e, which the store has replaced by a placeholder.
func (h *Handler) writeEndpoint(c *gin.Context, e domain.NotificationEndpoint, err error) error {
	if err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, e)
}

// notificationsChanged notifies clients that watch the organization that its endpoints or
// notifications have changed. It must be called after the change has been committed.
func (h *Handler) notificationsChanged(c *gin.Context) {
	h.Changes.Changed(domain.ChangedNotifications, httpx.Caller(c).OrganizationID)
}

// createEndpoint handles POST /api/notifications. Only this response shows the endpoint's secret.
// Errors: conflict if the organization has MaxEndpoints endpoints. The status is 201.
func (h *Handler) createEndpoint(c *gin.Context) error {
	body, found, err := httpx.Collect[newEndpointBody](c)
	if err != nil {
		return err
	}
	if h.checkReach(found, body.URL); found.Err() != nil {
		return found.Err()
	}

	org, made := httpx.Caller(c).OrganizationID, id.New(id.Endpoint)

	// The secret is encrypted for the new id, so the id is created first.
	secret, sealed := h.newEndpointSecret(org, made)

	e, err := h.NotificationsDB.CreateEndpoint(c.Request.Context(), notificationdb.NewEndpoint{
		OrganizationID: org, ID: made, URL: body.URL.Value, Description: body.Description.Value, Events: body.Events.Value,
		AgentID: body.AgentID.Value, Enabled: body.Enabled.Or(true), SealedSecret: sealed,
	}, h.MaxEndpoints)
	if err != nil {
		return err
	}

	e.Secret = secret
	h.notificationsChanged(c)
	return httpx.JSON(c, http.StatusCreated, e)
}

// newEndpointSecret returns a new secret, and its encrypted form for the database. The encryption
// context contains both ids, so the encrypted secret is useless for another endpoint.
func (h *Handler) newEndpointSecret(org, endpointID string) (secret, sealed string) {
	secret = webhookin.NewSecret(domain.HookStandard)
	return secret, h.Secrets.Seal(secret, secrets.NotificationEndpoint(org, endpointID))
}

// updateEndpoint handles PUT /api/notifications?id=. Missing fields stay unchanged. If the request
// enables an endpoint, the service sends the endpoint's pending notifications. The response
// contains the endpoint after the change, without its secret.
func (h *Handler) updateEndpoint(c *gin.Context) error {
	endpointID, err := httpx.RequiredID(c, id.Endpoint)
	if err != nil {
		return err
	}

	body, found, err := httpx.Collect[endpointChangeBody](c)
	if err != nil {
		return err
	}
	if h.checkReach(found, body.URL); found.Err() != nil {
		return found.Err()
	}

	// Read the endpoint for the comparison with read-only fields.
	known, err := h.NotificationsDB.Endpoint(c.Request.Context(), httpx.Caller(c).OrganizationID, endpointID)
	if err == nil {
		err = httpx.Unchanged(found, body, known)
	}
	if err != nil {
		return err
	}

	change := notificationdb.EndpointChange{
		URL: body.URL.Pointer(), Description: body.Description.Pointer(), Events: body.Events.Value,
		AgentID: body.AgentID.Pointer(), Enabled: body.Enabled.Pointer(),
	}
	e, err := h.NotificationsDB.UpdateEndpoint(c.Request.Context(), httpx.Caller(c).OrganizationID, endpointID, change)
	if err == nil {
		h.notificationsChanged(c)
	}

	return h.writeEndpoint(c, e, err)
}

// rotateEndpoint handles POST /api/notifications?id=&action=rotate: it creates a new secret, which
// only this response shows. For previousSecretTTL, notifications are signed with the new and the
// previous secret. A second rotation within that time ends the validity of the oldest secret.
func (h *Handler) rotateEndpoint(c *gin.Context) error {
	endpointID, err := httpx.RequiredID(c, id.Endpoint)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID
	secret, sealed := h.newEndpointSecret(org, endpointID)
	e, err := h.NotificationsDB.UpdateEndpoint(c.Request.Context(), org, endpointID, notificationdb.EndpointChange{
		SealedSecret: &sealed, KeepPrevious: previousSecretTTL,
	})

	// Replace the placeholder, as in the response to the creation.
	e.Secret = secret
	return h.writeEndpoint(c, e, err)
}

// testEndpoint handles POST /api/notifications?id=&action=test: it queues a test notification of
// the type ping, even if the endpoint is disabled. The status is 202. The result of the request to
// the endpoint is visible in the list of notifications.
func (h *Handler) testEndpoint(c *gin.Context) error {
	endpointID, err := httpx.RequiredID(c, id.Endpoint)
	if err != nil {
		return err
	}
	n, err := h.NotificationsDB.TestEndpoint(c.Request.Context(), httpx.Caller(c).OrganizationID, endpointID)
	return h.writeQueued(c, n, err)
}

// writeQueued responds with a queued notification. If err is not nil, it only returns err. The
// status is 202, because a worker sends the notification later.
func (h *Handler) writeQueued(c *gin.Context, n domain.Notification, err error) error {
	if err != nil {
		return err
	}
	h.notificationsChanged(c)
	return httpx.JSON(c, http.StatusAccepted, n)
}

// deleteEndpoint handles DELETE /api/notifications?id=. The endpoint's pending notifications are
// not sent. Repeating the request returns not_found.
func (h *Handler) deleteEndpoint(c *gin.Context) error {
	endpointID, err := httpx.RequiredID(c, id.Endpoint)
	if err != nil {
		return err
	}
	if err := h.NotificationsDB.DeleteEndpoint(c.Request.Context(), httpx.Caller(c).OrganizationID, endpointID); err != nil {
		return err
	}

	h.notificationsChanged(c)
	return httpx.JSON(c, http.StatusOK, httpx.Deleted(endpointID))
}

// getMessages handles GET /api/notifications/messages: it returns a page of pending and sent
// notifications, newest first, or with ?id= one notification with its payload. Payloads are only in
// the response with one notification, because they may be large.
func (h *Handler) getMessages(c *gin.Context) error {
	messageID, one, err := httpx.QueryID(c, id.Notification)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID

	if one {
		n, err := h.NotificationsDB.Notification(c.Request.Context(), org, messageID)
		if err != nil {
			return err
		}
		return httpx.JSON(c, http.StatusOK, n)
	}

	p, err := httpx.ReadPage(c, id.Notification)
	if err != nil {
		return err
	}

	filter, err := h.messageFilter(c)
	if err != nil {
		return err
	}

	messages, err := h.NotificationsDB.Notifications(c.Request.Context(), org, filter, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(messages, p, func(n domain.Notification) string { return n.ID }))
}

// messageFilter reads the filter of a list of notifications. The endpoint must exist in the
// organization. All problems are returned as one error.
func (h *Handler) messageFilter(c *gin.Context) (f notificationdb.NotificationFilter, err error) {
	found := &httpx.Problems{}
	if err := h.CheckReferences(c, found, "endpointId"); err != nil {
		return f, err
	}
	f.EndpointID, _ = httpx.QueryValue(c, "endpointId", found)
	status, present := httpx.QueryValue(c, "status", found)
	if f.Status = domain.NotificationStatus(status); present {
		httpx.OneOf(found, "status", f.Status, domain.NotificationPending, domain.NotificationDelivered, domain.NotificationFailed)
	}
	return f, found.Err()
}

// postMessages handles POST /api/notifications/messages?id=&action=resend: it sends a notification
// again under the same id. Receivers can recognize a repetition by its id. The status is 202. If
// the payload of the notification is no longer stored, the error has the code erased.
func (h *Handler) postMessages(c *gin.Context) error {
	messageID, err := httpx.RequiredID(c, id.Notification)
	if err != nil {
		return err
	}

	// The route accepts any action, so that the message can name the valid action.
	found := &httpx.Problems{}
	if action, _ := httpx.QueryValue(c, "action", found); action != "resend" {
		found.Add("action", httpx.CodeInvalidValue, "must be resend")
	}
	if err := found.Err(); err != nil {
		return err
	}

	n, err := h.NotificationsDB.ResendNotification(c.Request.Context(), httpx.Caller(c).OrganizationID, messageID)
	return h.writeQueued(c, n, err)
}
