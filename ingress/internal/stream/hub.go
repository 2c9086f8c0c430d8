package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/batch"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
)

const (
	maxRead     = 128  // maximum number of logs read in one statement
	readWaiting = 8192 // maximum number of reads that wait; further reads are refused
	readTimeout = 10 * time.Second
)

// Logs reads event logs. The store implements it.
type Logs interface {
	// EventLogs returns one log for each request, in the same order. If a run does not exist, its
	// log is nil.
	EventLogs(ctx context.Context, reqs []executiondb.EventLogRequest) ([]*executiondb.EventLog, error)
	// EventLogBytes returns the size of a log in bytes, or the coded error not_found or erased.
	EventLogBytes(ctx context.Context, req executiondb.EventLogRequest) (int, error)
}

// Bus delivers the events of runs. If the subscription of a run has failed, a second call of Follow
// tries again. A single call of Unfollow ends the subscription. Package bus implements it.
type Bus interface {
	// Follow subscribes to the events of a run.
	Follow(runID string) error
	// Unfollow ends the subscription of a run.
	Unfollow(runID string)
	// Flush waits until the server knows all subscriptions.
	Flush(ctx context.Context) error
	// Connected reports whether the server is reachable.
	Connected() bool
	// Run passes each message to f until ctx ends.
	Run(ctx context.Context, f func(bus.RunMessage))
}

// Hub delivers the events of runs to their readers. It is safe for concurrent use while Run runs. A
// process uses a single hub.
type Hub struct {
	logs    Logs
	bus     Bus
	log     zerolog.Logger
	reads   *batch.Group[executiondb.EventLogRequest, *executiondb.EventLog]
	drained atomic.Bool // set by Drain before it wakes the readers

	mu   sync.Mutex
	runs map[string][]*Reader // open readers, by run
}

// New returns a hub. Its readers receive events only while Run is running.
func New(logs Logs, b Bus, log zerolog.Logger) *Hub {
	h := &Hub{logs: logs, bus: b, log: log, runs: map[string][]*Reader{}}
	h.reads = batch.New(maxRead, readWaiting, h.readLogs)
	return h
}

// Run serves readers until ctx ends. It is called once. It always returns nil.
func (h *Hub) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { h.reads.Run(ctx) })
	h.bus.Run(ctx, h.receive)
	wg.Wait()
	return nil
}

// Drain ends all readers except those for which Outlast was called. Readers that are opened later
// end as well. Drain may be called several times.
func (h *Hub) Drain() {
	h.drained.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()

	// Each reader that is woken finds that the hub drains, and returns ErrDrained.
	for _, readers := range h.runs {
		for _, r := range readers {
			r.rouse()
		}
	}
}

// readLogs reads the logs of one batch in one statement. The batches are formed by h.reads. The
// error is returned to each reader of the batch.
func (h *Hub) readLogs(ctx context.Context, reqs []executiondb.EventLogRequest) ([]*executiondb.EventLog, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	logs, err := h.logs.EventLogs(ctx, reqs)
	if err != nil { // the error is logged once, although several readers get it
		h.log.Warn().Err(err).Int("streams", len(reqs)).Msg("cannot read event logs of runs; open streams will retry")
	}
	return logs, err
}

// Follow returns a reader that receives the events of a run from now on. The caller must close the
// reader. The run need not exist yet: if a caller follows a run before it accepts the run, it
// misses no event.
func (h *Hub) Follow(runID string) *Reader {
	// If the subscription fails, the reader reads the log periodically, so that it misses nothing.
	r := &Reader{hub: h, runID: runID, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.bus.Follow(runID); err != nil {
		h.log.Debug().Err(err).Str("run_id", runID).Msg("no event subscription; polling the event log")
	}
	h.runs[runID] = append(h.runs[runID], r)
	return r
}

// Open returns a reader of an existing run. The reader returns the events after the event with the
// id last. Open returns the errors of [Reader.Start]. If it returns an error, the caller need not
// close anything. ctx is used only for the first read.
func (h *Hub) Open(ctx context.Context, org, runID string, last domain.EventID, reserve Reserve) (*Reader, error) {
	r := h.Follow(runID)

	// The subscription must begin before the log is read. Otherwise the reader would miss the
	// events in between until it reads the log again.
	if err := h.bus.Flush(ctx); err != nil {
		h.log.Debug().Err(err).Str("run_id", runID).Msg("no event subscription yet; polling the event log")
	}
	if err := r.Start(ctx, org, last, reserve); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// receive handles a message from the bus. Only one goroutine calls it. receive must not block,
// because the messages of all runs pass through it. The readers share the bytes of the message.
func (h *Hub) receive(m bus.RunMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs[m.RunID] {
		r.hear(m.Events)
	}
}

// Reads reports whether a run has an open reader. It counts only readers of this process.
func (h *Hub) Reads(runID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.runs[runID]) > 0
}

// unfollow removes a reader. When the last reader of a run is removed, the run's subscription ends.
// A second call for the same reader does nothing.
func (h *Hub) unfollow(r *Reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	readers := h.runs[r.runID]
	i := slices.Index(readers, r)
	if i < 0 {
		return
	}
	if readers = slices.Delete(readers, i, i+1); len(readers) > 0 {
		h.runs[r.runID] = readers
		return
	}
	delete(h.runs, r.runID)
	h.bus.Unfollow(r.runID)
}

// refusal returns the coded error for a service that is busy, stopping or unreachable. All other
// errors are treated as errors of the database.
func refusal(err error) error {
	switch {
	case errors.Is(err, batch.ErrFull):
		e := apierr.Wrap(apierr.Overloaded, err, "too many streams are being opened; try again shortly")
		e.RetryAfter = 2 * time.Second
		return e
	case errors.Is(err, batch.ErrStopped):
		e := apierr.Wrap(apierr.Unavailable, err, "the service is stopping; try again")
		e.RetryAfter = time.Second
		return e
	default:
		return pg.Unavailable(err)
	}
}
