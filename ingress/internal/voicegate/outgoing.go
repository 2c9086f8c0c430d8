package voicegate

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"parley/ingress/internal/realtime"
)

// maxQueue is the maximum size, in bytes, of the events that wait for a client: about 16 s of audio.
const maxQueue = 1 << 20

// sent is audio that was written or, for the last entry, is being written.
type sent struct {
	answer  string
	samples int64
	at      time.Time
}

// outgoing is a bounded queue of events for the client, and the goroutine that writes it.
type outgoing struct {
	mu        sync.Mutex
	queue     []realtime.Event
	bytes     int             // size of queue
	written   []sent          // audio written and not yet reported
	last      *realtime.Close // after the queue is written
	wake      chan struct{}   // signals a new event
	announced chan struct{}   // signals new entries in written
	slow      bool            // an event was not accepted in time; read it after done is closed
	done      chan struct{}   // closed when nothing more can be written
}

// newOutgoing returns an empty queue. Nothing is written until write is called.
func newOutgoing() *outgoing {
	return &outgoing{wake: make(chan struct{}, 1), announced: make(chan struct{}, 1), done: make(chan struct{})}
}

// push queues events. It returns false if the queue is full, because the client does not read.
func (o *outgoing) push(events []realtime.Event) bool {
	if len(events) == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		return true
	}

	// The events are queued even if the limit is exceeded, because the caller then closes the
	// connection.
	for _, e := range events {
		o.bytes += len(e.Body)
	}
	o.queue = append(o.queue, events...)
	rouse(o.wake)
	return o.bytes <= maxQueue
}

// drop removes the audio of the given answers from the queue, so that no more of it is sent.
func (o *outgoing) drop(answers []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(e realtime.Event) bool {
		if !slices.Contains(answers, e.Answer) {
			return false
		}
		o.bytes -= len(e.Body)
		return true
	})
}

// finish appends words to the queue (or, if alone is set, replaces the queue with words), and
// closes the connection when the queue is written. Nothing may be queued afterwards.
func (o *outgoing) finish(words []realtime.Event, alone bool, how realtime.Close) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if alone {
		o.queue = nil
	}
	o.queue = append(o.queue, words...)
	o.last = &how
	rouse(o.wake)
}

// takeWritten returns the audio written since the last call.
func (o *outgoing) takeWritten() []sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.written
	o.written = nil
	return taken
}

// next takes the first event of the queue, or returns how to close after the last one. If there is
// nothing to do, it returns neither.
func (o *outgoing) next() (event realtime.Event, some bool, how *realtime.Close) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return realtime.Event{}, false, o.last
	}
	event = o.queue[0]
	o.queue[0] = realtime.Event{}
	o.queue = o.queue[1:]
	o.bytes -= len(event.Body)
	return event, true, nil
}

// writes records that an event's audio is being written from now on.
func (o *outgoing) writes(e realtime.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = append(o.written, sent{e.Answer, e.Samples, time.Now()})
	rouse(o.announced)
}

// write writes the queue until it is closed, or until the client accepts nothing for too long.
func (o *outgoing) write(socket *websocket.Conn, conn net.Conn, within time.Duration) {
	defer close(o.done)
	for {
		event, some, how := o.next()
		switch {
		case some:
			if event.Samples > 0 {
				o.writes(event) // recorded first, because a client may respond sooner
			}
			if err := send(socket, conn, event.Body, within); err != nil {
				o.slow = errors.Is(err, os.ErrDeadlineExceeded)
				return
			}
		case how != nil:
			if how.Code != 0 { // the library may wait for the rest of an announced message, but the owner does not
				_ = socket.Close(websocket.StatusCode(how.Code), how.Reason)
			}
			return
		default:
			<-o.wake
		}
	}
}

// send writes one event. A connection deadline costs less than a context. The deadline is removed
// afterwards, because it must not apply to the library's own frames.
func send(socket *websocket.Conn, conn net.Conn, body []byte, within time.Duration) error {
	_ = conn.SetWriteDeadline(time.Now().Add(within))
	err := socket.Write(noDeadline, websocket.MessageText, body)
	_ = conn.SetWriteDeadline(time.Time{})
	return err
}

// rouse signals a channel of capacity 1. It never blocks.
func rouse(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already awake
	}
}
