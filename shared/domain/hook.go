package domain

import (
	"encoding/json"
	"time"
)

// HookSource is who sends to a hook: how its deliveries are signed and named.
type HookSource string

// The sources of hooks.
const (
	HookGitHub   HookSource = "github"
	HookStripe   HookSource = "stripe"
	HookSlack    HookSource = "slack"
	HookStandard HookSource = "standard" // Standard Webhooks
	HookHMAC     HookSource = "hmac"     // HMAC-SHA256 of the body, in a header of the hook's
	HookToken    HookSource = "token"    // the secret itself, in a header
)

// SendersKept is how long a client address stays a verified sender of a hook after a signed delivery.
const SendersKept = 30 * 24 * time.Hour

// HookSources lists every source, for validation.
var HookSources = []HookSource{HookGitHub, HookStripe, HookSlack, HookStandard, HookHMAC, HookToken}

// Hook is where a source sends its deliveries, each of which starts a run of an agent; its JSON form is the contract's.
type Hook struct {
	ID               string        `json:"id"`
	Name             string        `json:"name"`
	AgentID          string        `json:"agentId"`
	KeyID            string        `json:"keyId"` // the API key as which its deliveries enter
	Source           HookSource    `json:"source"`
	URL              string        `json:"url"`                 // where deliveries are sent
	Secret           string        `json:"secret"`              // "***"
	PreviousUntil    *Time         `json:"previousSecretUntil"` // until then the secret before it is taken as well; nil for none
	SignatureHeader  string        `json:"signatureHeader"`     // of hmac and token; "" for the others
	DeliveryIDHeader string        `json:"deliveryIdHeader"`    // of hmac and token; "": the id is made of the body
	MessageTemplate  string        `json:"messageTemplate"`
	Filter           []HookFilter  `json:"filter"`
	Coalesce         *HookCoalesce `json:"coalesce"`
	Enabled          bool          `json:"enabled"`
	LastDeliveryAt   *Time         `json:"lastDeliveryAt"`
	CreatedAt        Time          `json:"createdAt"`
	UpdatedAt        Time          `json:"updatedAt"`
}

// HookFilter is a condition on a delivery's payload; all of a hook's must hold for a run to start.
type HookFilter struct {
	Path  string          `json:"path"`            // such as pull_request.labels.0.name; "@event" is the source's name of the event
	Op    string          `json:"op"`              // eq, ne, in, contains, exists
	Value json.RawMessage `json:"value,omitempty"` // of in a list; of exists a boolean, true when left out
}

// HookCoalesce says which deliveries become one run: those with the same key that come within a window of the one before.
type HookCoalesce struct {
	Key            string `json:"key"`            // a template like the message's, such as {{pull_request.id}}
	WindowSeconds  int    `json:"windowSeconds"`  // 1-3600, from the newest delivery
	MaxWaitSeconds int    `json:"maxWaitSeconds"` // at least the window, at most 3600: from the first one
}

// DeliveryStatus is what became of a delivery.
type DeliveryStatus string

// The outcomes of deliveries whose signature held.
const (
	DeliveryAccepted  DeliveryStatus = "accepted"  // it has a run of its own
	DeliveryCoalesced DeliveryStatus = "coalesced" // its run stands for others as well
	DeliveryFiltered  DeliveryStatus = "filtered"  // the hook's filter held it back
	DeliveryAnswered  DeliveryStatus = "answered"  // a ping or challenge of the source's
	DeliveryRefused   DeliveryStatus = "refused"   // no run could be made of it: see its error
)

// Delivery is one line of a hook's log.
type Delivery struct {
	ID         string         `json:"id"` // as the source names it
	HookID     string         `json:"hookId"`
	Status     DeliveryStatus `json:"status"`
	Event      string         `json:"event"` // as the source names it; "" when it does not
	RunID      *string        `json:"runId"`
	Bytes      int64          `json:"bytes"`
	Kept       bool           `json:"kept"`  // its body, so that it can be delivered again
	Error      *RunError      `json:"error"` // why it was refused
	ReceivedAt Time           `json:"receivedAt"`
	Duplicates int            `json:"duplicates"` // times that it came again
}
