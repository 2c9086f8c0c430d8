package llm

import (
	"time"

	"parley/shared/domain"
)

// Kind classifies the failure of a model call.
type Kind string

// Kinds of failures.
const (
	KindRateLimited   Kind = "rate_limited"    // the provider limits the rate of requests
	KindUnavailable   Kind = "unavailable"     // no connection, or the provider failed (5xx)
	KindTimeout       Kind = "timeout"         // a time limit was exceeded
	KindTruncated     Kind = "truncated"       // the answer broke off
	KindBadResponse   Kind = "bad_response"    // the answer violates the protocol
	KindTooLarge      Kind = "too_large"       // the answer was larger than allowed
	KindInvalid       Kind = "invalid_request" // the provider rejected the request
	KindAuth          Kind = "auth"            // the provider rejected the service's credentials
	KindQuota         Kind = "quota"           // the account at the provider has no quota left
	KindContextLength Kind = "context_length"  // the prompt is too long for the model
	KindFiltered      Kind = "content_filter"  // the provider withheld the answer
	KindUnknownModel  Kind = "unknown_model"   // no such model
	KindNotConfigured Kind = "not_configured"  // the provider is known but not configured
)

// publicMessages are the messages for callers. They contain no provider text, key or address.
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

// Error is the failure of a model call. Its Error text may be shown to callers. The cause,
// returned by errors.Unwrap, may contain provider text and may at most be logged.
type Error struct {
	Kind       Kind
	Retryable  bool
	RetryAfter time.Duration // the minimum delay that the provider requested; 0 if none
	// MidAnswer reports that the time limit was reached while the answer was arriving. In that case
	// the provider works.
	MidAnswer bool
	// Unused reports that the provider did no work for the call, so the call is free. After any
	// other failure, the cost is unknown.
	Unused  bool
	Message string // a public message; "" means the usual message for the kind
	Err     error  // internal cause, may be nil
	// Detail is the provider's own message, unredacted. It is not for callers.
	Detail string
	// Provider is the provider's response for admins and logs; nil if there was no response.
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

// NewUnused returns an Error of a call that the provider did not process.
func NewUnused(kind Kind, cause error) *Error {
	e := NewError(kind, cause)
	e.Unused = true
	return e
}

// NewError returns an Error of a kind. It is retryable if failures of this kind can be transient.
func NewError(kind Kind, cause error) *Error {
	e := &Error{Kind: kind, Err: cause}
	switch kind {
	case KindRateLimited, KindUnavailable, KindTimeout, KindTruncated, KindBadResponse:
		e.Retryable = true
	default:
	}
	return e
}
