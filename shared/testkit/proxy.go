package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// FaultProxy is a TCP proxy on loopback that simulates network faults.
//
//	client ──requests──▶ proxy ──▶ target
//	client ◀──replies─── proxy ◀── target
//
// A cut holds data back without losing it. As with lost packets, the connection is open but silent
// at both ends. Reset breaks connections.
type FaultProxy struct {
	target   string
	listener net.Listener
	group    sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever the cuts, the delay or the closed state change
	blocked  [2]bool       // by direction
	delay    time.Duration
	links    map[*link]struct{}
	finished bool
}

// direction is one of the two directions in which data passes the proxy.
type direction int

const (
	requests direction = iota
	replies
)

// link is a client's connection and the corresponding connection to the target.
type link struct{ client, target net.Conn }

// Proxy starts a proxy to target, for example "127.0.0.1:4222", until the test ends.
func Proxy(tb testing.TB, target string) *FaultProxy {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testkit: starting proxy: %v", err)
	}
	p := &FaultProxy{target: target, listener: listener, changed: make(chan struct{}), links: map[*link]struct{}{}}
	p.group.Go(func() { p.accept(context.WithoutCancel(tb.Context())) })
	tb.Cleanup(p.close)
	return p
}

// Addr is the address for clients, for example "127.0.0.1:40123".
func (p *FaultProxy) Addr() string { return p.listener.Addr().String() }

// Cut holds back all data in both directions, on existing and new connections.
func (p *FaultProxy) Cut() { p.change(func() { p.blocked = [2]bool{true, true} }) }

// CutRequests holds back the data that clients send.
func (p *FaultProxy) CutRequests() { p.change(func() { p.blocked[requests] = true }) }

// CutReplies holds back the data that the target sends.
func (p *FaultProxy) CutReplies() { p.change(func() { p.blocked[replies] = true }) }

// Restore ends all cuts. The data that was held back then arrives.
func (p *FaultProxy) Restore() { p.change(func() { p.blocked = [2]bool{} }) }

// Delay delays all data that is sent from now on, in each direction.
func (p *FaultProxy) Delay(by time.Duration) { p.change(func() { p.delay = by }) }

// Reset breaks all connections immediately. Clients can make new connections.
func (p *FaultProxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for link := range p.links {
		link.reset()
	}
}

func (p *FaultProxy) change(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *FaultProxy) close() {
	_ = p.listener.Close()
	p.change(func() { p.finished = true })
	p.Reset()
	p.group.Wait()
}

func (p *FaultProxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.group.Go(func() { p.serve(ctx, client) })
	}
}

// serve connects a client to the target, and copies the data in both directions until both
// directions have ended. If the target is unreachable, the client's connection is reset.
func (p *FaultProxy) serve(ctx context.Context, client net.Conn) {
	target, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		(&link{client: client}).reset()
		return
	}

	served := &link{client: client, target: target}
	defer served.reset()
	if !p.add(served) {
		return
	}

	defer p.remove(served)
	var both sync.WaitGroup
	both.Go(func() { p.copyDirection(requests, target, client) })
	both.Go(func() { p.copyDirection(replies, client, target) })
	both.Wait()
}

func (p *FaultProxy) add(served *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return false
	}
	p.links[served] = struct{}{}
	return true
}

func (p *FaultProxy) remove(served *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, served)
}

// reset closes both connections of the link with a TCP reset.
func (l *link) reset() {
	for _, conn := range []net.Conn{l.client, l.target} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

// piece is the result of one read. The last piece of a connection contains the reader's error.
type piece struct {
	data []byte
	due  time.Time
	err  error
}

// copyDirection copies the data in one direction until the sending connection ends. It then closes
// the receiving connection in the way in which the sending connection ended. It reads and writes
// concurrently, so that a delay adds latency and does not reduce throughput.
func (p *FaultProxy) copyDirection(way direction, to, from net.Conn) {
	pieces := make(chan piece, 256)
	go p.read(from, pieces)
	var broken error
	for next := range pieces {
		if broken == nil && len(next.data) > 0 {
			broken = p.deliver(way, to, next)
		}
		if broken == nil && next.err != nil {
			p.await(way, next.due)
			end(to, next.err)
		}
		if broken != nil {
			_ = from.Close() // ends the reader, and thereby this loop
		}
	}
}

// end closes a connection. If the other connection ended with io.EOF, end sends the end of the
// data. After any other error, it resets the connection.
func end(to net.Conn, how error) {
	tcp, ok := to.(*net.TCPConn)
	switch {
	case !ok:
	case errors.Is(how, io.EOF):
		_ = tcp.CloseWrite()
	default:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

func (p *FaultProxy) read(from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		p.mu.Lock()
		due := time.Now().Add(p.delay)
		p.mu.Unlock()
		pieces <- piece{data: buffer[:n], due: due, err: err}
		if err != nil {
			return
		}
	}
}

func (p *FaultProxy) deliver(way direction, to net.Conn, next piece) error {
	p.await(way, next.due)
	_, err := to.Write(next.data)
	return err
}

// await waits until the time in the argument due, and then while data in this direction is held
// back. It returns immediately when the proxy is closed.
func (p *FaultProxy) await(way direction, due time.Time) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	late := timer.C
	for {
		p.mu.Lock()
		changed, open, finished := p.changed, !p.blocked[way], p.finished
		p.mu.Unlock()
		if finished || late == nil && open {
			return
		}
		select {
		case <-late:
			late = nil
		case <-changed:
		}
	}
}
