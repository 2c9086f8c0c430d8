package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
)

// Kinds of errors that callers distinguish.
var (
	ErrRefused  = errors.New("refused")   // the URL is not allowed, or the response is a redirect that must not be followed
	ErrTooLarge = errors.New("too large") // the body exceeds the limit
)

// Error is a failed request. Its message is written for models and callers, so it reveals nothing
// about the network of this service.
type Error struct {
	Message string // the reason, for the model and the caller, without any URL or address
	NotSent bool   // it is certain that no part of the request was sent
	Err     error  // internal cause, may be nil
}

// Error returns the public message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// refuse returns the error for a URL that is not allowed.
func refuse(message string) *Error { return &Error{Message: message, Err: ErrRefused} }

// AsError converts an error from a client that Client.HTTP returned, or from reading a response's
// body, to an *Error. It hides the text of other errors, because net/http's errors contain the URL,
// which may contain a caller's secrets.
func AsError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return &Error{Message: "The request failed.", Err: err}
}

// unreachable is the message if no connection was made. It is the same for all failures to reach a
// host by name. Different messages would reveal whether a name in another network has no address,
// cannot be resolved, or leads to a forbidden or unresponsive address.
const unreachable = "The host could not be reached."

// describe converts an error of a request or its response to an *Error, whose message is public.
func describe(ctx context.Context, err error, notSent bool) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return &Error{Message: known.Message, NotSent: notSent, Err: known.Err}
	}

	// The most specific cause determines the message. A failed name lookup is checked before the
	// timeout, so that both a failed lookup and a slow lookup lead to the same message.
	e := &Error{Message: "The connection was lost.", NotSent: notSent, Err: err}
	var (
		unresolved *net.DNSError
		untrusted  *tls.CertificateVerificationError
		operation  *net.OpError
	)

	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Message, e.Err = "The request was cancelled.", context.Cause(ctx)
	case errors.As(err, &unresolved):
		e.Message = unreachable
	case ctx.Err() != nil:
		e.Message, e.Err = "The request took too long.", context.DeadlineExceeded
	case errors.As(err, &untrusted):
		e.Message = "The host's certificate is not valid."
	case errors.As(err, &operation) && operation.Op == "dial":
		e.Message = unreachable
	case notSent:
		e.Message = "No connection to the host could be made."
	}

	return e
}
