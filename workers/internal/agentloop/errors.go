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
	CodeModelRateLimited  = "model_rate_limited"   // the provider asks to come back later
	CodeModelTimeout      = "model_timeout"        // the model did not answer in time
	CodeModelTruncated    = "model_truncated"      // the answer broke off
	CodeModelRejected     = "model_rejected"       // the provider refuses request, credentials or answer
	CodeModelQuota        = "model_quota_exceeded" // the service's account at the provider is used up
	CodeModelNotAvailable = "model_not_available"  // no such model, or its provider is not set up
	CodeContextTooLong    = "context_too_long"     // the message does not fit the model
	CodeTurnLimit         = "turn_limit"           // too many model calls
	CodeTokenLimit        = "token_limit"          // too many tokens
	CodeByteLimit         = "byte_limit"           // too much text
	CodeCostLimit         = "cost_limit"           // too expensive
	CodeToolCallLimit     = "tool_call_limit"      // too many tool calls
	CodeToolUnavailable   = "tool_unavailable"     // a tool cannot be reached
	CodeJournalUnreadable = "journal_unreadable"   // the recorded steps do not fit together
)

// Error is a run that cannot go on. Code and Message are made for the caller; the cause, reached by
// errors.Unwrap, is not. Retryable means that the same run may succeed later, RetryAfter (0 if
// nobody said) not before when.
type Error struct {
	Code       string
	Message    string
	Retryable  bool
	RetryAfter time.Duration
	Err        error
}

// Error gives code and public message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap gives the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// Parked says that a run waits for a person before it can make a call. All steps before it are recorded; once there is
// a decision, Run goes on from them by making the same call again.
type Parked struct { //nolint:errname // it is no failure
	Kind domain.ActionKind
	Call tool.Call
}

// Error says what is waited for.
func (p *Parked) Error() string {
	return fmt.Sprintf("the run waits for a person: %s of the call %s", p.Kind, p.Call.ID)
}

func limitError(code, message string) *Error { return &Error{Code: code, Message: message} }

// codes maps the kinds of model failures; every kind has one.
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

// Classify turns the error of a model, or of looking one up, into an *Error, unless it is one. One that is no
// *llm.Error says nothing of its cause and is taken as passing.
func Classify(err error) *Error {
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified
	}
	var e *llm.Error
	if !errors.As(err, &e) {
		return &Error{Code: CodeModelUnavailable, Message: llm.NewError(llm.KindUnavailable, nil).Error(), Retryable: true, Err: err}
	}
	code, ok := codes[e.Kind]
	if !ok {
		code = CodeModelUnavailable
	}
	return &Error{Code: code, Message: e.Error(), Retryable: e.Retryable, RetryAfter: e.RetryAfter, Err: err}
}

// toolUnavailable gives the run's error for a tool error that a retry may cure, nil for any other.
func toolUnavailable(name string, err error) *Error {
	var e *tool.Error
	if !errors.As(err, &e) || !e.Retryable {
		return nil
	}
	return &Error{Code: CodeToolUnavailable, Message: fmt.Sprintf("The tool %s is not available.", name), Retryable: true, Err: err}
}

// stopped gives the reason why ctx ended, so that a lost lease is told from a cancel.
func stopped(ctx context.Context) error { return wrap("running agent", context.Cause(ctx)) }

func wrap(doing string, err error) error { return fmt.Errorf("%s: %w", doing, err) }
