package voicegate

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// sendBuffer limits the sent data that the kernel holds. As a result, a client that does not read
// is detected within seconds, and little audio is still in the kernel when an answer is stopped.
const sendBuffer = 128 << 10

// Limits on the bytes that a client may send: more than audio needs, and few enough that floods of
// the smallest frames do not occupy the processor. Data from a faster client is read later.
const (
	byteRate  = 4 << 20 // per second
	byteBurst = 8 << 20
)

// hijacked is a response that keeps its connection after Hijack. The WebSocket library closes a
// connection only after a handshake with the peer, which may be slow, and net/http has removed the
// connection's deadlines by then.
type hijacked struct {
	http.ResponseWriter

	conn *throttled
}

// Unwrap returns the wrapped response.
func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// WriteHeaderNow sends the status immediately if the wrapped response would delay it.
func (h *hijacked) WriteHeaderNow() {
	if w, ok := h.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
}

// Hijack takes over the connection.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // on failure the default remains
	}
	h.conn = &throttled{Conn: conn, bytes: newBucket(byteRate, byteBurst, time.Now()), closed: make(chan struct{})}
	return h.conn, buffered, nil
}

// throttled is a connection with a limited read rate. Only one goroutine at a time may read from it.
type throttled struct {
	net.Conn

	bytes  bucket
	once   sync.Once
	closed chan struct{} // ends a wait of Read
}

// Read reads, and then waits until the rate permits the bytes that it has read.
func (t *throttled) Read(p []byte) (int, error) {
	// The wait follows the read, so that the bytes are counted exactly. The next read is delayed.
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

// Close closes the connection, even while Read waits.
func (t *throttled) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.Conn.Close()
}
