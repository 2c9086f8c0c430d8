package contract

import (
	"time"

	"parley/shared/domain"
)

// KindSearch is the kind of tool call with which ingresses search documents. Such calls have their
// own subject and queue group.
const KindSearch = "search"

// SearchClaims contains the verified data of the capability for a search: the organization and the
// expiry. An organization in the body of the request is ignored.
type SearchClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindSearch
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when
// they expire.
func (c SearchClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// SearchRequest is the body of a search.
type SearchRequest struct {
	Query       string            `json:"query"`
	DocumentIDs []string          `json:"documentIds,omitempty"` // empty: all documents of the organization
	Metadata    map[string]string `json:"metadata,omitempty"`    // the documents must have all of these entries
	Limit       int               `json:"limit"`
}

// SearchReply is the result of a search, best hits first.
type SearchReply struct {
	Found []domain.Found `json:"found,omitempty"`
	// Without is the list of the parts of the search that failed. It contains "vector" if the
	// embeddings service did not respond.
	Without []string `json:"without,omitempty"`
	// Unavailable means that no part of the search was possible.
	Unavailable bool `json:"unavailable,omitempty"`
}
