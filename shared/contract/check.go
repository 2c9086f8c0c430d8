package contract

import (
	"time"

	"parley/shared/domain"
)

// Kinds of tool calls with which ingresses check an agent's connections. Tool workers check the
// connections of tools, and agent workers the models, because only these processes have the settings
// and secrets for them. Each kind has its own subject and queue group.
const (
	KindCheckTools  = "checkTools"
	KindCheckModels = "checkModels"
)

// CheckClaims contains the capability for a check: the version of the agent whose connections are
// checked, and the expiry. The body of a check is empty.
type CheckClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindCheckTools or KindCheckModels
	AgentID        string    `json:"agent"`
	Version        int       `json:"version"`
	Expires        time.Time `json:"expires"`
}

// CheckReply is the result of a check.
type CheckReply struct {
	Checks []domain.Check `json:"checks,omitempty"`
	// Unavailable means that the worker could not check anything.
	Unavailable bool `json:"unavailable,omitempty"`
}
