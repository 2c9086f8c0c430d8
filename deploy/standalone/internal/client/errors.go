package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrAway is matched by the error of a request that no service answered.
var ErrAway = errors.New("service unreachable")

// AwayError says that nothing came from an address, and why.
type AwayError struct {
	URL string
	Err error
}

// Error names the address without a user's name and password.
func (e *AwayError) Error() string { return fmt.Sprintf("%v at %s: %v", ErrAway, e.URL, e.Err) }

// Is matches ErrAway.
func (e *AwayError) Is(target error) bool { return target == ErrAway }

// Unwrap gives the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// TextError says that a text is none that can be sent.
type TextError struct{ Field string }

// Error names the field, and what helps.
func (e *TextError) Error() string {
	return fmt.Sprintf("%q is not UTF-8 text: convert it first, for example with iconv -f ISO-8859-1 -t UTF-8", e.Field)
}

// Field is one thing wrong with one field of a request.
type Field struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ProblemError is an answer that says no.
type ProblemError struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	RequestID  string        `json:"requestId"`
	Retryable  bool          `json:"retryable"`
	Fields     []Field       `json:"errors"`
	RetryAfter time.Duration `json:"-"`
}

// Error gives status, code, what is wrong with which field, and the request's id, which finds it in the service's log.
func (p *ProblemError) Error() string {
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

// Refused reports whether the request was at fault, and not the service.
func (p *ProblemError) Refused() bool {
	return p.Status >= http.StatusBadRequest && p.Status < http.StatusInternalServerError
}
