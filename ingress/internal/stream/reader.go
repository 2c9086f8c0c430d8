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
	bufferMax  = 64 << 10 // bytes received and not yet taken; if more arrive, all are dropped and the log is read instead
	perMessage = 64       // overhead of a message in bytes

	firstLook       = 300 * time.Millisecond // after opening, when earlier events have been checkpointed
	idleLook        = 5 * time.Second        // without events, the log is read again after this time
	unreachableLook = time.Second            // the same while the bus is unreachable
	shortestGap     = 100 * time.Millisecond // between reads while events are missing; doubles
	longestGap      = 2 * time.Second
)

// ErrDrained ends the readers of a stopping hub. Another process can continue from the last event.
var ErrDrained = errors.New("the service is stopping")

// Reader reads the log of one run as it grows. Only one goroutine may use it.
type Reader struct {
	hub   *Hub
	runID string
	org   string

	position position
	ready    []domain.Event // read by Start and not yet returned

	ended   bool          // the log is complete
	failure error         // why the log ended before the run; nil if it did not
	gap     bool          // events are missing before the received ones
	wait    time.Duration // between reads, during a gap or failures
	lookAt  time.Time     // when to read the log if no event arrives
	timer   *time.Timer
	lasts   bool // the reader continues when the hub drains

	// The fields below are shared with the hub's goroutine.
	mu sync.Mutex

	receive [][]byte      // messages received and not yet taken
	bytes   int           // size of receive, including perMessage for each message
	look    bool          // the log must be read
	wake    chan struct{} // signals a message, or that the log must be read
}

// hear buffers a message. A nil message, or a full buffer, makes the reader read the log.
func (r *Reader) hear(message []byte) {
	r.mu.Lock()

	// A client that reads slowly costs at most bufferMax. It gets the dropped events from the log.
	size := len(message) + perMessage
	switch {
	case message == nil:
		r.look = true
	case r.bytes > 0 && r.bytes+size > bufferMax:
		r.receive, r.bytes, r.look = nil, 0, true
	default:
		r.receive = append(r.receive, message)
		r.bytes += size
	}
	r.mu.Unlock()
	r.rouse()
}

// rouse wakes the reader if it sleeps. It never blocks, because the hub calls it for many readers.
func (r *Reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it will read the log anyway
	}
}

// RunID returns the id of the run.
func (r *Reader) RunID() string { return r.runID }

// Reserve reserves memory for bytes of a log before they are read. If it fails, the log is not
// read.
type Reserve func(bytes int) error

// Start reads the log of an organization's run for the first time, after reserving memory for it.
// It returns the coded error not_found if the run does not exist, and erased if it was erased.
func (r *Reader) Start(ctx context.Context, org string, last domain.EventID, reserve Reserve) error {
	r.org, r.position.last = org, last

	// The size is requested first, because a log may have many megabytes.
	bytes, err := r.hub.logs.EventLogBytes(ctx, r.request())
	if err != nil {
		return refusal(err)
	}

	// Small logs need no reservation.
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

// Begin replaces Start for a run that was just accepted. The log begins with the events implied by
// run; later events are received, or read when possible. Begin cannot fail, so the caller gets the
// run's id even while the database is unreachable.
func (r *Reader) Begin(run *rundb.StoredRun, last domain.EventID) {
	r.org, r.position.last = run.OrganizationID, last
	r.lookAt = time.Now().Add(firstLook)
	events, err := eventsFor(&executiondb.EventLog{Run: *run})
	if err != nil {
		r.hub.log.Error().Err(err).Str("run_id", r.runID).Msg("cannot start the event log of a new run; reading it instead")
		r.lookAt = time.Time{}
		return
	}
	r.ready = r.position.logged(events)
}

// AtEnd reports, before the first Next, whether the run has finished and its log has no event after
// last.
func (r *Reader) AtEnd(last domain.EventID) bool {
	n := len(r.ready)
	return r.ended && (n == 0 || !r.ready[n-1].ID.After(last))
}

// Close ends the reader. It may be called again.
func (r *Reader) Close() {
	r.hub.unfollow(r)
	if r.timer != nil {
		r.timer.Stop()
	}
}

// Outlast lets the reader continue while its hub drains, until it is closed. It is for readers that
// finish soon in any case.
func (r *Reader) Outlast() { r.lasts = true }

// Next returns the events after those already returned. It waits for them until the given time, and
// then returns none. After the last event it returns io.EOF. If the log ends before the run, it
// returns the coded error with the reason. The events are valid until the next call.
func (r *Reader) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if events := r.ready; len(events) > 0 {
		r.ready = nil
		return events, nil
	}

	// Received events come first, because they cost no query. The log is read only when it is due.
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

// takeReceived returns the received events that follow the position, and keeps those after a gap.
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
			r.putBack(messages[i:])
			if !r.gap { // a new gap: read the log immediately, and later at increasing intervals
				r.gap, r.wait, r.lookAt = true, 0, time.Time{}
			}
			return out
		}
		out = append(out, events...)
	}

	// All messages followed each other. The last one may be the end of the run.
	r.gap = false
	r.ended = len(out) > 0 && out[len(out)-1].Last()
	return out
}

// putBack returns messages to the front of the buffer.
func (r *Reader) putBack(messages [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receive = append(slices.Clip(messages), r.receive...)
	for _, m := range messages {
		r.bytes += len(m) + perMessage
	}
}

// takeLook reports whether the log must be read, and clears the mark.
func (r *Reader) takeLook() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	look := r.look
	r.look = false
	return look
}

// lookAgain reads the log during a stream. A failed read is retried.
func (r *Reader) lookAgain(ctx context.Context) []domain.Event {
	r.takeLook() // clear the request first, so that a later request causes another read
	events, err := r.read(ctx)
	switch coded := (*apierr.Error)(nil); {
	case errors.As(err, &coded) && coded.Code != apierr.Unavailable:
		r.ended, r.failure = true, err // the run was erased or expired
	case err != nil, len(events) == 0 && r.gap:
		r.lookLater()
	default:
		r.gap, r.wait = false, 0 // there was progress; a remaining gap is found again
		r.lookAt = time.Now().Add(r.idle())
	}
	return events
}

// lookLater schedules the next read after a failed one. The pause doubles up to longestGap.
func (r *Reader) lookLater() {
	r.wait = min(max(2*r.wait, shortestGap), longestGap)
	r.lookAt = time.Now().Add(r.wait)
}

// idle returns the time without events after which the log is read again.
func (r *Reader) idle() time.Duration {
	if r.hub.bus.Connected() {
		return idleLook
	}
	return unreachableLook
}

// request returns the request for the log after the reader's last event.
func (r *Reader) request() executiondb.EventLogRequest {
	last := r.position.last
	return executiondb.EventLogRequest{
		RunID: r.runID, OrganizationID: r.org,
		AfterFence: last.Fence, AfterN: min(last.N, math.MaxInt32), // a client may send any number
	}
}

// read returns the new events of the stored log.
func (r *Reader) read(ctx context.Context) ([]domain.Event, error) {
	request := r.request()
	log, err := r.hub.reads.Do(ctx, request)
	for err == nil && log != nil && log.Deferred { // a later batch has room
		log, err = r.hub.reads.Do(ctx, request)
	}
	switch {
	case err != nil:
		return nil, err
	case log == nil:
		return nil, r.gone(ctx)
	}

	// The log contains everything that was checkpointed, and for a finished run the end.
	events, err := eventsFor(log)
	if err != nil {
		return nil, err
	}
	r.ended = log.EndFence != 0
	return r.position.logged(events), nil
}

// gone returns the reason why the run's log no longer exists.
func (r *Reader) gone(ctx context.Context) error {
	if _, err := r.hub.logs.EventLogBytes(ctx, r.request()); err != nil {
		return err
	}
	return pg.NotFound()
}

// sleep waits for a message, for the time to read the log, or for the caller's time. Thousands of
// goroutines wait here, so the functions that lead here have small stack frames.
func (r *Reader) sleep(ctx context.Context, until time.Time) error {
	if r.drained() { // drained before this reader was opened, so nothing wakes it
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

// drained reports whether the reader must end because its process stops.
func (r *Reader) drained() bool { return !r.lasts && r.hub.drained.Load() }

// arm sets the timer to the earlier of the next read and the caller's time. The timer is reused,
// because a reader sleeps often.
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
