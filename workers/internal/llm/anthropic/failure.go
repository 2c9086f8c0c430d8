package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
)

// statusOverloaded is the HTTP status that Anthropic sends when it is overloaded.
const statusOverloaded = 529

// fromStatus classifies an HTTP error response by its status and its body. The provider's own text
// becomes the detail of the error, which is for operators and not for callers.
func fromStatus(status int, body []byte) *llm.Error {
	kind, message := readDetail(body)
	e := llm.NewError(kindFor(status, kind, strings.ToLower(message)), fmt.Errorf("the provider responded with status %d", status))
	e.Detail = message
	if e.Kind == llm.KindUnknownModel {
		e.Message = "The model provider does not know this model."
	}
	return e
}

// fromEvent classifies an error event in the stream. It returns nil if err is not an error event.
func fromEvent(err error) *llm.Error {
	var event *sdk.Error
	if !errors.As(err, &event) {
		return nil
	}
	kind, message := readDetail([]byte(event.RawJSON()))
	e := llm.NewError(kindFor(statusFor(kind), kind, strings.ToLower(message)), errors.New("the stream contains an error event"))
	e.Detail = message
	return e
}

// statusFor returns the HTTP status that corresponds to the type of an error event. An unknown type
// counts as a server error.
func statusFor(kind string) int {
	switch kind {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "timeout_error":
		return http.StatusRequestTimeout
	case "overloaded_error":
		return statusOverloaded
	default:
		return http.StatusInternalServerError
	}
}

// kindFor returns the kind of a failure. The argument kind is the provider's error type, and the
// argument message is the provider's error message in lower case.
func kindFor(status int, kind, message string) llm.Kind {
	// Anthropic uses the status 400 for several kinds of failures, which differ only in their
	// messages.
	switch {
	case status == http.StatusPaymentRequired, status == http.StatusBadRequest && isQuota(message):
		return llm.KindQuota
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest && isContextLength(message):
		return llm.KindContextLength
	case status == http.StatusTooManyRequests:
		return llm.KindRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.KindAuth
	case status == http.StatusNotFound:
		return llm.KindUnknownModel
	case status == http.StatusRequestTimeout, kind == "timeout_error":
		return llm.KindTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return llm.KindUnavailable
	case strings.Contains(message, "content filtering"):
		return llm.KindFiltered
	default:
		return llm.KindInvalid
	}
}

// isQuota reports whether the message of an invalid_request_error means that a quota is used up.
func isQuota(message string) bool {
	return strings.Contains(message, "credit balance") || strings.Contains(message, "usage limits")
}

// isContextLength reports whether an error message states that the prompt, or the prompt together
// with the answer, is too long.
func isContextLength(message string) bool {
	return strings.Contains(message, "prompt is too long") || strings.Contains(message, "exceed context limit") ||
		strings.Contains(message, "context window")
}

// detail contains the fields of an error body that describe the error.
type detail struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// readDetail returns the error type and the message of an error body, or empty texts if the body
// has another form.
func readDetail(body []byte) (kind, message string) {
	var d detail
	if json.Unmarshal(body, &d) != nil {
		return "", "" // the body is not an error object
	}
	return d.Error.Type, d.Error.Message
}
