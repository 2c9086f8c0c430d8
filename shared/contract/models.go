package contract

import (
	"time"

	"parley/shared/domain"
)

// KindListModels is the kind of tool call with which an ingress asks an agent worker for the models
// that agents can use. Only agent workers have the keys of the model providers.
const KindListModels = "listModels"

// ListModelsClaims contains the verified data of the capability for listing models: the
// organization and the expiry. The list is the same for all organizations. The organization is
// needed only to divide the worker's slots among organizations. The request has no body.
type ListModelsClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindListModels
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when
// they expire.
func (c ListModelsClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// ModelListReply is the reply to a call of the kind KindListModels.
type ModelListReply struct {
	List domain.ModelList `json:"list"`
}
