package agentloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// Public codes of failed runs.
const (
	CodeModelUnavailable  = "model_unavailable"    // the provider fails or cannot be reached
	CodeModelRateLimited  = "model_rate_limited"   // the provider limits the rate of requests
	CodeModelTimeout      = "model_timeout"        // the model did not answer in time
	CodeModelTruncated    = "model_truncated"      // the stream ended before the answer was complete
	CodeModelRejected     = "model_rejected"       // the provider rejects the request, the credentials or the answer
	CodeModelQuota        = "model_quota_exceeded" // the account at the provider has no quota left
	CodeModelNotAvailable = "model_not_available"  // no such model, or its provider is not configured
	CodeContextTooLong    = "context_too_long"     // the prompt is too long for the model
	CodeTurnLimit         = "turn_limit"           // too many model calls
	CodeTokenLimit        = "token_limit"          // too many tokens
	CodeByteLimit         = "byte_limit"           // too much text
	CodeCostLimit         = "cost_limit"           // too expensive
	CodeToolCallLimit     = "tool_call_limit"      // too many tool calls
	CodeToolUnavailable   = "tool_unavailable"     // a tool cannot be reached
	CodeOutputInvalid     = "output_invalid"       // the answer does not match its schema
	CodeToolNameTaken     = "tool_name_taken"      // a tool of the client and a tool of the agent have the same name
	CodeJournalUnreadable = "journal_unreadable"   // the recorded steps are inconsistent
)

// Error is the failure of a run. Code and Message are public. The cause, which errors.Unwrap
// returns, is not. Retryable reports whether the same run may succeed later. RetryAfter is the
// minimum delay before a retry that the provider demands, or 0 if it demands none.
type Error struct {
	Code       string
	Message    string
	Retryable  bool
	RetryAfter time.Duration
	Provider   *domain.ProviderError // the response with which a provider refused a model call; nil: none
	Err        error
	Mismatches []domain.OutputMismatch // differences between the answer and its schema, for CodeOutputInvalid
}

// Error returns the code and the public message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// Parked is the error of Run when a tool call needs a person's decision, or when the client must
// execute Calls. All earlier steps are recorded. When the decision or the results exist, the caller
// calls Run again to continue.
type Parked struct { //nolint:errname // waiting for a person is not a failure
	Kind  domain.ActionKind
	Call  tool.Call
	Calls []domain.ClientCall // calls that the client must execute, for domain.ActionClientTools; the field Call is not set then
}

// Error returns a text that names the tool call and the decision that it needs.
func (p *Parked) Error() string {
	return fmt.Sprintf("the run waits for the required action %s of the call %s", p.Kind, p.Call.ID)
}

// limitError returns the error of a run that reached a limit. It is not retryable.
func limitError(code, message string) *Error { return &Error{Code: code, Message: message} }

// codes maps each kind of model failure to a public code.
var codes = map[llm.Kind]string{
	llm.KindRateLimited:   CodeModelRateLimited,
	llm.KindUnavailable:   CodeModelUnavailable,
	llm.KindTimeout:       CodeModelTimeout,
	llm.KindTruncated:     CodeModelTruncated,
	llm.KindBadResponse:   CodeModelUnavailable,
	llm.KindTooLarge:      CodeByteLimit,
	llm.KindInvalid:       CodeModelRejected,
	llm.KindAuth:          CodeModelRejected,
	llm.KindQuota:         CodeModelQuota,
	llm.KindContextLength: CodeContextTooLong,
	llm.KindFiltered:      CodeModelRejected,
	llm.KindUnknownModel:  CodeModelNotAvailable,
	llm.KindNotConfigured: CodeModelNotAvailable,
}

// Classify converts err to an *Error. It returns an *Error unchanged. An error of a model, or of
// the lookup of a model, gets the public code of its llm.Kind. Any other error becomes a retryable
// CodeModelUnavailable.
func Classify(err error) *Error {
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified
	}
	var e *llm.Error
	if !errors.As(err, &e) {
		return &Error{Code: CodeModelUnavailable, Message: llm.NewError(llm.KindUnavailable, nil).Error(), Retryable: true, Err: err}
	}

	// A kind without a public code is treated like an unavailable model.
	code, ok := codes[e.Kind]
	if !ok {
		code = CodeModelUnavailable
	}
	return &Error{Code: code, Message: e.Error(), Retryable: e.Retryable, RetryAfter: e.RetryAfter, Provider: e.Provider, Err: err}
}

// toolUnavailable returns the error that ends the attempt if a tool failed with a retryable error.
// For any other error, it returns nil.
func toolUnavailable(name string, err error) *Error {
	var e *tool.Error
	if !errors.As(err, &e) || !e.Retryable {
		return nil
	}
	return &Error{Code: CodeToolUnavailable, Message: fmt.Sprintf("The tool %s is not available.", name), Retryable: true, Err: err}
}

// stopped returns an error that wraps the cause of ctx's cancellation, so that callers can
// distinguish a lost lease from a cancelled run.
func stopped(ctx context.Context) error { return wrap("running agent", context.Cause(ctx)) }

// wrap adds the failed operation to an error, and keeps the cause for errors.Is and errors.As.
func wrap(doing string, err error) error { return fmt.Errorf("%s: %w", doing, err) }
