package outbound

import (
	"context"
	"net/http"
	"time"
)

// Connect connects to an origin, such as "https://host:port", and closes the connection without
// sending a request. It applies the same checks as a request to the origin, including the host's
// certificate. Errors are of type *Error.
func (c *Client) Connect(ctx context.Context, origin string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	// The request only serves to apply the checks that a real request must pass. It is never sent.
	t := newTransport(c, Options{Timeout: timeout, Origin: origin, Fresh: true})
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, origin, http.NoBody)
	if err != nil {
		return refuse("The URL is not valid.")
	}
	to, err := t.admit(req)
	if err != nil {
		return describe(ctx, err, true)
	}

	dial := t.dial
	if to.scheme == "https" {
		dial = t.dialTLS
	}
	conn, err := dial(ctx, "tcp", to.hostPort())
	if err != nil {
		return describe(ctx, err, true)
	}
	_ = conn.Close() // nothing was sent
	return nil
}
