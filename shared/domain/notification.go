package domain

import "encoding/json"

// The events of notifications: what an organization's endpoints can be told of.
const (
	NotifyRunCompleted      = "run.completed"
	NotifyRunFailed         = "run.failed" // also of runs that timed out
	NotifyRunRequiresAction = "run.requires_action"
	NotifyKnowledgeReady    = "knowledge.ready"
	NotifyKnowledgeFailed   = "knowledge.failed"
	NotifyPing              = "ping" // a test, which everybody gets who asks for one
)

// NotificationEvents lists the events that an endpoint may name.
var NotificationEvents = []string{NotifyRunCompleted, NotifyRunFailed, NotifyRunRequiresAction, NotifyKnowledgeReady, NotifyKnowledgeFailed}

// NotificationEndpoint is an address of an organization's that is told of events, by Standard Webhooks; its JSON form is the contract's.
type NotificationEndpoint struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	Description    string   `json:"description"`
	Events         []string `json:"events"`
	AgentID        *string  `json:"agentId"` // only runs of this agent; nil for all
	Enabled        bool     `json:"enabled"`
	DisabledReason *string  `json:"disabledReason"` // why the service disabled it; nil when it did not
	DisabledAt     *Time    `json:"disabledAt"`
	Secret         string   `json:"secret"` // whsec_… when it was just made, else "***"
	PreviousUntil  *Time    `json:"previousSecretUntil"`
	Failures       int      `json:"failures"` // attempts in a row that failed
	LastSuccessAt  *Time    `json:"lastSuccessAt"`
	CreatedAt      Time     `json:"createdAt"`
	UpdatedAt      Time     `json:"updatedAt"`
}

// NotificationStatus is where a notification stands.
type NotificationStatus string

// The states of notifications.
const (
	NotificationPending   NotificationStatus = "pending"
	NotificationDelivered NotificationStatus = "delivered"
	NotificationFailed    NotificationStatus = "failed" // given up
)

// Notification is one event on its way to one endpoint.
type Notification struct {
	ID            string             `json:"id"` // the webhook-id of every attempt
	EndpointID    string             `json:"endpointId"`
	Event         string             `json:"event"`
	Status        NotificationStatus `json:"status"`
	Attempts      int                `json:"attempts"`
	ResponseCode  *int               `json:"responseStatus"` // of the newest attempt; nil when none was had
	Error         *string            `json:"error"`          // of the newest attempt
	NextAttemptAt *Time              `json:"nextAttemptAt"`
	CreatedAt     Time               `json:"createdAt"`
	DeliveredAt   *Time              `json:"deliveredAt"`
	Payload       json.RawMessage    `json:"payload,omitempty"` // shown when one is asked for
}
