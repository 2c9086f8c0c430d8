package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/stream"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
	"parley/shared/store"
)

const (
	contentEvents = "text/event-stream"
	lastEventID   = "Last-Event-Id" // as net/http keeps it

	pingEvery = 10 * time.Second // a comment, so that proxies and clients know that the stream lives
	writeTime = 20 * time.Second // for a client to take what was written; the server's own limit ends nothing
)

// source is where a stream's events come from.
type source[E any] interface {
	Next(ctx context.Context, until time.Time) ([]E, error)
}

// resumedAt reads behind which event a reader goes on: the beginning, unless Last-Event-ID names one.
func resumedAt(found *problems, c *gin.Context) domain.EventID {
	values := c.Request.Header[lastEventID]
	if len(values) == 0 {
		return domain.EventID{}
	}
	last, err := domain.ParseEventID(values[0])
	switch {
	case len(values) > 1:
		found.add("Last-Event-ID", codeDuplicate, "the header was sent more than once")
	case err != nil:
		found.add("Last-Event-ID", codeInvalidValue, "must be the id of an event of this run, such as 1.7")
	}
	return last
}

// submitStream is submit for callers that want to see the run's events instead of waiting for its end.
func (a *api) submitStream(c *gin.Context, s *submission) {
	seats, err := a.takeSeats(s.caller) // before anything is accepted that could not be shown
	if err != nil {
		fail(c, err)
		return
	}
	defer a.leaveSeats(seats)
	reader, err := a.openSubmitted(c, s)
	if err != nil {
		fail(c, err)
		return
	}
	defer reader.Close()
	if s.reader.Format != "" {
		a.sendFormatted(c, reader.RunID(), reader, s.reader)
		return
	}
	sendEvents(c, reader.RunID(), reader, a.permit(c))
}

func (a *api) openSubmitted(c *gin.Context, s *submission) (*stream.Reader, error) {
	s.traceparent = traceparent(c)
	reader, run, err := a.follow(c.Request.Context(), s, counting{a, c})
	if run != nil {
		about(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	if err != nil {
		return nil, err
	}
	if run.Result != nil {
		c.Header("Idempotency-Replayed", "true")
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	return reader, nil
}

// follow gives the events of a submission's run, which was begun for it or holds its key. The run is given with an error,
// too, once it is known.
func (a *api) follow(ctx context.Context, s *submission, t toll) (*stream.Reader, *store.StoredRun, error) {
	var reader *stream.Reader // follows the run before it exists: nothing that it tells is missed
	sub, err := a.begin(ctx, s, t, func(runID string) { reader = a.Streams.Follow(runID) })
	if reader != nil && (err != nil || sub.Existing) { // the run that would have been is none
		reader.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	a.Dispatch.Release(sub) // nobody awaits its result
	run := &sub.Run
	switch {
	case run.Erased:
		return nil, run, erasedKey()
	case !sub.Existing: // it is accepted: whatever fails from here on, its id is answered
		reader.Begin(run, s.last)
		return reader, run, nil
	}
	reader, err = a.Streams.Open(ctx, run.OrganizationID, run.Run.ID, s.last)
	return reader, run, err
}

// streamRun gives the events of a run that the caller may read, behind the last that the reader has.
func (a *api) streamRun(c *gin.Context, runID string, asked uistream.Reader) {
	seats, err := a.takeSeats(caller(c))
	if err != nil {
		fail(c, err)
		return
	}
	defer a.leaveSeats(seats)
	reader, err := a.openRun(c, runID, asked.Last)
	if err != nil {
		fail(c, err)
		return
	}
	defer reader.Close()
	if reader.AtEnd() { // browsers stop to reconnect
		c.Status(http.StatusNoContent)
		return
	}
	if asked.Format == "" {
		sendEvents(c, runID, reader, a.permit(c))
		return
	}
	if asked.Last != (domain.EventID{}) { // an encoder must see the whole log
		if reader, err = a.openRun(c, runID, domain.EventID{}); err != nil {
			fail(c, err)
			return
		}
		defer reader.Close()
	}
	a.sendFormatted(c, runID, reader, asked)
}

func (a *api) openRun(c *gin.Context, runID string, last domain.EventID) (*stream.Reader, error) {
	run, err := a.findRun(c, runID)
	if err != nil {
		return nil, err
	}
	if run.Erased {
		return nil, erasedRun()
	}
	return a.Streams.Open(c.Request.Context(), run.OrganizationID, runID, last)
}

// frames are buffers for what is being written; a stream that waits holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// sendEvents writes a run's events until its end, as the caller may see them.
func sendEvents(c *gin.Context, runID string, events source[domain.Event], may permit) {
	sendStream(c, events, frameFor(caller(c), runID), may)
}

// sendStream writes events until their end, the client's, the server's or the permit's. A client that takes nothing holds
// up its own stream only, until the write's deadline ends it.
func sendStream[E any](c *gin.Context, events source[E], frame func([]byte, E) []byte, may permit) {
	header := c.Writer.Header()
	header.Set("Content-Type", contentEvents)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	out := http.NewResponseController(c.Writer)
	ping := time.Now().Add(pingEvery)
	next, end := events.Next(c.Request.Context(), time.Now()) // the answer begins at once, with what there is
	for begun := false; ; begun = true {
		now := time.Now()
		beat := !now.Before(ping)
		if beat {
			ping = now.Add(pingEvery)
		}
		if !begun || beat || len(next) > 0 {
			_ = out.SetWriteDeadline(now.Add(writeTime)) // tests' recorders have none
			if err := writeFrames(c, next, frame, beat); err != nil || end != nil {
				return
			}
			c.Writer.Flush()
		}
		if next, end = events.Next(c.Request.Context(), may.earlier(ping)); end != nil || !may.holds(time.Now()) {
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
	large, err := countAnswer(c, len(*buf))
	if err != nil {
		return refuseStream(c, err)
	}
	c.Writer.WriteHeaderNow()
	switch {
	case large != nil:
		defer large.leave()
		return large.write(c.Writer, *buf)
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
		fail(c, err)
	}
	return err
}
