// Package api sends requests to a running Parley and checks the responses, for tests. It is
// independent of the SDKs, so that tests see the API as any client does.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Timeout is the timeout of a request. It exceeds the service's maximum wait by the delay of a slow
// machine.
const Timeout = 80 * time.Second

// Fresh opens a new connection for each request, as callers in separate processes do.
var Fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Timeout}

// Answer is the response to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // set if there is no response or its body is incomplete
}

// Send sends a request on a new connection and returns the response. It does not fail the test, so
// any goroutine can call it.
func Send(ctx context.Context, method, url string, header map[string]string, body any) Answer {
	return SendBy(ctx, Fresh, method, url, header, body)
}

// SendBy is like Send, but uses the given HTTP client.
func SendBy(ctx context.Context, by *http.Client, method, url string, header map[string]string, body any) Answer {
	req, err := NewRequest(ctx, method, url, header, body)
	if err != nil {
		return Answer{Err: err}
	}
	res, err := by.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: raw, Err: err}
}

// NewRequest creates a request. It encodes the body as JSON unless the body is nil, bytes or a
// reader. If a reader has a method Size, its result is the Content-Length; -1 means that the length
// is unknown.
func NewRequest(ctx context.Context, method, url string, header map[string]string, body any) (*http.Request, error) {
	var payload io.Reader
	switch body := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(body)
	case io.Reader:
		payload = body
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sized, ok := body.(interface{ Size() int64 }); ok {
		req.ContentLength = sized.Size()
	}

	for name, value := range header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// Form returns the body and the Content-Type of a form with a file and further fields.
func Form(name string, content []byte, fields map[string]string) (body []byte, contentType string) {
	var buffer bytes.Buffer
	form := multipart.NewWriter(&buffer) // a write to a buffer never fails
	for field, value := range fields {
		_ = form.WriteField(field, value)
	}
	part, _ := form.CreateFormFile("file", name)
	_, _ = part.Write(content)
	_ = form.Close()
	return buffer.Bytes(), form.FormDataContentType()
}

// Check returns nil if the response has one of the given statuses.
func (a Answer) Check(statuses ...int) error {
	if a.Err != nil {
		return fmt.Errorf("no response: %w", a.Err)
	}
	if !slices.Contains(statuses, a.Status) {
		return fmt.Errorf("status = %d, want %d: %.2000s", a.Status, statuses, a.Body)
	}
	return nil
}

// Want fails the test unless the response has one of the given statuses. It returns the response.
func (a Answer) Want(tb testing.TB, statuses ...int) Answer {
	tb.Helper()
	if err := a.Check(statuses...); err != nil {
		tb.Fatal(err)
	}
	return a
}

// Into decodes the response.
func (a Answer) Into(tb testing.TB, value any) {
	tb.Helper()
	if err := json.Unmarshal(a.Body, value); err != nil {
		tb.Fatalf("response %d is not JSON: %v: %.2000s", a.Status, err, a.Body)
	}
}

// Refused fails the test unless the response is an error with the given status and code. The
// response must have a Retry-After header if the status requires one.
func (a Answer) Refused(tb testing.TB, status int, code string) {
	tb.Helper()
	var problem struct{ Code string }
	a.Want(tb, status).Into(tb, &problem)
	if problem.Code != code {
		tb.Fatalf("code = %q, want %q: %s", problem.Code, code, a.Body)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		a.WantRetryAfter(tb)
	}
}

// WantRetryAfter fails the test unless the response has a valid Retry-After header.
func (a Answer) WantRetryAfter(tb testing.TB) {
	tb.Helper()
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 {
		tb.Fatalf("response %d: Retry-After = %q, want a positive number of seconds", a.Status, a.Header.Get("Retry-After"))
	}
}

// IsReplay reports whether the response is marked as a replay of a stored response.
func (a Answer) IsReplay() bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// Replayed fails the test unless the response is a replay of a finished run's stored response.
func (a Answer) Replayed(tb testing.TB) Answer {
	tb.Helper()
	a.Want(tb, http.StatusOK)
	if !a.IsReplay() {
		tb.Fatalf("the response is not a replay: %v", a.Header)
	}
	return a
}
