package domain

import (
	"encoding/json"
	"time"
)

// HookSource is the kind of service that sends a hook's deliveries. It determines how deliveries
// are signed and identified.
type HookSource string

// The sources of hooks.
const (
	HookGitHub   HookSource = "github"
	HookStripe   HookSource = "stripe"
	HookSlack    HookSource = "slack"
	HookStandard HookSource = "standard" // Standard Webhooks
	HookHMAC     HookSource = "hmac"     // HMAC-SHA256 of the body, in a configurable header
	HookToken    HookSource = "token"    // the secret, in a configurable header
)

// SendersKept is the time after a signed delivery for which its client address counts as a verified
// sender of the hook.
const SendersKept = 30 * 24 * time.Hour

// HookSources lists every source, for validation.
var HookSources = []HookSource{HookGitHub, HookStripe, HookSlack, HookStandard, HookHMAC, HookToken}

// Hook is an endpoint that receives deliveries from a source. A delivery starts a run of an agent.
// The HTTP API uses its JSON form.
type Hook struct {
	ID               string        `json:"id"`
	Name             string        `json:"name"`
	AgentID          string        `json:"agentId"`
	KeyID            string        `json:"keyId"` // the API key with which the hook's runs are started
	Source           HookSource    `json:"source"`
	URL              string        `json:"url"`                 // the address for deliveries
	Secret           string        `json:"secret"`              // "***"
	PreviousUntil    *Time         `json:"previousSecretUntil"` // until then, the previous secret is also valid; nil: there is no previous secret
	SignatureHeader  string        `json:"signatureHeader"`     // for hmac and token; otherwise ""
	DeliveryIDHeader string        `json:"deliveryIdHeader"`    // for hmac and token; "": the delivery's id is derived from the body
	MessageTemplate  string        `json:"messageTemplate"`
	OutputSchema     JSONSchema    `json:"outputSchema"` // the schema that the answers must match; nil: the agent's own schema
	Filter           []HookFilter  `json:"filter"`
	Coalesce         *HookCoalesce `json:"coalesce"`
	Enabled          bool          `json:"enabled"`
	LastDeliveryAt   *Time         `json:"lastDeliveryAt"`
	LastRejectedAt   *Time         `json:"lastRejectedAt"` // time of the last delivery without a valid signature; nil if the log has none
	CreatedAt        Time          `json:"createdAt"`
	UpdatedAt        Time          `json:"updatedAt"`
}

// HookFilter is a condition on a delivery's payload. A run starts only if all filters
// of the hook match.
type HookFilter struct {
	Path  string          `json:"path"`            // for example pull_request.labels.0.name; "@event": the name of the event
	Op    string          `json:"op"`              // eq, ne, in, contains, exists
	Value json.RawMessage `json:"value,omitempty"` // a list for the operator "in"; a boolean, true by default, for "exists"
}

// HookCoalesce determines which deliveries are combined into one run: deliveries with the same key,
// each of which arrives within the window after the previous delivery.
type HookCoalesce struct {
	Key            string `json:"key"`            // a template, as for the message, for example {{pull_request.id}}
	WindowSeconds  int    `json:"windowSeconds"`  // 1-3600, from the newest delivery
	MaxWaitSeconds int    `json:"maxWaitSeconds"` // maximum time from the first delivery to the run; from WindowSeconds to 3600
}

// DeliveryStatus is the result of a delivery.
type DeliveryStatus string

// The results of deliveries. All deliveries except rejected ones have a valid signature.
const (
	DeliveryAccepted  DeliveryStatus = "accepted"  // it has started a run
	DeliveryCoalesced DeliveryStatus = "coalesced" // its run handles other deliveries too
	DeliveryFiltered  DeliveryStatus = "filtered"  // does not match the hook's filter, so no run was started
	DeliveryAnswered  DeliveryStatus = "answered"  // a ping or challenge of the source
	DeliveryRefused   DeliveryStatus = "refused"   // no run could be started; the error of the delivery is the reason
	DeliveryRejected  DeliveryStatus = "rejected"  // the signature is not valid; repeated rejections share an entry of the log
)

// Delivery is an entry of a hook's log.
type Delivery struct {
	ID         string         `json:"id"` // the source's id of the delivery
	HookID     string         `json:"hookId"`
	Status     DeliveryStatus `json:"status"`
	Event      string         `json:"event"` // the name that the source gives to the event; "" if it has none
	RunID      *string        `json:"runId"`
	Bytes      int64          `json:"bytes"`
	Kept       bool           `json:"kept"`  // whether the delivery's body is stored, so that the delivery can be repeated
	Error      *RunError      `json:"error"` // why the delivery was refused or rejected
	ReceivedAt Time           `json:"receivedAt"`
	Duplicates int            `json:"duplicates"` // how often the delivery was sent again
}
