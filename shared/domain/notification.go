package domain

import "encoding/json"

// The events of notifications.
const (
	NotifyRunCompleted      = "run.completed"
	NotifyRunFailed         = "run.failed" // also for runs that timed out
	NotifyRunRequiresAction = "run.requires_action"
	NotifyKnowledgeReady    = "knowledge.ready"
	NotifyKnowledgeFailed   = "knowledge.failed"
	NotifyPing              = "ping" // a test, which is sent regardless of the endpoint's events
)

// NotificationEvents lists the events that an endpoint may name.
var NotificationEvents = []string{NotifyRunCompleted, NotifyRunFailed, NotifyRunRequiresAction, NotifyKnowledgeReady, NotifyKnowledgeFailed}

// NotificationEndpoint is a URL to which an organization's notifications are sent according to
// Standard Webhooks. The HTTP API uses its JSON form.
type NotificationEndpoint struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	Description    string   `json:"description"`
	Events         []string `json:"events"`
	AgentID        *string  `json:"agentId"` // only runs of this agent; nil: all
	Enabled        bool     `json:"enabled"`
	DisabledReason *string  `json:"disabledReason"` // why the service disabled the endpoint; nil if the service did not disable it
	DisabledAt     *Time    `json:"disabledAt"`
	Secret         string   `json:"secret"` // whsec_… if it was just created, otherwise "***"
	PreviousUntil  *Time    `json:"previousSecretUntil"`
	Failures       int      `json:"failures"` // consecutive failed attempts
	LastSuccessAt  *Time    `json:"lastSuccessAt"`
	CreatedAt      Time     `json:"createdAt"`
	UpdatedAt      Time     `json:"updatedAt"`
}

// NotificationStatus is the state of a notification.
type NotificationStatus string

// The states of notifications.
const (
	NotificationPending   NotificationStatus = "pending"
	NotificationDelivered NotificationStatus = "delivered"
	NotificationFailed    NotificationStatus = "failed" // no further attempts
)

// Notification is an event to be sent to an endpoint.
type Notification struct {
	ID            string             `json:"id"` // the webhook-id of every attempt
	EndpointID    string             `json:"endpointId"`
	Event         string             `json:"event"`
	Status        NotificationStatus `json:"status"`
	Attempts      int                `json:"attempts"`
	ResponseCode  *int               `json:"responseStatus"` // status of the response to the last attempt; nil if there was no response
	Error         *string            `json:"error"`          // of the last attempt
	NextAttemptAt *Time              `json:"nextAttemptAt"`
	CreatedAt     Time               `json:"createdAt"`
	DeliveredAt   *Time              `json:"deliveredAt"`
	Payload       json.RawMessage    `json:"payload,omitempty"` // only in the response for a single notification
}
