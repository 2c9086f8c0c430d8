package llm

import (
	"time"
)

// Kind classifies why a model call failed.
type Kind string

// The kinds of failure.
const (
	KindRateLimited   Kind = "rate_limited"    // the provider asks to come back later
	KindUnavailable   Kind = "unavailable"     // no connection, or the provider failed (5xx)
	KindTimeout       Kind = "timeout"         // one of the time limits ran out
	KindTruncated     Kind = "truncated"       // the answer broke off
	KindBadResponse   Kind = "bad_response"    // the answer was not in the protocol's form
	KindTooLarge      Kind = "too_large"       // the answer was larger than allowed
	KindInvalid       Kind = "invalid_request" // the provider refused the request
	KindAuth          Kind = "auth"            // the provider refused the service's credentials
	KindQuota         Kind = "quota"           // the service's account at the provider is used up
	KindContextLength Kind = "context_length"  // the prompt does not fit the model
	KindFiltered      Kind = "content_filter"  // the provider withheld the answer
	KindUnknownModel  Kind = "unknown_model"   // no such model
	KindNotConfigured Kind = "not_configured"  // the provider is known but not set up here
)

// publicMessages are what callers are told: no provider text, no key, no address.
var publicMessages = map[Kind]string{
	KindRateLimited:   "The model provider is limiting requests.",
	KindUnavailable:   "The model provider is not available.",
	KindTimeout:       "The model did not answer in time.",
	KindTruncated:     "The model's answer was interrupted.",
	KindBadResponse:   "The model provider's answer could not be read.",
	KindTooLarge:      "The model's answer was larger than allowed.",
	KindInvalid:       "The model provider rejected the request.",
	KindAuth:          "The model provider rejected the service's credentials.",
	KindQuota:         "The service's account at the model provider has no credit or quota left.",
	KindContextLength: "The prompt is longer than the model's context.",
	KindFiltered:      "The model provider withheld the answer.",
	KindUnknownModel:  "The model does not exist.",
	KindNotConfigured: "The model's provider is not configured on this service.",
}

// Error is a failed model call. Its Error text may be shown to callers; the cause, which may
// hold provider text, is reached by errors.Unwrap only and belongs in logs at most.
type Error struct {
	Kind       Kind
	Retryable  bool
	RetryAfter time.Duration // the provider's wish; 0 when it named none
	// Answering: time ran out while the answer was coming, so that nothing is wrong with the provider.
	Answering bool
	// Unused: it is known that the provider has done nothing for the call. Of any other failure nobody knows what it costs.
	Unused  bool
	Message string // public; empty means the kind's own sentence
	Err     error  // internal cause, may be nil
}

// Error gives the public message.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return publicMessages[e.Kind]
}

// Unwrap gives the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// NewUnused makes an Error of a call that was not made.
func NewUnused(kind Kind, cause error) *Error {
	e := NewError(kind, cause)
	e.Unused = true
	return e
}

// NewError makes an Error of a kind, retryable if time alone may cure that kind.
func NewError(kind Kind, cause error) *Error {
	e := &Error{Kind: kind, Err: cause}
	switch kind {
	case KindRateLimited, KindUnavailable, KindTimeout, KindTruncated, KindBadResponse:
		e.Retryable = true
	default:
	}
	return e
}
