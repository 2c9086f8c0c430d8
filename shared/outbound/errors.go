package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
)

// The kinds of errors that callers tell apart.
var (
	ErrRefused  = errors.New("refused")   // the address may not be reached, or a redirect not be followed
	ErrTooLarge = errors.New("too large") // the body is longer than it may be
)

// Error is a request that failed.
type Error struct {
	Message string // for model and caller: says what was refused or failed, and names no address
	NotSent bool   // it is certain that nothing of the request has left
	Err     error  // internal cause, may be nil
}

// Error gives the public message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// refuse makes the error of an address that may not be reached.
func refuse(message string) *Error { return &Error{Message: message, Err: ErrRefused} }

// AsError reads the error of a client made by HTTP, or of reading its response's body. The text of any other
// error stays inside: net/http's hold the address, and with it what a caller may have put into it.
func AsError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return &Error{Message: "The request failed.", Err: err}
}

// unreached is the message for a host to which no connection was made. Names have no other one: it would tell about networks that
// are not the caller's whether a name has no address, cannot be looked up, leads to a forbidden address or to one that does not answer.
const unreached = "The host could not be reached."

// describe finds words for what went wrong on the way to an answer.
func describe(ctx context.Context, err error, notSent bool) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return &Error{Message: known.Message, NotSent: notSent, Err: known.Err}
	}
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
		e.Message = unreached
	case ctx.Err() != nil:
		e.Message, e.Err = "The request took too long.", context.DeadlineExceeded
	case errors.As(err, &untrusted):
		e.Message = "The host's certificate is not valid."
	case errors.As(err, &operation) && operation.Op == "dial":
		e.Message = unreached
	case notSent:
		e.Message = "No connection to the host could be made."
	}
	return e
}
