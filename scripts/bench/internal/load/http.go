package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Request is a request from a client. Path includes the query, and Body is JSON or nil.
type Request struct {
	Method, Path string
	Headers      map[string]string
	Body         []byte
}

// waiting has no connection limit, because each of thousands of clients needs its own.
var waiting = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Send sends a request to a base URL and returns its response. A status other than 2xx is an error.
func (r Request) Send(ctx context.Context, base string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("making request %s: %w", r.Path, err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json") // unless the request has another
	}

	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}

	res, err := waiting.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", r.Path, err)
	}
	if res.StatusCode/100 != 2 {
		raw, err := io.ReadAll(res.Body)
		return nil, errors.Join(fmt.Errorf("requesting %s: %s: %s", r.Path, res.Status, bytes.TrimSpace(raw)), err, res.Body.Close())
	}
	return res, nil
}

// Read sends a request and returns the body of its response.
func (r Request) Read(ctx context.Context, base string) ([]byte, error) {
	res, err := r.Send(ctx, base)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading answer of %s: %w", r.Path, err)
	}
	return raw, nil
}

// Ask sends a request and decodes its response.
func (r Request) Ask(ctx context.Context, base string, into any) error {
	raw, err := r.Read(ctx, base)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading answer of %s: %w", r.Path, err)
	}
	return nil
}

// Run is the run object, as far as clients check it.
type Run struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
}

// Check returns an error unless the run has completed at the first attempt with the answer to that message.
func (r Run) Check(message string) error {
	if r.Status != "completed" || r.Message != "echo: "+message || r.Attempts != 1 {
		return fmt.Errorf("the run of %q is %s with %q at attempt %d", message, r.Status, r.Message, r.Attempts)
	}
	return nil
}

// Listen sends a request whose response is an event stream of a run, and reads the events into a
// transcript until the stream ends.
func (r Request) Listen(ctx context.Context, base string, t *Transcript) error {
	res, err := r.Send(ctx, base)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		return fmt.Errorf("expected an event stream, got content type %q", kind)
	}
	return t.read(res.Body)
}
