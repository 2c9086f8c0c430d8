package realtime

import (
	"strings"

	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
)

// These constants are the codes of error events.
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

// tooManyWait is the error message for audio that would have to wait too long for its
// transcription.
const tooManyWait = "too much audio is waiting for transcription: wait until some of it is transcribed"

// uncommitted is the beginning of the error message for events that would require too much
// uncommitted audio to be sent to the worker again.
const uncommitted = "the buffer has more than 2 seconds of uncommitted audio: " +
	"send input_audio_buffer.commit or input_audio_buffer.clear before an item with audio"

// errorShown is an error in the form that the protocol defines. Param is the path of the invalid
// field, and nil if the error belongs to no field.
type errorShown struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param,omitempty"`
	EventID *string `json:"event_id,omitempty"` // id of the client's event that caused the error; nil: none
}

// errorEvent is the content of an error event.
type errorEvent struct {
	Error errorShown `json:"error"`
}

// request is an event from the client that is being handled. The function read creates the request,
// and the handler adds the faults.
type request struct {
	id *string // id that the client gave the event; nil: none
	// Type of the event.
	kind string
	// Members of the event.
	object object
	// Errors in the members.
	found faults
}

// refuse sends an error about an event from the client. param is the path of the field; empty:
// none. The type is always invalid_request_error.
func (t eventMaker) refuse(e *effects, eventID *string, code, param, message string) {
	said := errorShown{Type: openaiapi.TypeInvalid, Code: code, Message: message, EventID: eventID}
	if param != "" {
		said.Param = &param
	}
	t.emit(e, "error", errorEvent{said})
}

// faulty sends the errors that were found in the fields of an event. It returns false if there are
// none. The code and the parameter are those of the first fault.
func (t eventMaker) faulty(e *effects, r *request) bool {
	if len(r.found) == 0 {
		return false
	}
	// The error event has one message, so all faults are joined.
	all := make([]string, len(r.found))
	for i, f := range r.found {
		all[i] = f.Field + ": " + f.Message
	}
	t.refuse(e, r.id, r.found[0].Code, r.found[0].Field, strings.Join(all, "; "))
	return true
}

// Error returns an error event for an error that was not caused by an event from the client, such
// as a failure of the worker. The caller must send the event, because the event is not part of any
// Effects.
func (t eventMaker) Error(code, message string) Event {
	return Event{Body: t.event("error", errorEvent{errorShown{Type: openaiapi.TypeServer, Code: code, Message: message}})}
}

// statusFor returns the HTTP status that corresponds to a rejection. The status determines the type
// of the error event. Unknown codes are errors of the client.
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
