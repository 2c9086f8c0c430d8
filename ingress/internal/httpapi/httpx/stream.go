package httpx

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// ContentEvents is the media type of server-sent events.
const ContentEvents = "text/event-stream"

const lastEventID = "Last-Event-Id" // in net/http's canonical form

const (
	// PingEvery is the interval between pings. A ping is a comment in the stream, which keeps
	// proxies and clients from closing a quiet connection.
	PingEvery = 10 * time.Second

	// WriteTime is the timeout of each write to a stream. It replaces the server's write timeout.
	WriteTime = 20 * time.Second

	// writesShare is the time for which consecutive writes share a deadline. Setting a deadline
	// takes a tenth of the time of a small write, so it is not done for each write.
	writesShare = time.Second
)

// Source supplies the events of a stream. Next waits for events, at most until the given time. If
// there are none by then, Next returns nil. If Next returns an error, such as io.EOF, the stream
// ends, and Next is not called again. The returned events are written before the next call of Next,
// so Next may reuse their memory.
type Source[E any] interface {
	Next(ctx context.Context, until time.Time) ([]E, error)
}

// ReadLastEventID reads the Last-Event-ID header, which contains the event after which the stream
// continues. Without the header it returns the zero EventID, which means the beginning of the
// stream.
func ReadLastEventID(found *Problems, c *gin.Context) domain.EventID {
	values := c.Request.Header[lastEventID]
	if len(values) == 0 {
		return domain.EventID{}
	}

	last, err := domain.ParseEventID(values[0])
	switch {
	case len(values) > 1:
		found.Add("Last-Event-ID", CodeDuplicate, "must be sent only once")
	case err != nil:
		found.Add("Last-Event-ID", CodeInvalidValue, "must be the id of an event of this run, such as 1.7")
	}

	return last
}

// frames is a pool of buffers for writes, so that streams need no buffers while they wait for
// events.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// SendStream writes events until the source ends, the client disconnects or the session check
// fails. If a client does not read, only its own stream is blocked, and the write timeout ends it.
//
// SendStream has few variables, to keep the stacks of thousands of waiting streams small. frame
// appends the encoding of an event. permit is the session check; its zero value never fails.
// SendStream sets its own write deadlines.
func SendStream[E any](c *gin.Context, events Source[E], frame func([]byte, E) []byte, permit *SessionCheck) {
	w := newEventWriter(c, frame)
	next, end := events.Next(c.Request.Context(), time.Now()) // does not wait for events, so that the response begins immediately
	for w.write(next, end != nil) == nil && end == nil {
		if next, end = events.Next(c.Request.Context(), permit.Earlier(w.ping)); end != nil || !permit.Holds(time.Now()) {
			return
		}
	}
}

// eventWriter writes the events of one stream.
type eventWriter[E any] struct {
	// c is the request. frame appends the encoding of an event to a buffer.
	c     *gin.Context
	frame func([]byte, E) []byte
	out   *http.ResponseController
	// begun is true after the first call of the method write, which also sends the headers.
	begun bool
	ping  time.Time // time of the next ping
	renew time.Time // time at which the write deadline must be set again
}

// newEventWriter sets the headers of a stream and returns its writer.
func newEventWriter[E any](c *gin.Context, frame func([]byte, E) []byte) *eventWriter[E] {
	header := c.Writer.Header()
	header.Set("Content-Type", ContentEvents)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	return &eventWriter[E]{c: c, frame: frame, out: http.NewResponseController(c.Writer), ping: time.Now().Add(PingEvery)}
}

// write writes events, and a ping if one is due. Then it flushes the response, unless last is true:
// the server flushes the last write at the end of the response. An error means that the stream must
// end.
func (w *eventWriter[E]) write(events []E, last bool) error {
	now := time.Now()
	beat := !now.Before(w.ping)
	if beat {
		w.ping = now.Add(PingEvery)
	}

	// At the first call, write even if there are no events, because the headers show the client
	// that the stream is open.
	if w.begun && !beat && len(events) == 0 {
		return nil
	}
	w.begun = true

	if !now.Before(w.renew) {
		w.renew = now.Add(writesShare)
		_ = w.out.SetWriteDeadline(now.Add(WriteTime)) // fails only for the response recorders of tests
	}
	if err := writeFrames(w.c, events, w.frame, beat); err != nil {
		return err
	}
	if !last {
		w.c.Writer.Flush()
	}
	return nil
}

// writeFrames writes events, and a ping if requested. Many events at once, such as the log of a
// run, count as a large response. If there is no capacity for it, the stream is rejected or ends
// early, and the client can resume it later.
func writeFrames[E any](c *gin.Context, events []E, frame func([]byte, E) []byte, ping bool) error {
	buf, ok := frames.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}

	defer func() {
		if cap(*buf) <= maxReuse {
			frames.Put(buf)
		}
	}()

	// Write all events together, with one system call and one flush.
	*buf = (*buf)[:0]
	for _, e := range events {
		*buf = frame(*buf, e)
	}

	if ping {
		*buf = append(*buf, ": ping\n\n"...)
	}

	large, err := CountAnswer(c, len(*buf))
	if err != nil {
		return refuseStream(c, err)
	}

	c.Writer.WriteHeaderNow()
	switch {
	case large != nil:
		defer large.Leave()
		return large.Write(c.Writer, *buf)
	case len(*buf) == 0:
		return nil
	}

	_, err = c.Writer.Write(*buf)
	return err
}

// refuseStream responds with err unless the stream has already begun. It returns err.
func refuseStream(c *gin.Context, err error) error {
	if !c.Writer.Written() {
		for _, name := range []string{"Content-Type", "X-Accel-Buffering"} {
			c.Writer.Header().Del(name)
		}
		Fail(c, err)
	}
	return err
}
