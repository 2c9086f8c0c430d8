package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/webhookin"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/id"
	"parley/shared/outbound"
	"parley/shared/secrets"
	"parley/shared/store"
)

// AddressChecker judges an address that the service shall reach; its errors are outbound's.
type AddressChecker interface {
	Check(address string) error
}

// previousSecretHolds is how long the secret before signs beside a new one.
const previousSecretHolds = 24 * time.Hour

// endpointFields are the fields of an endpoint that callers set. Each may be left out of a change.
type endpointFields struct {
	URL         optional[string]   `json:"url"`
	Description removable[string]  `json:"description"`
	Events      optional[[]string] `json:"events"`
	AgentID     optional[*string]  `json:"agentId"` // null: all agents
	Enabled     optional[bool]     `json:"enabled"`
}

func (b *endpointFields) Check(p *problems) {
	if b.URL.Set {
		checkEndpointURL(p, b.URL.Value)
	}
	p.text("description", b.Description.Value, 0, descriptionMost)
	if b.Events.Set {
		checkEvents(p, b.Events.Value)
	}
	if agent := b.AgentID.Value; agent != nil && !id.Valid(id.Agent, *agent) {
		p.add("agentId", codeInvalidValue, "is no agent of this organization")
	}
}

// checkEndpointURL takes whole addresses. Where they lead is the outbound rules' matter.
func checkEndpointURL(p *problems, address string) {
	read, err := endpoint.Parse(address)
	if err != nil {
		p.add("url", codeInvalidValue, "%s", err)
		return
	}
	if path, queried := read.Variables(); len(path)+len(queried) > 0 {
		p.add("url", codeInvalidValue, "must hold no braces")
	}
}

func checkEvents(p *problems, events []string) {
	if len(events) == 0 {
		p.add("events", codeTooShort, "must name an event at least")
	}
	for i, event := range events[:min(len(events), len(domain.NotificationEvents))] {
		switch {
		case !slices.Contains(domain.NotificationEvents, event):
			p.add(element("events", i), codeInvalidValue, "must be one of %s", enumerated(domain.NotificationEvents))
		case slices.Contains(events[:i], event):
			p.add(element("events", i), codeDuplicate, "is given twice")
		}
	}
	p.count("events", len(events), len(domain.NotificationEvents)) // last: a list's own problem would hide those of its entries
}

type newEndpointBody struct{ endpointFields }

func (b *newEndpointBody) Check(p *problems) {
	b.endpointFields.Check(p)
	if !b.URL.Set {
		p.add("url", codeRequired, "is required")
	}
	if !b.Events.Set {
		p.add("events", codeRequired, "is required")
	}
}

// endpointChangeBody takes back what reading an endpoint gave.
type endpointChangeBody struct {
	endpointFields
	Secret         optional[string] `json:"secret"`
	ID             readOnly         `json:"id"`
	DisabledReason readOnly         `json:"disabledReason"`
	DisabledAt     readOnly         `json:"disabledAt"`
	PreviousUntil  readOnly         `json:"previousSecretUntil"`
	Failures       readOnly         `json:"failures"`
	LastSuccessAt  readOnly         `json:"lastSuccessAt"`
	CreatedAt      readOnly         `json:"createdAt"`
	UpdatedAt      readOnly         `json:"updatedAt"`
}

func (b *endpointChangeBody) Check(p *problems) {
	b.endpointFields.Check(p)
	if b.Secret.Set && b.Secret.Value != hiddenSecret {
		p.add("secret", codeInvalidValue, "cannot be set: POST with action=rotate makes a new one")
	}
}

// checkReach has an address that is well formed judged by the outbound rules.
func (a *api) checkReach(found *problems, address optional[string]) {
	if !address.Set || found.has("url") {
		return
	}
	if err := a.Outside.Check(address.Value); err != nil {
		found.add("url", codeInvalidValue, "%s", outbound.AsError(err).Message)
	}
}

// getNotifications is GET /api/notifications: the organization's endpoints, or with id one.
func (a *api) getNotifications(c *gin.Context) {
	endpointID, one, err := idOf(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	org := caller(c).OrganizationID
	if one {
		found, err := a.Store.Endpoint(c.Request.Context(), org, endpointID)
		a.writeEndpoint(c, found, err)
		return
	}
	p, err := pageOf(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	endpoints, err := a.Store.Endpoints(c.Request.Context(), org, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, listOf(endpoints, p, func(e domain.NotificationEndpoint) string { return e.ID }))
}

// writeEndpoint answers with an endpoint, unless there is an error.
func (a *api) writeEndpoint(c *gin.Context, e domain.NotificationEndpoint, err error) {
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, e)
}

// told says that an organization's notifications have changed, to whoever watches it.
func (a *api) notificationsChanged(c *gin.Context) {
	a.Bells.Changed(domain.ChangedNotifications, caller(c).OrganizationID)
}

// createEndpoint is POST /api/notifications. The secret is shown in the answer, and never again.
func (a *api) createEndpoint(c *gin.Context) {
	body, found, err := collect[newEndpointBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	if a.checkReach(found, body.URL); found.err() != nil {
		fail(c, found.err())
		return
	}
	org, made := caller(c).OrganizationID, id.New(id.Endpoint)
	secret, sealed := a.newEndpointSecret(org, made)
	e, err := a.Store.CreateEndpoint(c.Request.Context(), store.NewEndpoint{
		OrganizationID: org, ID: made, URL: body.URL.Value, Description: body.Description.Value, Events: body.Events.Value,
		AgentID: body.AgentID.Value, Enabled: body.Enabled.or(true), SealedSecret: sealed,
	}, a.endpoints)
	if err != nil {
		fail(c, err)
		return
	}
	e.Secret = secret
	a.notificationsChanged(c)
	writeJSON(c, http.StatusCreated, e)
}

func (a *api) newEndpointSecret(org, endpointID string) (secret, sealed string) {
	secret = webhookin.NewSecret(domain.HookStandard)
	return secret, a.Secrets.Seal(secret, secrets.NotificationEndpoint(org, endpointID))
}

// updateEndpoint is PUT /api/notifications?id=: what is left out stays. Enabling one lets what has waited for it go on.
func (a *api) updateEndpoint(c *gin.Context) {
	endpointID, err := requiredID(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	body, found, err := collect[endpointChangeBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	if a.checkReach(found, body.URL); found.err() != nil {
		fail(c, found.err())
		return
	}
	known, err := a.Store.Endpoint(c.Request.Context(), caller(c).OrganizationID, endpointID)
	if err == nil {
		err = unchanged(found, body, known)
	}
	if err != nil {
		fail(c, err)
		return
	}
	change := store.EndpointChange{
		URL: body.URL.pointer(), Description: body.Description.pointer(), Events: body.Events.Value,
		AgentID: body.AgentID.pointer(), Enabled: body.Enabled.pointer(),
	}
	e, err := a.Store.UpdateEndpoint(c.Request.Context(), caller(c).OrganizationID, endpointID, change)
	if err == nil {
		a.notificationsChanged(c)
	}
	a.writeEndpoint(c, e, err)
}

// rotateEndpoint is POST /api/notifications?id=&action=rotate: a new secret, shown once; the one before signs beside it for a day.
func (a *api) rotateEndpoint(c *gin.Context) {
	endpointID, err := requiredID(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	org := caller(c).OrganizationID
	secret, sealed := a.newEndpointSecret(org, endpointID)
	e, err := a.Store.UpdateEndpoint(c.Request.Context(), org, endpointID, store.EndpointChange{
		SealedSecret: &sealed, KeepPrevious: previousSecretHolds,
	})
	e.Secret = secret
	a.writeEndpoint(c, e, err)
}

// testEndpoint is POST /api/notifications?id=&action=test: a ping, whether the endpoint is enabled or not.
func (a *api) testEndpoint(c *gin.Context) {
	endpointID, err := requiredID(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	n, err := a.Store.TestEndpoint(c.Request.Context(), caller(c).OrganizationID, endpointID)
	a.writeQueued(c, n, err)
}

// writeQueued answers with a notification that is sent soon.
func (a *api) writeQueued(c *gin.Context, n domain.Notification, err error) {
	if err != nil {
		fail(c, err)
		return
	}
	a.notificationsChanged(c)
	writeJSON(c, http.StatusAccepted, n)
}

// deleteEndpoint is DELETE /api/notifications?id=: what waits for it is not sent any more.
func (a *api) deleteEndpoint(c *gin.Context) {
	endpointID, err := requiredID(c, id.Endpoint)
	if err != nil {
		fail(c, err)
		return
	}
	if err := a.Store.DeleteEndpoint(c.Request.Context(), caller(c).OrganizationID, endpointID); err != nil {
		fail(c, err)
		return
	}
	a.notificationsChanged(c)
	writeJSON(c, http.StatusOK, deleted(endpointID))
}

// getMessages is GET /api/notifications/messages: what was told and is to be, newest first, or with id one with its payload.
func (a *api) getMessages(c *gin.Context) {
	messageID, one, err := idOf(c, id.Notification)
	if err != nil {
		fail(c, err)
		return
	}
	org := caller(c).OrganizationID
	if one {
		n, err := a.Store.Notification(c.Request.Context(), org, messageID)
		if err != nil {
			fail(c, err)
			return
		}
		writeJSON(c, http.StatusOK, n)
		return
	}
	p, err := pageOf(c, id.Notification)
	if err != nil {
		fail(c, err)
		return
	}
	filter, err := a.messageFilter(c)
	if err != nil {
		fail(c, err)
		return
	}
	messages, err := a.Store.Notifications(c.Request.Context(), org, filter, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, listOf(messages, p, func(n domain.Notification) string { return n.ID }))
}

func (a *api) messageFilter(c *gin.Context) (f store.NotificationFilter, err error) {
	found := &problems{}
	if err := a.references(c, found, "endpointId"); err != nil {
		return f, err
	}
	f.EndpointID, _ = single(c, "endpointId", found)
	status, given := single(c, "status", found)
	if f.Status = domain.NotificationStatus(status); given {
		oneOf(found, "status", f.Status, domain.NotificationPending, domain.NotificationDelivered, domain.NotificationFailed)
	}
	return f, found.err()
}

// postMessages is POST /api/notifications/messages?id=&action=resend: once more, under the same id.
func (a *api) postMessages(c *gin.Context) {
	messageID, err := requiredID(c, id.Notification)
	if err != nil {
		fail(c, err)
		return
	}
	found := &problems{}
	if action, _ := single(c, "action", found); action != "resend" {
		found.add("action", codeInvalidValue, "must be resend")
	}
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	n, err := a.Store.ResendNotification(c.Request.Context(), caller(c).OrganizationID, messageID)
	a.writeQueued(c, n, err)
}
