package outbound

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Connect opens a connection without sending a request. The guard checks this connection in the
// same way as a connection for a request.
func TestConnect(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := start(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	allowed := allowing(t, server)
	if err := allowed.Connect(t.Context(), server.URL, time.Second); err != nil {
		t.Errorf("an allowed server: %v", err)
	}
	server.Close()

	for name, tc := range map[string]struct {
		client *Client
		origin string
		want   string
	}{
		"no listener": {allowed, server.URL, "The host could not be reached."},
		"forbidden":   {allowing(t), server.URL, "The URL leads to a host that is not allowed."},
		"metadata":    {allowing(t), "http://169.254.169.254", "The URL leads to a host that is not allowed."},
		"malformed":   {allowed, "ftp://example.com", "The URL is not valid."},
	} {
		err := tc.client.Connect(t.Context(), tc.origin, time.Second)
		known, ok := errors.AsType[*Error](err)
		if !ok || known.Message != tc.want || !known.NotSent {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
}
