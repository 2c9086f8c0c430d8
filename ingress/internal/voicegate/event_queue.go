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

// maxQueue is the maximum size, in bytes, of the events that wait for a client: about 16 s of
// audio.
const maxQueue = 1 << 20

// sent is audio of an answer that was written to the socket. In the last entry of a list, the write
// may still be in progress. The owner passes the entries to the conversation, which computes the
// playback position.
type sent struct {
	answer string
	// Number of samples in one event.
	samples int64
	// Time at which the write began.
	at time.Time
}

// eventQueue is a bounded queue of events for the client. One goroutine writes the queue to the
// socket. The methods of eventQueue are safe for concurrent use, but write is called only once. The
// size of the queue is limited to maxQueue, plus the events of the last push.
type eventQueue struct {
	mu        sync.Mutex
	queue     []realtime.Event
	bytes     int             // size of the queue in bytes
	written   []sent          // audio that was written and not yet reported to the owner
	last      *realtime.Close // how to close the connection after the queue is written
	wake      chan struct{}   // signals that the queue has a new event
	announced chan struct{}   // signals that written has new entries
	slow      bool            // whether a write has timed out; valid after done is closed
	done      chan struct{}   // closed when no further event will be written
}

// newOutgoing returns an empty queue. The method write must be called to write it.
func newOutgoing() *eventQueue {
	return &eventQueue{wake: make(chan struct{}, 1), announced: make(chan struct{}, 1), done: make(chan struct{})}
}

// push queues events. It returns false if the queue then has more than maxQueue bytes, because the
// client does not read its events.
func (o *eventQueue) push(events []realtime.Event) bool {
	if len(events) == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		return true
	}

	// The events are queued even if the queue is full, because the caller then closes the
	// connection anyway.
	for _, e := range events {
		o.bytes += len(e.Body)
	}
	o.queue = append(o.queue, events...)
	rouse(o.wake)
	return o.bytes <= maxQueue
}

// drop removes the queued audio of the given answers, so that it is not sent. Other events keep
// their order. Audio that is being written cannot be dropped.
func (o *eventQueue) drop(answers []string) {
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

// finish queues the last events. The connection is closed after the queue is written. If alone is
// set, finish drops all events queued before. No event may be queued after finish. A later push is
// ignored.
func (o *eventQueue) finish(words []realtime.Event, alone bool, how realtime.Close) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if alone {
		o.queue = nil
	}
	o.queue = append(o.queue, words...)
	o.last = &how
	rouse(o.wake)
}

// takeWritten returns the audio that was written since the last call. The order is that of the
// writes. takeWritten returns nil if there is none.
func (o *eventQueue) takeWritten() []sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.written
	o.written = nil
	return taken
}

// next returns the first event of the queue. If the queue is empty, it returns how to close the
// connection, or nil if the connection must not be closed yet. next removes the event from the
// queue. The result some is false if the queue is empty.
func (o *eventQueue) next() (event realtime.Event, some bool, how *realtime.Close) {
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

// writes records that the audio of an event is being written. The owner is signalled and reads the
// record with takeWritten.
func (o *eventQueue) writes(e realtime.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = append(o.written, sent{e.Answer, e.Samples, time.Now()})
	rouse(o.announced)
}

// write writes the queue until the connection is closed, or until the client does not accept an
// event in time. It is called once, in a goroutine of its own. It closes the channel done when it
// returns. The argument within is the timeout of one event.
func (o *eventQueue) write(socket *websocket.Conn, conn net.Conn, within time.Duration) {
	defer close(o.done)
	for {
		event, some, how := o.next()
		switch {
		case some:
			if event.Samples > 0 {
				o.writes(event) // recorded before the write, because the client may respond before the write returns
			}
			if err := send(socket, conn, event.Body, within); err != nil {
				o.slow = errors.Is(err, os.ErrDeadlineExceeded)
				return
			}
		case how != nil:
			if how.Code != 0 { // the library may wait for the rest of a message, but the owner must not wait
				_ = socket.Close(websocket.StatusCode(how.Code), how.Reason)
			}
			return
		default:
			<-o.wake
		}
	}
}

// send writes one event. It sets a deadline on the connection, which is cheaper than a context. It
// removes the deadline afterwards, because the deadline must not apply to frames that the library
// itself sends. The error wraps os.ErrDeadlineExceeded if the client does not read in time.
func send(socket *websocket.Conn, conn net.Conn, body []byte, within time.Duration) error {
	_ = conn.SetWriteDeadline(time.Now().Add(within))
	err := socket.Write(noDeadline, websocket.MessageText, body)
	_ = conn.SetWriteDeadline(time.Time{})
	return err
}

// rouse sends a signal on a channel of capacity 1. It never blocks. The receiver must then check
// its whole state, because several signals may become one.
func rouse(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending
	}
}
