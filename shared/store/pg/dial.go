package pg

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialer limits the time to connect and detects dead peers. silence is the maximum time that a
// server may take to reply; 0 means no limit.
type dialer struct{ silence time.Duration }

// Dial connects as DialContext does, without a context. lib/pq's interface Dialer requires it.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout connects within the timeout. lib/pq's interface Dialer requires it.
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext connects within five seconds, or until ctx ends, and sets the timeouts of the
// connection.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	bounded := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	conn, err := bounded.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dialing database: %w", err)
	}

	// Without a user timeout, the kernel keeps retransmitting to a dead server for many minutes.
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := setUserTimeout(tcp, 10*time.Second); err != nil {
			_ = conn.Close() // the error of setUserTimeout is returned, not that of Close
			return nil, err
		}
	}

	if d.silence == 0 {
		return conn, nil
	}

	return timeoutConn{conn, d.silence}, nil
}

// answerTimeout is the maximum time that a server may be silent while lib/pq waits for a reply. It
// is longer than any statement may take. lib/pq continues to read after its context has ended, so
// without this timeout a server that is frozen or unreachable would block its callers indefinitely.
const answerTimeout = 15 * time.Second

// timeoutConn is a connection with a timeout for each read and write. lib/pq reads only while it
// waits for a reply.
type timeoutConn struct {
	net.Conn
	silence time.Duration
}

// Read fails if no data arrives for the duration silence.
func (c timeoutConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write fails if the server accepts no data for the duration silence.
func (c timeoutConn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
