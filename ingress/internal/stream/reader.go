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
	bufferMax  = 64 << 10 // bytes heard and not yet taken, or one message; more is dropped, and read from the log
	perMessage = 64       // bytes that a message costs beside its own

	firstLook   = 300 * time.Millisecond // after opening: by then what was told before is checkpointed
	idleLook    = 5 * time.Second        // without news the log is read again after this time
	deafLook    = time.Second            // the same while the bus is away
	shortestGap = 100 * time.Millisecond // between reads while something is missing; doubles
	longestGap  = 2 * time.Second
)

// ErrDrained ends the readers of a hub that stops; the log can be read on elsewhere.
var ErrDrained = errors.New("the service is stopping")

// Reader reads one run's log as it grows. Only one goroutine may use it.
type Reader struct {
	hub   *Hub
	runID string
	org   string

	place  place
	ready  []domain.Event // read by Start and not yet given
	ended  bool           // the log has no more
	cut    error          // why the log ended before the run's end; nil if it did not
	gap    bool           // something is missing before what was heard
	wait   time.Duration  // between reads, while that is so or reading fails
	lookAt time.Time      // when to read the log if nothing is heard until then
	timer  *time.Timer
	lasts  bool // the hub's drain is not its end

	mu    sync.Mutex
	heard [][]byte
	bytes int
	look  bool // the log must be read
	wake  chan struct{}
}

// hear buffers a message, or drops all when there are too many; nil says that the log must be read.
func (r *Reader) hear(message []byte) {
	r.mu.Lock()
	size := len(message) + perMessage
	switch {
	case message == nil:
		r.look = true
	case r.bytes > 0 && r.bytes+size > bufferMax:
		r.heard, r.bytes, r.look = nil, 0, true
	default:
		r.heard = append(r.heard, message)
		r.bytes += size
	}
	r.mu.Unlock()
	r.rouse()
}

func (r *Reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// RunID is the run that is read.
func (r *Reader) RunID() string { return r.runID }

// Reserve makes room for so many bytes of a log before they are read. If it fails, the log is not read.
type Reserve func(bytes int) error

// Start reads the log of an organization's run for the first time, once there is room for it. A run that does not exist gives the coded
// not_found, one that was erased the coded erased.
func (r *Reader) Start(ctx context.Context, org string, last domain.EventID, reserve Reserve) error {
	r.org, r.place.last = org, last
	bytes, err := r.hub.logs.EventLogBytes(ctx, r.request())
	if err != nil {
		return refusal(err)
	}
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

// Begin takes the place of Start for a run that was accepted just now: its log begins with what the row in hand
// tells, and the rest is heard, or read as soon as that works. Nothing can fail any more: whoever asked for the run
// learns its id, however the database is.
func (r *Reader) Begin(run *rundb.StoredRun, last domain.EventID) {
	r.org, r.place.last = run.OrganizationID, last
	r.lookAt = time.Now().Add(firstLook)
	events, err := eventsFor(&executiondb.EventLog{Run: *run})
	if err != nil {
		r.hub.log.Error().Err(err).Str("run_id", r.runID).Msg("a new run's log cannot be begun; reading it")
		r.lookAt = time.Time{}
		return
	}
	r.ready = r.place.logged(events)
}

// AtEnd reports, before the first Next, whether the run has ended and its log has no event after last.
func (r *Reader) AtEnd(last domain.EventID) bool {
	n := len(r.ready)
	return r.ended && (n == 0 || !r.ready[n-1].ID.After(last))
}

// Close ends the reader; it may be called again.
func (r *Reader) Close() {
	r.hub.unfollow(r)
	if r.timer != nil {
		r.timer.Stop()
	}
}

// Outlast has the reader go on while its hub is drained, until it is closed: who reads ends by themselves, and soon.
func (r *Reader) Outlast() { r.lasts = true }

// Next gives the events that follow those given before, waiting for some until that time; none when it has come.
// Behind the log's last event the error is io.EOF. If the log ends before the run does, it is the coded error that says why. The events are
// valid until the next call.
func (r *Reader) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if events := r.ready; len(events) > 0 {
		r.ready = nil
		return events, nil
	}
	for !r.ended {
		if events := r.takeHeard(); len(events) > 0 {
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
	if r.cut != nil {
		return nil, r.cut
	}
	return nil, io.EOF
}

// takeHeard gives the events among what was heard that follow, and keeps what is behind a gap.
func (r *Reader) takeHeard() []domain.Event {
	r.mu.Lock()
	messages := r.heard
	r.heard, r.bytes = nil, 0
	r.mu.Unlock()
	var out []domain.Event
	for i, message := range messages {
		events, gap, err := r.place.heard(message)
		if err != nil {
			r.hub.log.Error().Err(err).Str("run_id", r.runID).Msg("a message of events cannot be read; reading the log")
			r.lookAt = time.Time{}
		}
		if gap {
			r.putBack(messages[i:])
			if !r.gap { // just found: read at once, and then ever less often
				r.gap, r.wait, r.lookAt = true, 0, time.Time{}
			}
			return out
		}
		out = append(out, events...)
	}
	r.gap = false
	return out
}

// putBack returns messages to the front of the buffer.
func (r *Reader) putBack(messages [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(slices.Clip(messages), r.heard...)
	for _, m := range messages {
		r.bytes += len(m) + perMessage
	}
}

func (r *Reader) takeLook() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	look := r.look
	r.look = false
	return look
}

// lookAgain reads the log in the middle of a stream. A failure is no end: it is tried again.
func (r *Reader) lookAgain(ctx context.Context) []domain.Event {
	r.takeLook() // what asks from now on asks for another read
	events, err := r.read(ctx)
	switch coded := (*apierr.Error)(nil); {
	case errors.As(err, &coded) && coded.Code != apierr.Unavailable:
		r.ended, r.cut = true, err // erased or expired meanwhile
	case err != nil, len(events) == 0 && r.gap:
		r.lookLater()
	default:
		r.gap, r.wait = false, 0 // if there still is a gap it is found anew, but there was progress
		r.lookAt = time.Now().Add(r.idle())
	}
	return events
}

func (r *Reader) lookLater() {
	r.wait = min(max(2*r.wait, shortestGap), longestGap)
	r.lookAt = time.Now().Add(r.wait)
}

func (r *Reader) idle() time.Duration {
	if r.hub.bus.Connected() {
		return idleLook
	}
	return deafLook
}

// request asks for the log behind the reader's last event.
func (r *Reader) request() executiondb.EventLogRequest {
	last := r.place.last
	return executiondb.EventLogRequest{
		RunID: r.runID, OrganizationID: r.org,
		AfterFence: last.Fence, AfterN: min(last.N, math.MaxInt32), // a caller may name any number
	}
}

// read gives the events of the stored log that are new.
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
	events, err := eventsFor(log)
	if err != nil {
		return nil, err
	}
	r.ended = log.EndFence != 0
	return r.place.logged(events), nil
}

// gone returns why there is no log of the run any more.
func (r *Reader) gone(ctx context.Context) error {
	if _, err := r.hub.logs.EventLogBytes(ctx, r.request()); err != nil {
		return err
	}
	return pg.NotFound()
}

// sleep waits for news, until the time to look or the caller's. Thousands of goroutines are parked here with the
// frames of all who called: these are kept small, so that their stacks can be.
func (r *Reader) sleep(ctx context.Context, until time.Time) error {
	if r.drained() { // before it was opened: nobody rouses it any more
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

func (r *Reader) drained() bool { return !r.lasts && r.hub.drained.Load() }

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
