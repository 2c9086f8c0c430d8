package contract

import (
	"time"

	"parley/shared/domain"
)

// KindSearch is the kind under which ingresses have documents searched, as tool calls are made: a subject and a queue group.
const KindSearch = "search"

// SearchClaims is the capability of a search: whose documents, and until when. Organizations in a request count for nothing.
type SearchClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindSearch
	Expires        time.Time `json:"expires"`
}

// SearchRequest is the body of a search.
type SearchRequest struct {
	Query       string            `json:"query"`
	DocumentIDs []string          `json:"documentIds,omitempty"` // none: all of the organization's
	Metadata    map[string]string `json:"metadata,omitempty"`    // that documents must have, all of it
	Limit       int               `json:"limit"`
}

// SearchReply is what was found, the best first.
type SearchReply struct {
	Found []domain.Found `json:"found,omitempty"`
	// Without names what could not be searched by: "vector" when the embeddings service did not answer.
	Without []string `json:"without,omitempty"`
	// Unavailable: nothing could be searched.
	Unavailable bool `json:"unavailable,omitempty"`
}
