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

// FaultProxy is a TCP proxy on loopback whose network can be made to fail.
//
//	client ──requests──▶ proxy ──▶ target
//	client ◀──replies─── proxy ◀── target
//
// What is cut is not lost but held back, as TCP does while packets get lost: both ends
// find their connection open and silent. Reset is what breaks connections.
type FaultProxy struct {
	target   string
	listener net.Listener
	group    sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever a field below changes
	held     [2]bool       // by direction
	delay    time.Duration
	links    map[*link]struct{}
	finished bool
}

type direction int

const (
	requests direction = iota
	replies
)

// link is one client's connection and the one made for it.
type link struct{ client, target net.Conn }

// Proxy starts a proxy to target, a host and port as in "127.0.0.1:4222", until the test ends.
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

// Addr is where clients connect, as in "127.0.0.1:40123".
func (p *FaultProxy) Addr() string { return p.listener.Addr().String() }

// Cut holds back everything, in both directions, also of connections made meanwhile.
func (p *FaultProxy) Cut() { p.change(func() { p.held = [2]bool{true, true} }) }

// CutRequests holds back what clients send.
func (p *FaultProxy) CutRequests() { p.change(func() { p.held[requests] = true }) }

// CutReplies holds back what the target sends.
func (p *FaultProxy) CutReplies() { p.change(func() { p.held[replies] = true }) }

// Restore ends all cuts; what was held back arrives.
func (p *FaultProxy) Restore() { p.change(func() { p.held = [2]bool{} }) }

// Delay makes everything that is sent from now on arrive so much later, in each direction.
func (p *FaultProxy) Delay(by time.Duration) { p.change(func() { p.delay = by }) }

// Reset breaks all connections at once; new ones can be made.
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
	both.Go(func() { p.carry(requests, target, client) })
	both.Go(func() { p.carry(replies, client, target) })
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

// reset breaks both connections without a farewell.
func (l *link) reset() {
	for _, conn := range []net.Conn{l.client, l.target} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

// piece is what one read gave; the last one carries the reader's error.
type piece struct {
	data []byte
	due  time.Time
	err  error
}

// carry copies one direction until it ends, then hands the end on. Reading and writing go
// on side by side, so that a delay makes things late and not slow.
func (p *FaultProxy) carry(way direction, to, from net.Conn) {
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
			_ = from.Close() // ends the reader, and with it this loop
		}
	}
}

// end hands on how a connection ended: in order, or not.
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

// await returns when the time has come and the way is open, or the proxy is closed.
func (p *FaultProxy) await(way direction, due time.Time) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	late := timer.C
	for {
		p.mu.Lock()
		changed, open, finished := p.changed, !p.held[way], p.finished
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
