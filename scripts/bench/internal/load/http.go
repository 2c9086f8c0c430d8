package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Request is a request from a client. Path includes the query, and Body is JSON or nil. Headers may
// replace the content type.
type Request struct {
	Method, Path string
	Headers      map[string]string
	Body         []byte
}

// connections is a client that keeps enough idle connections open for all concurrent requests.
var connections = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Read sends a request to a base URL and returns the body of its response. A status other than 2xx
// is an error.
func (r Request) Read(ctx context.Context, base string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("creating request %s: %w", r.Path, err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json") // replaced below if the request has another type
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}

	res, err := connections.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", r.Path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading response to %s: %w", r.Path, err)
	case res.StatusCode/100 != 2:
		return nil, fmt.Errorf("requesting %s: %s: %s", r.Path, res.Status, bytes.TrimSpace(raw))
	}
	return raw, nil
}

// Ask sends a request and decodes its JSON response into the given value.
func (r Request) Ask(ctx context.Context, base string, into any) error {
	raw, err := r.Read(ctx, base)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading response to %s: %w", r.Path, err)
	}
	return nil
}
