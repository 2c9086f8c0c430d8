package pg

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialer bounds connecting and keeps a dead peer from holding a connection for long; silence is how long a
// server may take to answer, 0 any time.
type dialer struct{ silence time.Duration }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	bounded := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	conn, err := bounded.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dialing database: %w", err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := setUserTimeout(tcp, 10*time.Second); err != nil {
			_ = conn.Close() // the setting's error is the one to report
			return nil, err
		}
	}
	if d.silence == 0 {
		return conn, nil
	}
	return patient{conn, d.silence}, nil
}

// answerTimeout is how long a server may be silent while an answer is awaited: longer than any statement may
// take. lib/pq goes on reading after a context has ended, so without it a server that is frozen, or behind a
// partition, would hold its callers for as long as that lasts.
const answerTimeout = 15 * time.Second

// patient is a connection whose peer may be silent for a while. lib/pq reads only when it awaits an answer.
type patient struct {
	net.Conn
	silence time.Duration
}

func (c patient) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c patient) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
