package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"parley/workers/internal/llm"
)

// maxRetryAfter is the maximum delay that is read from Retry-After. This limit only prevents
// overflows in conversions; callers limit the delay further.
const maxRetryAfter = 24 * time.Hour

// maxErrorBody is the maximum number of bytes that are read from an error response. Providers send
// less than 1 KiB.
const maxErrorBody = 64 << 10

// statusOverloaded is the status 529, which some providers send instead of 503.
const statusOverloaded = 529

// FailedStream describes a call whose stream ended without an answer.
type FailedStream struct {
	Err      error          // the stream's error; nil if there was none
	Response *http.Response // nil if there was no response
	Unsent   bool           // no part of the request was sent to the provider
	Key      string         // the API key of the request, which the provider's message may repeat
	// Status classifies an error response by its status and its body.
	Status func(status int, body []byte) *llm.Error
	// Event classifies an error event in the stream. It returns nil if err is not an error event.
	Event func(err error) *llm.Error
}

// Failure returns the error of a call whose stream ended without an answer. It checks the following
// in this order, and the first failure determines the error: the caller's context, the time limits
// of callCtx, the response, and the stream.
func Failure(ctx, callCtx context.Context, ended FailedStream) error {
	if ctx.Err() != nil {
		return fmt.Errorf("streaming from model: %w", ctx.Err())
	}
	e := failure(callCtx, ended)
	e.Unused = e.Unused || ended.Unsent
	return e
}

// failure returns the error of a call whose stream ended although the caller's context had not
// ended.
func failure(callCtx context.Context, ended FailedStream) *llm.Error {
	if limit := limitFor(callCtx); limit != nil {
		e := llm.NewError(llm.KindTimeout, limit)
		e.MidAnswer = errors.Is(limit, errLong)
		return e
	}

	// If there is an error response, classify the response first, because it has caused the
	// stream's error.
	res, err := ended.Response, ended.Err
	if res != nil && res.StatusCode >= http.StatusBadRequest {
		body := readError(res.Body)
		e := ended.Status(res.StatusCode, body)
		describe(e, res, body, ended.Key)
		e.RetryAfter, e.Unused = retryAfter(res.Header, time.Now()), notProcessed(res.StatusCode) && e.Kind != llm.KindFiltered
		return e
	}

	e := ended.Event(err)
	if e == nil {
		e = brokenStream(res, err)
	}
	describe(e, res, nil, ended.Key)
	return e
}

// brokenStream classifies the end of a stream that contained neither a complete answer nor an error
// event. res is nil if there was no response.
func brokenStream(res *http.Response, err error) *llm.Error {
	var tooLarge *http.MaxBytesError
	var syntax *json.SyntaxError
	var netErr net.Error
	switch {
	case errors.As(err, &tooLarge):
		return llm.NewError(llm.KindTooLarge, err)
	case errors.As(err, &syntax):
		return llm.NewError(llm.KindBadResponse, err)
	case res == nil && errors.As(err, &netErr) && netErr.Timeout():
		return llm.NewError(llm.KindTimeout, err)
	case res == nil:
		return llm.NewError(llm.KindUnavailable, err)
	default: // the stream ended before the answer was complete
		return llm.NewError(llm.KindTruncated, err)
	}
}

// notProcessed reports whether a status shows that the provider has not processed the request.
// After any other status, a model may have processed the request, for example until a filter
// rejected its output.
func notProcessed(status int) bool {
	switch status {
	case http.StatusServiceUnavailable, statusOverloaded:
		return true
	case http.StatusRequestTimeout:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// readError returns the body of an error response. The SDK has replaced the body with a copy that
// can be read again. readError does not use the SDK's own error, because that contains the request
// and the key.
func readError(body io.Reader) []byte {
	b, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil {
		return nil // the status is enough without a body
	}
	return b
}

// retryAfter returns the delay in the header Retry-After-Ms, which contains milliseconds, or in
// Retry-After, which contains seconds or a date. It returns 0 if the headers are missing or
// invalid, or if the date has passed.
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

// clampRetry converts a number of seconds to a duration between 0 and maxRetryAfter.
func clampRetry(seconds float64) time.Duration {
	if !(seconds > 0) { // also true for NaN
		return 0
	}
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
