package ingress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"parley/ingress/internal/auth"
)

const (
	// refusals is the maximum number of excess connections that receive a 429 response at the same
	// time. Further excess connections are closed without a response.
	refusals = 64
	// refusalTime is the time in which an excess connection must be finished.
	refusalTime = time.Second

	// refusalBody is the problem document of a 429 response. It is a constant, because the response
	// is written without an HTTP server.
	refusalBody = `{"type":"/docs/errors#rate_limited","title":"Rate limited","status":429,` +
		`"detail":"too many open connections from this client address","code":"rate_limited","retryable":true}`
)

// addressLimit is a listener that limits the open connections of each client address, including
// idle connections, streams and WebSockets. Connections of trusted proxies are exempt, because they
// carry the requests of many clients. addressLimit is safe for concurrent use, as net.Listener
// demands.
type addressLimit struct {
	net.Listener

	// Networks whose connections are exempt.
	proxies auth.Proxies
	// Maximum number of open connections of a client address.
	limit   int
	answers chan struct{} // one element for each 429 response in progress; the capacity is refusals

	mu   sync.Mutex
	open map[string]int // number of open connections by client address; IPv6 addresses are counted by /64 network
}

// limitConnections returns a listener that limits the open connections of each client address. A
// limit of 0 means no limit. The result closes the given listener when it is closed.
func limitConnections(listener net.Listener, proxies auth.Proxies, limit int) net.Listener {
	if limit == 0 {
		return listener
	}
	return &addressLimit{Listener: listener, proxies: proxies, limit: limit, answers: make(chan struct{}, refusals), open: map[string]int{}}
}

// Accept returns the next connection whose client is below its limit. It responds to other
// connections with 429 and closes them. It returns errors of the listener. Accept does not wait for
// the response to an excess connection.
func (l *addressLimit) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http distinguishes net.ErrClosed and temporary errors
		}

		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return conn, nil
		}

		client, counted := l.client(tcp)
		switch {
		case !counted:
			return conn, nil
		case l.take(client):
			return &countedConn{TCPConn: tcp, leave: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		l.refuse(tcp)
	}
}

// client returns the name under which a connection's client is counted. counted is false for
// connections of trusted proxies, which are not limited. The name of an IPv6 client is its network,
// because a client can use all addresses of the network.
func (l *addressLimit) client(conn *net.TCPConn) (name string, counted bool) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "", false
	}
	address := at.Addr().Unmap().WithZone("")
	return auth.ClientName(address), !l.proxies.Trust(address)
}

// take counts a connection of the client and returns true. If the client has reached the limit,
// take counts nothing and returns false. The caller must call leave when the connection is closed.
func (l *addressLimit) take(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client] >= l.limit {
		return false
	}
	l.open[client]++
	return true
}

// leave stops counting a connection. It removes the entry of a client without connections, so the
// map stays small.
func (l *addressLimit) leave(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client]--; l.open[client] == 0 {
		delete(l.open, client)
	}
}

// refuse responds with 429 and closes the connection. Before it closes the connection, it reads
// what the client has sent. Otherwise the unread bytes would reset the connection, and the client
// might not receive the response. refuse does not block. The response is written by a goroutine
// that ends within refusalTime.
func (l *addressLimit) refuse(conn *net.TCPConn) {
	select {
	case l.answers <- struct{}{}:
	default:
		_ = conn.Close() // no byte was read or written, so an error of Close loses nothing
		return
	}
	go func() {
		defer func() { <-l.answers }()
		_ = errors.Join(conn.SetDeadline(time.Now().Add(refusalTime)), writeRefusal(conn), conn.CloseWrite())
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxHeader)) // read until the client closes the connection, or until the deadline
		_ = conn.Close()
	}()
}

// writeRefusal writes the response directly, because an HTTP server would need more memory for each
// connection. It does not read the request: the response to every request is the same.
func writeRefusal(w io.Writer) error {
	_, err := fmt.Fprintf(w, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"+
		"Retry-After: 5\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s", len(refusalBody), refusalBody)
	return err //nolint:wrapcheck // not reported
}

// countedConn is a connection that counts against its client's limit until Close. Other methods are
// those of the TCP connection, so that net/http can use all of its features.
type countedConn struct {
	*net.TCPConn

	leave func()
}

// Close closes the connection and stops counting it. It may be called more than once; the
// connection is counted only once.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close() //nolint:wrapcheck // as the connection itself
}
