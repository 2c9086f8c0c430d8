package openaiapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// Types of errors.
const (
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeInvalid        = "invalid_request_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota" // TypeQuota is of a budget that is used up: asking again helps once it begins anew.
	TypeServer         = "server_error"
	TypeRun            = "run_error" // TypeRun is of a run that was begun and gave no answer.
)

// Codes of errors that the rest of the service does not have.
const (
	CodeInvalidKey      = "invalid_api_key"
	CodeModelNotFound   = "model_not_found"
	CodeNoPrevious      = "previous_response_not_found"
	CodeStreamRestarted = "stream_restarted"
	CodeVoiceNotEnabled = "voice_not_enabled"
)

// Error is an error as this protocol shows it.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// Body is what an error's answer holds.
func (e Error) Body() []byte {
	body, err := json.Marshal(struct {
		Error Error `json:"error"`
	}{e})
	if err != nil {
		return []byte(`{"error":{"message":"","type":"server_error","param":null,"code":"internal"}}`) // not reached: texts have a JSON form
	}
	return body
}

// Refused shows an error of the service that is answered with a status.
func Refused(status int, e *apierr.Error) Error {
	out := Error{Message: e.Detail, Type: typeName(status), Code: string(e.Code)}
	if e.Code == apierr.Unauthenticated {
		out.Code = CodeInvalidKey
	}
	if e.Code == apierr.BudgetExceeded {
		out.Type = TypeQuota
	}
	if len(e.Fields) == 0 {
		return out
	}
	first := e.Fields[0]
	out.Param = &first.Field
	switch first.Code {
	case CodeModelNotFound, CodeUnsupported, CodeNoPrevious, CodeVoiceNotEnabled:
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

// Unanswered says why a run has no answer: it failed, was cancelled or took too long, or waits for a person.
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

func requiresActionError(runID string, action *domain.RequiredAction) Error {
	return Error{
		Type: TypeRun, Code: string(domain.RunRequiresAction),
		Message: "the run " + runID + " waits for a person to decide about its call of the tool " + action.Name +
			": at /dashboard/runs/" + runID + ", or by POST /api/runs?id=" + runID +
			"; it goes on then, and GET /api/runs?id=" + runID + " gives its answer",
	}
}

// restartedError is what a stream ends with that has told what a later attempt at its run does not say.
func restartedError(runID string) Error {
	return Error{
		Type: TypeServer, Code: CodeStreamRestarted,
		Message: "the run " + runID + " began anew and answers otherwise than this stream has told; the run goes on: the same request " +
			"with the same Idempotency-Key, or GET /api/runs?id=" + runID + ", gives its answer",
	}
}

// cutError is what a stream ends with that can tell no more of a run that goes on.
func cutError(runID string) Error {
	return Error{
		Type: TypeServer, Code: string(apierr.Unavailable),
		Message: "this stream can tell no more of the run " + runID + "; the run goes on: the same request with the same Idempotency-Key, " +
			"or GET /api/runs?id=" + runID + ", gives its answer",
	}
}

func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
