package voicegate

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// sendBuffer is the size of the kernel's send buffer for a connection, in bytes. Because the buffer
// is small, the gate notices within seconds that a client does not read. When an answer is stopped,
// little of its audio has already been passed to the kernel.
const sendBuffer = 128 << 10

// These constants limit the bytes that a client may send. They allow more than audio needs, but
// prevent a flood of tiny frames from using too much CPU. If a client sends faster than they allow,
// the gate reads its data later.
const (
	byteRate  = 4 << 20 // number of bytes per second
	byteBurst = 8 << 20
)

// hijacked is a response that keeps a reference to its connection after Hijack. The gate needs the
// reference to close the connection immediately: the WebSocket library first performs a handshake
// with the client, which may be slow, and net/http has removed the connection's deadlines. A
// hijacked response belongs to one request.
type hijacked struct {
	http.ResponseWriter

	// Connection after Hijack; nil before.
	conn *throttled
}

// Unwrap returns the wrapped response. http.ResponseController uses it.
func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// WriteHeaderNow sends the status immediately, if the wrapped response would otherwise delay it.
func (h *hijacked) WriteHeaderNow() {
	if w, ok := h.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
}

// Hijack takes over the connection, limits its read rate and keeps a reference to it. http.Server
// does not use the connection any more.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // if this fails, the default size applies
	}
	h.conn = &throttled{Conn: conn, bytes: newBucket(byteRate, byteBurst, time.Now()), closed: make(chan struct{})}
	return h.conn, buffered, nil
}

// throttled is a connection with a limited read rate. Only one goroutine at a time may read from
// it. Writes are not limited.
type throttled struct {
	net.Conn

	// Limit of the bytes that were read.
	bytes bucket
	// Allows several calls of Close.
	once   sync.Once
	closed chan struct{} // closed by Close, to end a wait of Read
}

// Read reads and then waits until the rate limit permits the bytes that it has read. A read larger
// than the burst also succeeds, but returns later.
func (t *throttled) Read(p []byte) (int, error) {
	// The number of bytes is known only after the read, so the limit delays the return and thereby
	// the next read.
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

// Close closes the connection and ends a wait of Read. It may be called several times and by any
// goroutine.
func (t *throttled) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.Conn.Close()
}
