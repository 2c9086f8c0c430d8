package parley

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrUnreachable matches the error of a request that got no response.
var ErrUnreachable = errors.New("service unreachable")

// ConnectionError reports that the service at a URL is unreachable, and the cause.
type ConnectionError struct {
	URL string
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

// TextError reports a field whose value is not valid UTF-8.
type TextError struct{ Field string }

// Error names the field and a remedy.
func (e *TextError) Error() string {
	return fmt.Sprintf("%q is not UTF-8 text: convert it first, for example with iconv -f ISO-8859-1 -t UTF-8", e.Field)
}

// Field describes an invalid field of a request.
type Field struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// APIError is an error response (problem document).
type APIError struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	RequestID  string        `json:"requestId"`
	Retryable  bool          `json:"retryable"`
	Fields     []Field       `json:"errors"`
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

// Refused reports whether the service rejected the request because the request itself is wrong.
func (p *APIError) Refused() bool {
	return p.Status >= http.StatusBadRequest && p.Status < http.StatusInternalServerError
}
