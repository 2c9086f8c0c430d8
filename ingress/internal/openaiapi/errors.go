package openaiapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// These constants are the types of errors in OpenAI's API.
const (
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeInvalid        = "invalid_request_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota" // TypeQuota is the type for an exhausted budget. A retry succeeds in the next period.
	TypeServer         = "server_error"
	TypeRun            = "run_error" // TypeRun is the type for a run that was started but has no answer.
)

// These error codes exist only in OpenAI's API.
const (
	CodeInvalidKey      = "invalid_api_key"
	CodeModelNotFound   = "model_not_found"
	CodeNoPrevious      = "previous_response_not_found"
	CodeNoItem          = "item_not_found"
	CodeStreamRestarted = "stream_restarted"
	CodeVoiceNotEnabled = "voice_not_enabled"
)

// Error is an error in the form of OpenAI's API. Param is the path of the parameter to which the
// error belongs; nil: none.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// Body returns the response body of an error. The result is a JSON object with the member error.
func (e Error) Body() []byte {
	body, err := json.Marshal(struct {
		Error Error `json:"error"`
	}{e})
	if err != nil {
		return []byte(`{"error":{"message":"","type":"server_error","param":null,"code":"internal"}}`) // unreachable
	}
	return body
}

// Refused converts an error of the service and its HTTP status to the form of OpenAI's API. The
// message is safe to show, because it comes from e.Detail and the field errors.
func Refused(status int, e *apierr.Error) Error {
	out := Error{Message: e.Detail, Type: typeName(status), Code: string(e.Code)}
	if e.Code == apierr.Unauthenticated {
		out.Code = CodeInvalidKey
	}
	// Clients retry after a rate limit error, but not after an exhausted quota.
	if e.Code == apierr.BudgetExceeded {
		out.Type = TypeQuota
	}
	if len(e.Fields) == 0 {
		return out
	}

	// An error can name only one parameter. The error names the first invalid field, and its
	// message lists all invalid fields.
	first := e.Fields[0]
	out.Param = &first.Field
	switch first.Code {
	case CodeModelNotFound, CodeUnsupported, CodeNoPrevious, CodeNoItem, CodeVoiceNotEnabled:
		out.Code = first.Code
	}
	if e.Code != apierr.InvalidRequest {
		return out
	}
	all := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		all[i] = f.Field + ": " + f.Message
	}
	out.Message = strings.Join(all, "; ")
	return out
}

// typeName returns the error type for an HTTP status. It returns TypeInvalid for any status below
// 500 that has no type of its own.
func typeName(status int) string {
	switch {
	case status == 401:
		return TypeAuthentication
	case status == 403:
		return TypePermission
	case status == 429:
		return TypeRateLimit
	case status >= 500:
		return TypeServer
	default:
		return TypeInvalid
	}
}

// Unanswered returns the error that explains why a run has no answer: it failed, was cancelled,
// timed out, or waits for a person. It must not be called for a completed run. Param is nil.
func Unanswered(run *domain.Run) Error {
	switch {
	case run.Status == domain.RunRequiresAction && run.RequiredAction != nil:
		return requiresActionError(run.ID, run.RequiredAction)
	case run.Error != nil:
		return Error{Type: TypeRun, Code: run.Error.Code, Message: run.Error.Message}
	default:
		return Error{Type: TypeRun, Code: string(run.Status), Message: "the run " + run.ID + " has no answer: " + string(run.Status)}
	}
}

// requiresActionError returns the error for a run that waits for a person.
func requiresActionError(runID string, action *domain.RequiredAction) Error {
	return Error{
		Type: TypeRun, Code: string(domain.RunRequiresAction),
		Message: fmt.Sprintf("the run %[1]s waits for a person to decide about a call of the tool %[2]s; "+
			"decide at /dashboard/runs/%[1]s or with POST /api/runs?id=%[1]s, and read the answer with GET /api/runs?id=%[1]s",
			runID, action.Name),
	}
}

// restartedError returns the error for a stream whose run was restarted and now produces a
// different text.
func restartedError(runID string) Error {
	return Error{
		Type: TypeServer, Code: CodeStreamRestarted,
		Message: fmt.Sprintf("the run %[1]s was restarted and continues, but its new answer differs from this stream; "+
			"read the answer with the same request and Idempotency-Key, or with GET /api/runs?id=%[1]s", runID),
	}
}

// interruptedError returns the error for a stream that ends although its run continues.
func interruptedError(runID string) Error {
	return Error{
		Type: TypeServer, Code: string(apierr.Unavailable),
		Message: fmt.Sprintf("the stream was interrupted, but the run %[1]s continues; "+
			"read its answer with the same request and Idempotency-Key, or with GET /api/runs?id=%[1]s", runID),
	}
}

// index returns the path of an entry of a list, such as "tools[2]".
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
