package stream

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

const (
	maxBuffer  = 64 << 10 // maximum size of buffered messages; if it is exceeded, the buffer is dropped, and the log is read instead
	perMessage = 64       // number of bytes that each buffered message counts in addition to its size

	firstLook       = 300 * time.Millisecond // time from opening to the first read of the log; earlier events are checkpointed by then
	idleLook        = 5 * time.Second        // time without events after which the log is read again
	unreachableLook = time.Second            // like idleLook, while the bus is unreachable
	shortestGap     = 100 * time.Millisecond // first pause between reads of the log while events are missing; the pause doubles each time
	longestGap      = 2 * time.Second
)

// ErrDrained is the error with which the readers of a stopping hub end. Their clients can continue
// at another process, after the last event.
var ErrDrained = errors.New("the service is stopping")

// Reader reads the log of one run as it grows. Only one goroutine may use it. The hub's goroutine
// uses only the fields below mu.
type Reader struct {
	hub   *Hub
	runID string
	// Organization of the run; set by Start or Begin.
	org string

	position position
	ready    []domain.Event // events that Start has read and Next has not returned yet

	ended   bool          // whether the log is complete
	failure error         // the reason, if the log has ended before its run; otherwise nil
	gap     bool          // whether events before the received messages are missing
	wait    time.Duration // pause until the next read, during a gap or after a failure
	lookAt  time.Time     // when to read the log if no event arrives
	// Timer of the method sleep; nil before the first wait.
	timer *time.Timer
	lasts bool // whether the reader continues although the hub drains

	// The fields below are also used by the hub's goroutine.
	mu sync.Mutex

	receive [][]byte      // received messages that the reader has not taken yet
	bytes   int           // total size of the messages in receive, plus perMessage for each of them
	look    bool          // whether the log must be read
	wake    chan struct{} // signals a message, or that the log must be read
}

// hear buffers a message. If message is nil or the buffer is full, the reader reads the log
// instead. The message is shared by the readers of the run and must not be modified.
func (r *Reader) hear(message []byte) {
	r.mu.Lock()

	// The messages of a client that reads slowly occupy at most maxBuffer bytes. The reader gets
	// the dropped events from the log.
	size := len(message) + perMessage
	switch {
	case message == nil:
		r.look = true
	case r.bytes > 0 && r.bytes+size > maxBuffer:
		r.receive, r.bytes, r.look = nil, 0, true
	default:
		r.receive = append(r.receive, message)
		r.bytes += size
	}
	r.mu.Unlock()
	r.rouse()
}

// rouse wakes the reader if it sleeps. It never blocks, because the hub calls it for many readers
// one after another.
func (r *Reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // the reader has already been woken
	}
}

// RunID returns the id of the run.
func (r *Reader) RunID() string { return r.runID }

// Reserve is a function that reserves memory for a log of the given number of bytes before the log
// is read. If it returns an error, the log is not read.
type Reserve func(bytes int) error

// Start reads the log of an organization's run for the first time, after reserving memory for it.
// It returns the coded error not_found if the run does not exist, and erased if it was erased.
// reserve is called only for a log of more than rundb.ShortBytes bytes; its error is returned
// unchanged. Only one of Start and Begin may be called.
func (r *Reader) Start(ctx context.Context, org string, last domain.EventID, reserve Reserve) error {
	r.org, r.position.last = org, last

	// The size is determined before the log is read, because a log may have many megabytes.
	bytes, err := r.hub.logs.EventLogBytes(ctx, r.request())
	if err != nil {
		return refusal(err)
	}

	// A small log needs no reservation.
	if bytes > rundb.ShortBytes {
		if err := reserve(bytes); err != nil {
			return err
		}
	}
	events, err := r.read(ctx)
	if err != nil {
		return refusal(err)
	}
	r.ready = events
	r.lookAt = time.Now().Add(firstLook)
	return nil
}

// Begin replaces Start for a run that was just accepted. The log begins with events that are
// derived from run, and further events follow as they arrive. Begin cannot fail. The caller can
// therefore return the run's id even if the database is unreachable. The argument last is the id of
// the event after which the client continues.
func (r *Reader) Begin(run *rundb.StoredRun, last domain.EventID) {
	r.org, r.position.last = run.OrganizationID, last
	r.lookAt = time.Now().Add(firstLook)
	events, err := eventsFor(&executiondb.EventLog{Run: *run})
	if err != nil {
		r.hub.log.Error().Err(err).Str("run_id", r.runID).Msg("cannot derive the first events of a new run; reading its event log instead")
		r.lookAt = time.Time{}
		return
	}
	r.ready = r.position.logged(events)
}

// AtEnd reports whether the run has finished and its log has no event after the event last. It must
// be called before the first Next.
func (r *Reader) AtEnd(last domain.EventID) bool {
	n := len(r.ready)
	return r.ended && (n == 0 || !r.ready[n-1].ID.After(last))
}

// Close ends the reader. It may be called several times. It must be called by the goroutine that
// uses the reader.
func (r *Reader) Close() {
	r.hub.unfollow(r)
	if r.timer != nil {
		r.timer.Stop()
	}
}

// Outlast lets the reader continue until it is closed, even if its hub drains. It is meant for
// readers that end soon anyway.
func (r *Reader) Outlast() { r.lasts = true }

// Next returns the events that it has not returned before. If there are none, it waits for events
// until the given time, and then returns none. After the last event it returns io.EOF. If the log
// ends before its run, Next returns the coded error with the reason. The events are valid until the
// next call. If ctx ends, Next returns the error of ctx. If the hub drains, it returns ErrDrained.
func (r *Reader) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if events := r.ready; len(events) > 0 {
		r.ready = nil
		return events, nil
	}

	// Received events are returned first, because they need no query. The log is read only when a
	// read is due.
	for !r.ended {
		if events := r.takeReceived(); len(events) > 0 {
			r.lookAt = time.Now().Add(r.idle())
			return events, nil
		}
		now := time.Now()
		if !now.Before(r.lookAt) || r.takeLook() {
			if events := r.lookAgain(ctx); len(events) > 0 {
				return events, nil
			}
			continue
		}
		if !now.Before(until) {
			return nil, nil
		}
		if err := r.sleep(ctx, until); err != nil {
			return nil, err
		}
	}

	if r.failure != nil {
		return nil, r.failure
	}
	return nil, io.EOF
}

// takeReceived returns the received events that directly follow the reader's position. If there is
// a gap, it keeps the messages after the gap in the buffer. A message that cannot be decoded causes
// a read of the log.
func (r *Reader) takeReceived() []domain.Event {
	r.mu.Lock()
	messages := r.receive
	r.receive, r.bytes = nil, 0
	r.mu.Unlock()

	var out []domain.Event
	for i, message := range messages {
		events, gap, err := r.position.receive(message)
		if err != nil {
			r.hub.log.Error().Err(err).Str("run_id", r.runID).Msg("cannot decode an event message; reading the event log instead")
			r.lookAt = time.Time{}
		}
		if gap {
			r.unread(messages[i:])
			if !r.gap { // after a new gap, the log is read immediately, and then with increasing pauses
				r.gap, r.wait, r.lookAt = true, 0, time.Time{}
			}
			return out
		}
		out = append(out, events...)
	}

	// No event was missing. The last event may be the end of the run.
	r.gap = false
	r.ended = len(out) > 0 && out[len(out)-1].Last()
	return out
}

// unread inserts messages at the front of the buffer. The caller has taken these messages before.
func (r *Reader) unread(messages [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receive = append(slices.Clip(messages), r.receive...)
	for _, m := range messages {
		r.bytes += len(m) + perMessage
	}
}

// takeLook reports whether the log must be read, and clears the field look.
func (r *Reader) takeLook() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	look := r.look
	r.look = false
	return look
}

// lookAgain reads the log again during a stream. If the read fails, or if missing events are still
// not stored, it schedules another read. After a coded error other than unavailable, the reader
// ends with that error.
func (r *Reader) lookAgain(ctx context.Context) []domain.Event {
	r.takeLook() // clears look before the read, so that a request that arrives during this read causes another read
	events, err := r.read(ctx)
	switch coded := (*apierr.Error)(nil); {
	case errors.As(err, &coded) && coded.Code != apierr.Unavailable:
		r.ended, r.failure = true, err // the run was erased or has expired
	case err != nil, len(events) == 0 && r.gap:
		r.lookLater()
	default:
		r.gap, r.wait = false, 0 // the read has succeeded; if events are still missing, the next message shows that
		r.lookAt = time.Now().Add(r.idle())
	}
	return events
}

// lookLater schedules the next read after a failed read, or while events are missing. The pause
// doubles each time, up to longestGap.
func (r *Reader) lookLater() {
	r.wait = min(max(2*r.wait, shortestGap), longestGap)
	r.lookAt = time.Now().Add(r.wait)
}

// idle returns the time without events after which the log is read.
func (r *Reader) idle() time.Duration {
	if r.hub.bus.Connected() {
		return idleLook
	}
	return unreachableLook
}

// request returns the request that reads the part of the log after the reader's position.
func (r *Reader) request() executiondb.EventLogRequest {
	last := r.position.last
	return executiondb.EventLogRequest{
		RunID: r.runID, OrganizationID: r.org,
		AfterFence: last.Fence, AfterN: min(last.N, math.MaxInt32), // limited to an int32, because a client may send any number
	}
}

// read reads the stored log. It returns the events that are new to the reader. It sets r.ended if
// the log is complete.
func (r *Reader) read(ctx context.Context) ([]domain.Event, error) {
	request := r.request()
	log, err := r.hub.reads.Do(ctx, request)
	for err == nil && log != nil && log.Deferred { // the batch had no room for this log, but a later batch may have
		log, err = r.hub.reads.Do(ctx, request)
	}
	switch {
	case err != nil:
		return nil, err
	case log == nil:
		return nil, r.gone(ctx)
	}

	// The log contains all checkpointed events. If the run has finished, it also contains the last
	// event.
	events, err := eventsFor(log)
	if err != nil {
		return nil, err
	}
	r.ended = log.EndFence != 0
	return r.position.logged(events), nil
}

// gone returns the error that explains why the run's log no longer exists. The error is erased or
// not_found.
func (r *Reader) gone(ctx context.Context) error {
	if _, err := r.hub.logs.EventLogBytes(ctx, r.request()); err != nil {
		return err
	}
	return pg.NotFound()
}

// sleep waits for a message, for the next read of the log, or for the given time. Thousands of
// goroutines wait in this function, so their stacks must be small here. sleep returns nil when
// there is something to do, and also when the time is over.
func (r *Reader) sleep(ctx context.Context, until time.Time) error {
	if r.drained() { // this reader was opened after the hub was drained, so it will not be woken
		return ErrDrained
	}
	r.arm(until)
	select {
	case <-r.wake:
	case <-r.timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.drained() {
		return ErrDrained
	}
	return nil
}

// drained reports whether the reader must end because the hub drains.
func (r *Reader) drained() bool { return !r.lasts && r.hub.drained.Load() }

// arm sets the timer to the next read of the log or to the given time, whichever is earlier. The
// timer is reused, because a reader sleeps often.
func (r *Reader) arm(until time.Time) {
	if r.lookAt.Before(until) {
		until = r.lookAt
	}
	if r.timer == nil {
		r.timer = time.NewTimer(time.Until(until))
		return
	}
	r.timer.Reset(time.Until(until))
}
