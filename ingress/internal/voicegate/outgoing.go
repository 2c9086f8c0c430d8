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

// maxQueue is how many bytes of events may wait for a client: some 16 s of audio.
const maxQueue = 1 << 20

// sent is audio that was written, or, the last of it, is being written.
type sent struct {
	answer  string
	samples int64
	at      time.Time
}

// outgoing is what goes to the client: a bounded queue, and the one goroutine that writes it.
type outgoing struct {
	mu      sync.Mutex
	queue   []realtime.Event
	bytes   int
	written []sent
	last    *realtime.Close // once the queue is written
	wake    chan struct{}   // there is something to write
	told    chan struct{}   // there is something in written
	slow    bool            // an event was not taken in time; to be read once done is closed
	done    chan struct{}   // closed when nothing can be written any more
}

func newOutgoing() *outgoing {
	return &outgoing{wake: make(chan struct{}, 1), told: make(chan struct{}, 1), done: make(chan struct{})}
}

// push queues events; false says that they are too many for a client that reads.
func (o *outgoing) push(events []realtime.Event) bool {
	if len(events) == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil {
		return true
	}
	for _, e := range events {
		o.bytes += len(e.Body)
	}
	o.queue = append(o.queue, events...)
	rouse(o.wake)
	return o.bytes <= maxQueue
}

// drop takes the audio of answers out of the queue. From here on none of it leaves.
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

// finish closes the connection behind what is queued, or behind last words alone. Nothing is queued any more.
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

// takeWritten gives the audio that was written since it was asked before.
func (o *outgoing) takeWritten() []sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.written
	o.written = nil
	return taken
}

// next takes the first event of the queue, or says how to close behind the last; neither: there is nothing.
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

func (o *outgoing) writes(e realtime.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = append(o.written, sent{e.Answer, e.Samples, time.Now()})
	rouse(o.told)
}

// write writes the queue until it was told to close, or the client takes nothing for too long.
func (o *outgoing) write(socket *websocket.Conn, conn net.Conn, within time.Duration) {
	defer close(o.done)
	for {
		event, some, how := o.next()
		switch {
		case some:
			if event.Samples > 0 {
				o.writes(event) // before: a client may answer to it sooner than it is noted
			}
			if err := send(socket, conn, event.Body, within); err != nil {
				o.slow = errors.Is(err, os.ErrDeadlineExceeded)
				return
			}
		case how != nil:
			if how.Code != 0 { // the library may wait for what the client has only announced: the owner does not
				_ = socket.Close(websocket.StatusCode(how.Code), how.Reason)
			}
			return
		default:
			<-o.wake
		}
	}
}

// send writes one event. A deadline of the connection costs less than a context, but must not be met by the library's own
// frames later: it is taken away again.
func send(socket *websocket.Conn, conn net.Conn, body []byte, within time.Duration) error {
	_ = conn.SetWriteDeadline(time.Now().Add(within))
	err := socket.Write(noDeadline, websocket.MessageText, body)
	_ = conn.SetWriteDeadline(time.Time{})
	return err
}

func rouse(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake
	}
}
