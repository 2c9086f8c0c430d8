package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"parley/workers/internal/llm"
)

// StatusError classifies an error response by its HTTP status and its body. Packages for other
// services with OpenAI's protocol use it, too.
func StatusError(status int, body []byte) *llm.Error { return fromStatus(status, body) }

// fromStatus classifies an HTTP error response by its status and its body. The provider's own text
// becomes the detail of the error, which is for operators and not for callers.
func fromStatus(status int, body []byte) *llm.Error {
	d := readDetail(body)
	e := llm.NewError(kind(status, d.code(), d.Message), fmt.Errorf("the provider responded with status %d", status))
	e.Detail = d.Message
	if status == http.StatusNotFound {
		e.Message = "The model provider does not know this model."
	}
	return e
}

// fromEvent classifies an error event in the stream. It returns nil if err is not an error event.
func fromEvent(err error) *llm.Error {
	var event *eventError
	if !errors.As(err, &event) {
		return nil
	}

	d := readDetail(event.data)

	// Some servers send the HTTP status as the code. If the code is not a number, use the type of
	// the error.
	status, err := strconv.Atoi(d.word())
	if err != nil {
		status = http.StatusInternalServerError
		if strings.Contains(d.Type, "invalid_request") {
			status = http.StatusBadRequest
		}
	}
	e := llm.NewError(kind(status, d.code(), d.Message), event)
	e.Detail = d.Message
	return e
}

// detail is the part of an error response that describes the error. Its fields are untrusted.
type detail struct {
	Code    json.RawMessage `json:"code"` // usually a word; on some servers, the HTTP status
	Type    string          `json:"type"`
	Message string          `json:"message"`
}

// readDetail parses OpenAI's {"error":{…}} or an error object without that wrapper. It returns an
// empty detail for any other body.
func readDetail(body []byte) detail {
	var nested struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &nested) == nil && len(nested.Error) > 0 {
		body = nested.Error
	}
	var d detail
	if json.Unmarshal(body, &d) != nil {
		return detail{}
	}
	return d
}

// word returns the code as text. The code may be a JSON string or a number.
func (d detail) word() string { return strings.Trim(string(d.Code), `"`) }

// code returns the code and the type of an error as one text, in which the function kind searches
// for known words.
func (d detail) code() string { return d.word() + " " + d.Type }

// kind returns the kind of a failure. It uses the HTTP status, the error code and the error
// message.
func kind(status int, code, message string) llm.Kind {
	// Check the code first, because some servers use the same status for several kinds of failures.
	switch {
	case strings.Contains(code, "insufficient_quota"):
		return llm.KindQuota
	case status == http.StatusTooManyRequests, strings.Contains(code, "rate_limit"):
		return llm.KindRateLimited
	case isContextLength(code, message):
		return llm.KindContextLength
	case strings.Contains(code, "content_filter"), strings.Contains(code, "content_policy"):
		return llm.KindFiltered
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.KindAuth
	case status == http.StatusNotFound:
		return llm.KindUnknownModel
	case status == http.StatusRequestTimeout:
		return llm.KindTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return llm.KindUnavailable
	default:
		return llm.KindInvalid
	}
}

// isContextLength reports whether an error means that the prompt is too long. The argument code
// contains the code and the type of the error. isContextLength also searches the message, because
// some servers send neither.
func isContextLength(code, message string) bool {
	if strings.Contains(code, "context_length") || strings.Contains(code, "exceed_context_size") {
		return true
	}
	message = strings.ToLower(message)
	return strings.Contains(message, "maximum context length") || strings.Contains(message, "context size") ||
		strings.Contains(message, "context window")
}
