package parley

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrUnreachable matches the error of a request that got no response. Use it with errors.Is.
// Whether the service has executed the request is unknown.
var ErrUnreachable = errors.New("service unreachable")

// ConnectionError reports that the service at a URL is unreachable. It contains the cause. It
// matches ErrUnreachable.
type ConnectionError struct {
	// URL is the service's URL, without a user name and password.
	URL string
	// Err is the cause, for example a *net.OpError.
	Err error
}

// Error returns a message that contains the URL without its user name and password.
func (e *ConnectionError) Error() string {
	return fmt.Sprintf("%v at %s: %v", ErrUnreachable, e.URL, e.Err)
}

// Is matches ErrUnreachable.
func (e *ConnectionError) Is(target error) bool { return target == ErrUnreachable }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// TextError reports a field whose value is not valid UTF-8. The request was not sent.
type TextError struct{ Field string }

// Error returns a message with the field and a remedy.
func (e *TextError) Error() string {
	return fmt.Sprintf("%q is not UTF-8 text: convert it first, for example with iconv -f ISO-8859-1 -t UTF-8", e.Field)
}

// Field describes an invalid field of a request. A response lists all invalid fields of a request.
type Field struct {
	// Path of the field, such as tools[2].name.
	Field string `json:"field"`
	// Predicate of a sentence whose subject is the field.
	Message string `json:"message"`
}

// APIError is an error response (problem document). Use it with errors.As. The codes are listed at
// /docs/errors of the service.
type APIError struct {
	// HTTP status.
	Status int `json:"status"`
	// Code of the error, such as not_found; it never changes for the same error.
	Code string `json:"code"`
	// Sentence for people.
	Detail string `json:"detail"`
	// Id of the request, which the service's log contains.
	RequestID string `json:"requestId"`
	// Whether the same request may succeed later.
	Retryable bool `json:"retryable"`
	// Invalid fields, if the request is invalid.
	Fields []Field `json:"errors"`
	// Time after which a retry makes sense; 0: the service gave no time.
	RetryAfter time.Duration `json:"-"`
}

// Error returns a message with the status, the code, the invalid fields, and the request ID. The
// service's log contains the request ID, too.
func (p *APIError) Error() string {
	says := p.Detail
	if len(p.Fields) > 1 {
		list := make([]string, len(p.Fields))
		for i, f := range p.Fields {
			list[i] = f.Field + ": " + f.Message
		}
		says = strings.Join(list, "; ")
	}
	if says == "" {
		says = http.StatusText(p.Status)
	}

	out := fmt.Sprintf("%d %s: %s", p.Status, p.Code, says)
	if p.RequestID != "" {
		out += " (request " + p.RequestID + ")"
	}
	return out
}

// Refused reports whether the status is 4xx, with which the service rejects a request. Repeating
// such a request rarely helps, except after a 429.
func (p *APIError) Refused() bool {
	return p.Status >= http.StatusBadRequest && p.Status < http.StatusInternalServerError
}
