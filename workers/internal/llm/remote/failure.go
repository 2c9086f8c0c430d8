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

// maxRetryAfter keeps an absurd Retry-After from overflowing; callers have shorter limits of their own.
const maxRetryAfter = 24 * time.Hour

// maxErrorBody bounds, in bytes, what is read of an error answer; providers' own are below 1 KiB.
const maxErrorBody = 64 << 10

// statusOverloaded is what some providers answer instead of 503.
const statusOverloaded = 529

// Ended is a stream that ended without an answer.
type Ended struct {
	Err      error          // the stream's own, may be nil
	Response *http.Response // nil if there was none
	Unsent   bool           // it is known that no part of the request was sent
	// Status classifies an error answer by its status and body.
	Status func(status int, body []byte) *llm.Error
	// Event classifies an error that came inside the stream; nil when Err is none such.
	Event func(err error) *llm.Error
}

// Failure says why: the caller's context, the call's own with its limits, the response and the stream's error are
// asked in turn.
func Failure(ctx, callCtx context.Context, ended Ended) error {
	if ctx.Err() != nil {
		return fmt.Errorf("streaming from model: %w", ctx.Err())
	}
	e := failure(callCtx, ended)
	e.Unused = e.Unused || ended.Unsent
	return e
}

func failure(callCtx context.Context, ended Ended) *llm.Error {
	if limit := limitFor(callCtx); limit != nil {
		e := llm.NewError(llm.KindTimeout, limit)
		e.Answering = errors.Is(limit, errLong)
		return e
	}
	res, err := ended.Response, ended.Err
	if res != nil && res.StatusCode >= http.StatusBadRequest {
		e := ended.Status(res.StatusCode, readError(res.Body))
		e.RetryAfter, e.Unused = retryAfter(res.Header, time.Now()), refused(res.StatusCode) && e.Kind != llm.KindFiltered
		return e
	}
	if e := ended.Event(err); e != nil {
		return e
	}
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
	default: // the stream ended, cleanly or not, before the answer did
		return llm.NewError(llm.KindTruncated, err)
	}
}

// refused reports whether a status says that the provider did not take a request on. Behind others a model may have
// worked, and so it may before a filter refuses what it reads.
func refused(status int) bool {
	switch status {
	case http.StatusServiceUnavailable, statusOverloaded:
		return true
	case http.StatusRequestTimeout:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// readError reads an error answer's body. The SDKs have read it and put it back; their own errors would bring request
// and key along.
func readError(body io.Reader) []byte {
	b, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil {
		return nil // the status alone says enough
	}
	return b
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
