package realtime

import (
	"strings"

	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
)

// Codes of error events.
const (
	codeJSON        = "invalid_json"
	codeEmpty       = "input_audio_buffer_commit_empty"
	codeFull        = "input_audio_buffer_full"
	codeUncommitted = "input_audio_buffer_uncommitted"
	codeNoItem      = "item_not_found"
	codeInSession   = "item_in_session"
	codeActive      = "conversation_already_has_active_response"
	codeNotActive   = "response_cancel_not_active"
	codeNothing     = "nothing_to_answer"
	codeUnavailable = "unavailable"
)

const tooManyWait = "too much audio waits for its transcript: wait for some of it"

const uncommitted = "the buffer has more than 2 seconds of audio that is not committed: " +
	"send input_audio_buffer.commit or input_audio_buffer.clear before an item with audio"

// errorShown is an error as clients are told of it.
type errorShown struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param,omitempty"`
	EventID *string `json:"event_id,omitempty"` // of the event of the client's that it is about
}

type errorEvent struct {
	Error errorShown `json:"error"`
}

// request is an event of the client's that is being answered.
type request struct {
	id     *string // that the client gave it
	kind   string
	object object
	found  faults
}

// refuse tells what is wrong with a client's event.
func (t teller) refuse(e *effects, eventID *string, code, param, message string) {
	said := errorShown{Type: openaiapi.TypeInvalid, Code: code, Message: message, EventID: eventID}
	if param != "" {
		said.Param = &param
	}
	t.tell(e, "error", errorEvent{said})
}

// faulty tells what is wrong with fields of a client's event; false when nothing is.
func (t teller) faulty(e *effects, r *request) bool {
	if len(r.found) == 0 {
		return false
	}
	all := make([]string, len(r.found))
	for i, f := range r.found {
		all[i] = f.Field + ": " + f.Message
	}
	t.refuse(e, r.id, r.found[0].Code, r.found[0].Field, strings.Join(all, "; "))
	return true
}

// Error makes an error event that no event of the client's caused: of the connection, or of a worker.
func (t teller) Error(code, message string) Event {
	return Event{Body: t.event("error", errorEvent{errorShown{Type: openaiapi.TypeServer, Code: code, Message: message}})}
}

// statusFor gives the status that a refusal has in HTTP: it says of what type an error is.
func statusFor(code apierr.Code) int {
	switch code {
	case apierr.RateLimited, apierr.BudgetExceeded:
		return 429
	case apierr.Internal, apierr.Overloaded, apierr.Unavailable:
		return 503
	case apierr.Unauthenticated:
		return 401
	case apierr.PermissionDenied, apierr.CallerNotAllowed, apierr.DemoRestricted, apierr.OrganizationMismatch:
		return 403
	default:
		return 400
	}
}
