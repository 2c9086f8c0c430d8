package llm

import (
	"time"

	"parley/shared/domain"
)

// Kind classifies the failure of a model call.
type Kind string

// Kinds of failures.
const (
	KindRateLimited   Kind = "rate_limited"    // the rate of requests exceeds the provider's limit
	KindUnavailable   Kind = "unavailable"     // no connection, or the provider failed (5xx)
	KindTimeout       Kind = "timeout"         // a time limit was exceeded
	KindTruncated     Kind = "truncated"       // the answer ended before it was complete
	KindBadResponse   Kind = "bad_response"    // the answer violates the protocol
	KindTooLarge      Kind = "too_large"       // the answer is larger than allowed
	KindInvalid       Kind = "invalid_request" // the provider rejected the request
	KindAuth          Kind = "auth"            // the provider rejected the service's credentials
	KindQuota         Kind = "quota"           // the account at the provider has no quota left
	KindContextLength Kind = "context_length"  // the prompt is too long for the model
	KindFiltered      Kind = "content_filter"  // the provider withheld the answer
	KindUnknownModel  Kind = "unknown_model"   // the model does not exist
	KindNotConfigured Kind = "not_configured"  // the provider is known but not configured
)

// publicMessages contains the error messages for callers. They contain no text of a provider, no
// key and no address.
var publicMessages = map[Kind]string{
	KindRateLimited:   "The model provider is limiting requests.",
	KindUnavailable:   "The model provider is not available.",
	KindTimeout:       "The model did not answer in time.",
	KindTruncated:     "The model's answer was interrupted.",
	KindBadResponse:   "The model provider's response could not be read.",
	KindTooLarge:      "The model's answer exceeded the size limit.",
	KindInvalid:       "The model provider rejected the request.",
	KindAuth:          "The model provider rejected the service's credentials.",
	KindQuota:         "The service's account at the model provider has no credit or quota left.",
	KindContextLength: "The prompt is longer than the model's context.",
	KindFiltered:      "The model provider withheld the answer.",
	KindUnknownModel:  "The model does not exist.",
	KindNotConfigured: "The model's provider is not configured on this service.",
}

// Error is the failure of a model call. Error() returns a message that callers may read.
// errors.Unwrap returns the cause, which may contain text of the provider. The cause may be logged
// but never shown to callers.
type Error struct {
	Kind       Kind
	Retryable  bool
	RetryAfter time.Duration // minimum delay that the provider demands; 0: none
	// MidAnswer reports that the time limit was exceeded while the answer was arriving. This shows
	// that the provider was working.
	MidAnswer bool
	// Unused reports that the provider has not processed the call, so the call is free. After any
	// other failure, the cost of the call is unknown.
	Unused  bool
	Message string // public message; "" means the default message for the kind
	Err     error  // internal cause, may be nil
	// Detail is the provider's own message, which may contain secrets. It must not be shown to
	// callers.
	Detail string
	// Provider is the provider's response, for admins and logs. It is nil if there was no response.
	Provider *domain.ProviderError
}

// Error returns the public message.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return publicMessages[e.Kind]
}

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// NewUnused returns the error of a call that the provider has not processed.
func NewUnused(kind Kind, cause error) *Error {
	e := NewError(kind, cause)
	e.Unused = true
	return e
}

// NewError returns an error of the given kind. The error is retryable if failures of this kind are
// usually transient.
func NewError(kind Kind, cause error) *Error {
	e := &Error{Kind: kind, Err: cause}
	switch kind {
	case KindRateLimited, KindUnavailable, KindTimeout, KindTruncated, KindBadResponse:
		e.Retryable = true
	default:
	}
	return e
}
