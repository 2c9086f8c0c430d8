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

const lastEventID = "Last-Event-Id" // as net/http keeps it

const (
	// PingEvery is the time between two comments, which keep a stream open at proxies and clients.
	PingEvery = 10 * time.Second

	// WriteTime is how long a client may take to read what was written. It replaces the server's own limit.
	WriteTime = 20 * time.Second
)

// Source is where a stream's events come from.
type Source[E any] interface {
	Next(ctx context.Context, until time.Time) ([]E, error)
}

// ReadLastEventID reads behind which event a reader goes on: the beginning, unless Last-Event-ID names one.
func ReadLastEventID(found *Problems, c *gin.Context) domain.EventID {
	values := c.Request.Header[lastEventID]
	if len(values) == 0 {
		return domain.EventID{}
	}
	last, err := domain.ParseEventID(values[0])
	switch {
	case len(values) > 1:
		found.Add("Last-Event-ID", CodeDuplicate, "was sent more than once")
	case err != nil:
		found.Add("Last-Event-ID", CodeInvalidValue, "must be the id of an event of this run, such as 1.7")
	}
	return last
}

// frames are buffers for what is being written; a stream that waits holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// SendStream writes events until their end, the client's, the server's or the permit's. A client that takes nothing holds
// up its own stream only, until the write's deadline ends it.
func SendStream[E any](c *gin.Context, events Source[E], frame func([]byte, E) []byte, may Permit) {
	header := c.Writer.Header()
	header.Set("Content-Type", ContentEvents)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	out := http.NewResponseController(c.Writer)
	ping := time.Now().Add(PingEvery)
	next, end := events.Next(c.Request.Context(), time.Now()) // the answer begins at once, with what there is
	for begun := false; ; begun = true {
		now := time.Now()
		beat := !now.Before(ping)
		if beat {
			ping = now.Add(PingEvery)
		}
		if !begun || beat || len(next) > 0 {
			_ = out.SetWriteDeadline(now.Add(WriteTime)) // tests' recorders have none
			if err := writeFrames(c, next, frame, beat); err != nil || end != nil {
				return
			}
			c.Writer.Flush()
		}
		if next, end = events.Next(c.Request.Context(), may.Earlier(ping)); end != nil || !may.Holds(time.Now()) {
			return
		}
	}
}

// writeFrames writes events. Many at once, as of a log that is read again, count as a large answer. If there is no room for them the stream
// is refused, or ends: the client resumes it.
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

// refuseStream answers with the error, unless the stream has begun.
func refuseStream(c *gin.Context, err error) error {
	if !c.Writer.Written() {
		for _, name := range []string{"Content-Type", "X-Accel-Buffering"} {
			c.Writer.Header().Del(name)
		}
		Fail(c, err)
	}
	return err
}
