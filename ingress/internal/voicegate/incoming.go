package voicegate

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"
)

const (
	maxMessage = 1 << 20 // bytes
	bufferKept = 64 << 10

	pingRate, pingBurst = 10, 100 // maximum number of pings per second from the client; each requires a pong
)

// noDeadline is the context for calls to the WebSocket library, which closes the whole connection when a context ends.
var noDeadline = context.Background()

var (
	errTooLarge = errors.New("the message is too large")
	errBinary   = errors.New("the message is binary")
)

// incoming is a message from the client, or the reason why there are no further messages.
type incoming struct {
	body []byte
	err  error
}

// reader reads the socket, one message ahead of the owner. The owner returns the memory of
// processed messages.
type reader struct {
	socket *websocket.Conn
	free   chan []byte // released memory for messages
	pings  bucket      // rate of pings that are answered
}

// newReader returns a reader without a socket. The caller sets the socket before read.
func newReader(now time.Time) *reader {
	return &reader{free: make(chan []byte, 2), pings: newBucket(pingRate, pingBurst, now)}
}

// pinged is called by the library in the reader's goroutine. Excess pings are read but get no pong.
func (r *reader) pinged(context.Context, []byte) bool { return r.pings.take(time.Now()) }

// read delivers messages until there are none, or over is closed.
func (r *reader) read(to chan<- incoming, over <-chan struct{}) {
	for {
		body, err := r.message()
		select {
		case to <- incoming{body, err}:
		case <-over:
			return
		}
		if err != nil {
			return
		}
	}
}

// message reads a message of limited length. The rest of a longer message is not read, because the
// connection is then closed.
func (r *reader) message() ([]byte, error) {
	kind, from, err := r.socket.Reader(noDeadline)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}

	// The buffer grows as needed. io.ReadAll would not reuse memory.
	body := r.memory()
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > maxMessage:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// memory returns a released buffer, or a new one of 8 KiB.
func (r *reader) memory() []byte {
	select {
	case b := <-r.free:
		return b[:0]
	default:
		return make([]byte, 0, 8<<10)
	}
}

// release keeps a message's memory for reuse, unless it is unusually large.
func (r *reader) release(body []byte) {
	if cap(body) > bufferKept {
		return
	}
	select {
	case r.free <- body:
	default:
	}
}
