package voicegate

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"
)

const (
	maxMessage = 1 << 20 // maximum size of a message from the client, in bytes
	// Maximum capacity of memory that is kept for reuse, in bytes.
	bufferKept = 64 << 10

	pingRate, pingBurst = 10, 100 // limit on the client's pings per second, because each requires a pong
)

// noDeadline is passed to the WebSocket library instead of a context with a deadline, because the
// library closes the connection when a context ends.
var noDeadline = context.Background()

var (
	errTooLarge = errors.New("the message is too large")
	errBinary   = errors.New("the message is binary")
)

// clientMessage is a message from the client, or the reason why no more messages follow.
type clientMessage struct {
	// Text of the message; the owner returns it with reader.release.
	body []byte
	// Either errTooLarge, errBinary or an error of the connection; nil: body is set.
	err error
}

// reader reads messages from the socket. It reads the next message while the owner handles the
// current message. The owner returns the memory of messages that it has processed. Only the
// goroutine of the reader calls read, and only the owner calls release.
type reader struct {
	socket *websocket.Conn
	free   chan []byte // memory of processed messages, for reuse
	pings  bucket      // limit on the pings that get a pong
}

// newReader returns a reader. The caller must set its socket before it calls read.
func newReader(now time.Time) *reader {
	return &reader{free: make(chan []byte, 2), pings: newBucket(pingRate, pingBurst, now)}
}

// pinged decides whether a ping gets a pong. The library calls it in the reader's goroutine.
func (r *reader) pinged(context.Context, []byte) bool { return r.pings.take(time.Now()) }

// read delivers messages until the connection ends or the channel over is closed. The last message
// contains an error, unless the channel over was closed. The method read reads at most one message
// ahead.
func (r *reader) read(to chan<- clientMessage, over <-chan struct{}) {
	for {
		body, err := r.message()
		select {
		case to <- clientMessage{body, err}:
		case <-over:
			return
		}
		if err != nil {
			return
		}
	}
}

// message reads one message. If the message exceeds the limit, message does not read the rest,
// because the connection will be closed. The error is errTooLarge, errBinary or an error of the
// connection.
func (r *reader) message() ([]byte, error) {
	kind, from, err := r.socket.Reader(noDeadline)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}

	// The buffer grows as needed. io.ReadAll is not used, because it cannot reuse the memory of
	// earlier messages.
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

// memory returns the memory of a processed message for the next one, or else new memory of 8 KiB.
func (r *reader) memory() []byte {
	select {
	case b := <-r.free:
		return b[:0]
	default:
		return make([]byte, 0, 8<<10)
	}
}

// release keeps the memory of a message for reuse, unless it is unusually large. It never blocks.
func (r *reader) release(body []byte) {
	if cap(body) > bufferKept {
		return
	}
	select {
	case r.free <- body:
	default:
	}
}
