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

// maxRetryAfter bounds the delay in Retry-After, so that conversions do not overflow. Callers have
// shorter limits.
const maxRetryAfter = 24 * time.Hour

// maxErrorBody is the number of bytes of an error response that are read. Providers send less than
// 1 KiB.
const maxErrorBody = 64 << 10

// statusOverloaded is a status that some providers send instead of 503.
const statusOverloaded = 529

// FailedStream describes a stream that ended without an answer.
type FailedStream struct {
	Err      error          // the stream's error; may be nil
	Response *http.Response // nil if there was no response
	Unsent   bool           // no part of the request was sent
	Key      string         // the key of the request, which a provider's message may repeat
	// Status classifies an error response by its status and body.
	Status func(status int, body []byte) *llm.Error
	// Event classifies an error inside the stream. It returns nil for any other error.
	Event func(err error) *llm.Error
}

// Failure returns the error for a stream that ended without an answer. The first of these that
// failed determines the error: the caller's context, the time limits of callCtx, the response, the
// stream.
func Failure(ctx, callCtx context.Context, ended FailedStream) error {
	if ctx.Err() != nil {
		return fmt.Errorf("streaming from model: %w", ctx.Err())
	}
	e := failure(callCtx, ended)
	e.Unused = e.Unused || ended.Unsent
	return e
}

// failure classifies a failure that the caller's context did not cause.
func failure(callCtx context.Context, ended FailedStream) *llm.Error {
	if limit := limitFor(callCtx); limit != nil {
		e := llm.NewError(llm.KindTimeout, limit)
		e.MidAnswer = errors.Is(limit, errLong)
		return e
	}

	// An error response explains more than the stream's error, which is only a consequence of it.
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

// brokenStream classifies a stream that ended without an answer and without an error event. res is
// nil if there was no response.
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

// notProcessed reports whether a status means that the provider did not process the request. With
// any other status, a model may have worked before the failure, for example until a filter rejected
// its output.
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

// readError returns the body of an error response. The SDK has read the body and put it back. The
// SDK's own error is not used, because it contains the request and the key.
func readError(body io.Reader) []byte {
	b, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil {
		return nil // the status alone is enough
	}
	return b
}

// retryAfter returns the delay in the headers Retry-After-Ms and Retry-After (seconds or a date).
// It returns 0 if they are missing, invalid or in the past.
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

// clampRetry converts seconds to a duration between 0 and maxRetryAfter.
func clampRetry(seconds float64) time.Duration {
	if !(seconds > 0) { // also true for NaN
		return 0
	}
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
