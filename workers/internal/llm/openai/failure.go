package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"parley/workers/internal/llm"
)

// maxRetryAfter keeps an absurd Retry-After from overflowing; callers have shorter limits of their own.
const maxRetryAfter = 24 * time.Hour

// maxErrorBody bounds, in bytes, what is read of an error answer; OpenAI's are below 1 KiB.
const maxErrorBody = 64 << 10

// failure says why a stream ended without an answer: the caller's context, the call's own with
// its limits, the response (nil if there was none) and the stream's error are asked in turn.
func failure(ctx, callCtx context.Context, err error, res *http.Response) error {
	if ctx.Err() != nil {
		return fmt.Errorf("streaming from model: %w", ctx.Err())
	}
	if limit := limitOf(callCtx); limit != nil {
		return llm.NewError(llm.KindTimeout, limit)
	}
	var tooLarge *http.MaxBytesError
	var inStream *ssestream.StreamError
	var syntax *json.SyntaxError
	var netErr net.Error
	switch {
	case res != nil && res.StatusCode >= http.StatusBadRequest:
		return fromStatus(res)
	case errors.As(err, &inStream):
		return fromEvent(inStream)
	case errors.As(err, &tooLarge):
		return llm.NewError(llm.KindTooLarge, err)
	case errors.As(err, &syntax):
		return llm.NewError(llm.KindBadResponse, err)
	case res == nil && errors.As(err, &netErr) && netErr.Timeout():
		return llm.NewError(llm.KindTimeout, err)
	case res == nil:
		return llm.NewError(llm.KindUnavailable, err)
	default: // the stream ended, cleanly or not, before the answer did
		return llm.NewError(llm.KindTruncated, err)
	}
}

// fromStatus classifies an HTTP error answer by its status and what its body says.
func fromStatus(res *http.Response) error {
	// openai-go has read the body and put it back; its own error does not know flat error objects
	// and numeric codes, and would bring request and key along.
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		body = nil // the status alone says enough
	}
	d := readDetail(body)
	e := llm.NewError(kindOf(res.StatusCode, d.code(), d.Message), fmt.Errorf("status %d from provider", res.StatusCode))
	if res.StatusCode == http.StatusNotFound {
		e.Message = "The model provider does not know this model."
	}
	e.RetryAfter = retryAfter(res.Header, time.Now())
	return e
}

// fromEvent classifies an error that came as an event inside the stream.
func fromEvent(event *ssestream.StreamError) error {
	d := readDetail(event.Event.Data)
	status, err := strconv.Atoi(d.word())
	if err != nil {
		status = http.StatusInternalServerError
		if strings.Contains(d.Type, "invalid_request") {
			status = http.StatusBadRequest
		}
	}
	return llm.NewError(kindOf(status, d.code(), d.Message), errors.New("error event in stream"))
}

// detail is a provider's description of an error.
type detail struct {
	Code    json.RawMessage `json:"code"` // a word, or with some servers the status
	Type    string          `json:"type"`
	Message string          `json:"message"`
}

// readDetail reads OpenAI's {"error":{…}} or a flat error object; of what is neither nothing is known.
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

func (d detail) word() string { return strings.Trim(string(d.Code), `"`) }

// code gives code and type as one text to look for known words in.
func (d detail) code() string { return d.word() + " " + d.Type }

func kindOf(status int, code, message string) llm.Kind {
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

// isContextLength knows OpenAI's code and the words of servers that have none (vLLM, llama.cpp).
func isContextLength(code, message string) bool {
	if strings.Contains(code, "context_length") || strings.Contains(code, "exceed_context_size") {
		return true
	}
	message = strings.ToLower(message)
	return strings.Contains(message, "maximum context length") || strings.Contains(message, "context size") ||
		strings.Contains(message, "context window")
}

// retryAfter reads Retry-After-Ms and Retry-After (seconds or a date); 0 when absent, past or unreadable.
func retryAfter(h http.Header, now time.Time) time.Duration {
	d := time.Duration(0)
	value := h.Get("Retry-After")
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return clampRetry(ms / 1000)
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return clampRetry(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

func clampRetry(seconds float64) time.Duration {
	if !(seconds > 0) { // NaN included
		return 0
	}
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
