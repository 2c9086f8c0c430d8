package voicegate

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// sendBuffer is what the system may hold of what was written and not yet taken, so that a client that does not read is found out
// within seconds, and an answer that was stopped is not in there for long.
const sendBuffer = 128 << 10

// What a connection may send, in bytes: more than sound can be, and few enough that the smallest frames, which no message is made of,
// keep nobody else from the processor. What comes faster is read later.
const (
	byteRate  = 4 << 20 // a second
	byteBurst = 8 << 20
)

// hijacked is a response whose connection is taken over, and kept at hand: the library closes a connection only with as much
// patience as its peer demands. net/http has taken its deadlines from the connection by then.
type hijacked struct {
	http.ResponseWriter

	conn *throttled
}

// Unwrap gives what it stands before.
func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// WriteHeaderNow sends the status where that is put off otherwise.
func (h *hijacked) WriteHeaderNow() {
	if w, ok := h.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
}

// Hijack takes the connection over.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // if it cannot be set, it is as it was
	}
	h.conn = &throttled{Conn: conn, bytes: newBucket(byteRate, byteBurst, time.Now()), closed: make(chan struct{})}
	return h.conn, buffered, nil
}

// throttled is a connection that is read as fast as it may be. One goroutine reads it at a time.
type throttled struct {
	net.Conn

	bytes  bucket
	once   sync.Once
	closed chan struct{}
}

// Read reads, and then waits as long as the bytes cost.
func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if wait := t.bytes.owe(time.Now(), n); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.closed:
		}
	}
	return n, err
}

// Close closes the connection; also while Read waits.
func (t *throttled) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.Conn.Close()
}
