package contract

import (
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// KindEmbed is the kind of tool call with which ingresses request embeddings of texts. Such calls
// have their own subject and queue group.
const KindEmbed = "embed"

// EmbedClaims contains the verified data of the capability for an embedding call: the organization
// and the API key that are charged, and the expiry.
type EmbedClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"`          // KindEmbed
	KeyID          string    `json:"key,omitempty"` // the API key of the request; empty: none
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when
// they expire.
func (c EmbedClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// EmbedRequest is the body of an embedding call.
type EmbedRequest struct {
	Model      string   `json:"model"`
	Texts      []string `json:"texts"`
	Dimensions int      `json:"dimensions,omitempty"` // 0: as many as the model has
}

// EmbedReply is the result of an embedding call: vectors, or the reason why there are none.
type EmbedReply struct {
	Model string `json:"model,omitempty"`
	// Vectors are the embeddings of the first texts, each as 32-bit floating-point numbers in
	// little-endian order. If not all vectors fit into a message, the vectors of the last texts are
	// missing.
	Vectors     [][]byte `json:"vectors,omitempty"`
	InputTokens int64    `json:"inputTokens,omitempty"`
	// Lacking is the budget whose remainder was too small for the call; the call was not made.
	// Later is true if the remainder would suffice without the reservations of other calls.
	Lacking *domain.Budget `json:"lacking,omitempty"`
	Later   bool           `json:"later,omitempty"`
	// Failure is the reason why there are no vectors, as an error for the caller.
	Failure *EmbedFailure `json:"failure,omitempty"`
}

// EmbedFailure is the reason why texts were not embedded.
type EmbedFailure struct {
	Code       apierr.Code   `json:"code"`
	Message    string        `json:"message"`
	Field      string        `json:"field,omitempty"` // the faulty part of the request: "model", "input", "dimensions"
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}
