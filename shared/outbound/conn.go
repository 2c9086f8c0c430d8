package outbound

import (
	"net"
	"sync/atomic"
)

// conn is a connection (after the TLS handshake, if there is one). Before it writes a request, it
// checks whether the request may be sent. Each new request on the connection sets sendState.
type conn struct {
	net.Conn

	sendState atomic.Pointer[sendState]
}

// Write writes a part of the current request. Before the first part, it calls the hook that
// WithSending has set.
func (c *conn) Write(p []byte) (int, error) {
	if w := c.sendState.Load(); w != nil {
		if err := w.begin(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
