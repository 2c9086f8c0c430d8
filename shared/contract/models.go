package contract

import (
	"time"

	"parley/shared/domain"
)

// KindListModels is the kind of tool call with which an ingress asks an agent worker for the models that agents can use. Only
// agent workers have the providers' keys.
const KindListModels = "listModels"

// ListModelsClaims contains the capability for the list and the expiry. The body is empty. The list is the same for all
// organizations; slots are shared by the organizations that ask.
type ListModelsClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindListModels
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when they expire.
func (c ListModelsClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// ModelListReply is the reply to such a call.
type ModelListReply struct {
	List domain.ModelList `json:"list"`
}
