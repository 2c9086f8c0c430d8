package contract

import (
	"time"

	"parley/shared/domain"
)

// Kinds of tool calls with which ingresses check an agent's connections. Tool workers check the
// connections of tools, and agent workers the models, because only these processes have the
// settings and secrets for them. Each kind of call has its own subject and queue group.
const (
	KindCheckTools  = "checkTools"
	KindCheckModels = "checkModels"
)

// CheckClaims contains the verified data of the capability for a check: the version of the agent
// whose connections are checked, and the expiry. The body of a check is empty.
type CheckClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindCheckTools or KindCheckModels
	AgentID        string    `json:"agent"`
	KeyID          string    `json:"key,omitempty"` // the API key of the request; empty: none
	Version        int       `json:"version"`
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when
// they expire.
func (c CheckClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// CheckReply is the result of a check.
type CheckReply struct {
	Checks []domain.Check `json:"checks,omitempty"`
	// Lacking is the budget whose remainder was too small for the model calls of the check; no call
	// was made. Later is true if the remainder would suffice without the reservations of other
	// calls.
	Lacking *domain.Budget `json:"lacking,omitempty"`
	Later   bool           `json:"later,omitempty"`
	// Unavailable means that the worker could not check anything.
	Unavailable bool `json:"unavailable,omitempty"`
}
