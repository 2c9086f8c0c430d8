// Package apierr defines the coded error that reaches callers. Every layer may return it, wrapped
// in other errors. The ingress converts it to problem+json in one place and does not show any other
// error to the caller. docs/errors.md describes the codes.
package apierr

import (
	"errors"
	"fmt"
	"time"
)

// Code is a stable error code of the HTTP contract.
type Code string

// The codes of the contract. Callers rely on them, so a code never changes its meaning.
const (
	InvalidRequest         Code = "invalid_request"
	OrganizationRequired   Code = "organization_required"
	ConflictingCredentials Code = "conflicting_credentials"
	Unauthenticated        Code = "unauthenticated"
	APIKeyRequired         Code = "api_key_required"
	PermissionDenied       Code = "permission_denied"
	CallerNotAllowed       Code = "caller_not_allowed"
	DemoRestricted         Code = "demo_restricted"
	ServerToServerOnly     Code = "server_to_server_only"
	OrganizationMismatch   Code = "organization_mismatch"
	NotFound               Code = "not_found"
	MethodNotAllowed       Code = "method_not_allowed"
	VersionConflict        Code = "version_conflict"
	Conflict               Code = "conflict"
	PreconditionFailed     Code = "precondition_failed"
	EmailTaken             Code = "email_taken"
	LastOwner              Code = "last_owner"
	LastOrganization       Code = "last_organization"
	DocumentExists         Code = "document_exists"
	Erased                 Code = "erased"
	PayloadTooLarge        Code = "payload_too_large"
	UnsupportedMediaType   Code = "unsupported_media_type"
	RangeNotSatisfiable    Code = "range_not_satisfiable"
	IdempotencyKeyReused   Code = "idempotency_key_reused"
	UpgradeRequired        Code = "upgrade_required"
	RateLimited            Code = "rate_limited"
	BudgetExceeded         Code = "budget_exceeded"
	Internal               Code = "internal"
	Overloaded             Code = "overloaded"
	Unavailable            Code = "unavailable"
)

// Field is one problem with one field of a request: its path, a code and a message.
type Field struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is an error that a caller may see: the code, a sentence, the invalid fields and, if a retry
// can help, the time to wait before the retry. Err is the cause; it is logged and never shown. An
// Error must not be changed after it was returned.
type Error struct {
	Code       Code
	Detail     string
	Fields     []Field
	RetryAfter time.Duration
	Err        error
}

// Error returns the code, the detail and the cause as one string, for logs.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Detail)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error with a code and a sentence for the caller.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Missing returns the error for a resource that does not exist or that the caller may not read. The
// ingress adds the kind and the id of the resource.
func Missing() *Error { return New(NotFound, missing) }

const missing = "no such resource"

// IsMissing reports whether the error was made by Missing.
func (e *Error) IsMissing() bool { return e.Code == NotFound && e.Detail == missing }

// Wrap is like New, but the error also has a cause, which appears only in the log.
func Wrap(code Code, err error, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...), Err: err}
}

// Invalid returns an invalid_request error about one field. The argument code is a word such as
// "required" or "too_long".
func Invalid(field, code, format string, args ...any) *Error {
	f := Field{Field: field, Code: code, Message: fmt.Sprintf(format, args...)}
	return &Error{Code: InvalidRequest, Detail: field + ": " + f.Message, Fields: []Field{f}}
}

// InvalidFields returns one invalid_request error for all fields, or nil if fields is empty.
func InvalidFields(fields []Field) error {
	if len(fields) == 0 {
		return nil
	}

	// The error's detail describes only the first invalid field. Its list of fields contains all of
	// them.
	return &Error{Code: InvalidRequest, Detail: fields[0].Field + ": " + fields[0].Message, Fields: fields}
}

// CodeFor returns the code of err, or Internal if err has no code.
func CodeFor(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
