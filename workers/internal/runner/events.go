package runner

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/workers/internal/agentloop"
)

const (
	// checkpointEvery is the time between two checkpoints of a run's events. A worker's runs are
	// divided into phases. All runs of a phase are saved at the same moments, so that a few
	// statements save them all. With a single phase, these statements would delay other work.
	checkpointEvery  = 250 * time.Millisecond
	checkpointPhases = 10

	// checkpointAge is the minimum age of a checkpoint's first event. A run that finishes earlier
	// needs no checkpoint. A new subscriber misses at most the events of the last checkpointAge
	// plus checkpointEvery.
	checkpointAge = 200 * time.Millisecond
)

// maxPiece is the size in bytes from which text is published without waiting for more.
const maxPiece = 4 << 10

// eventWriter publishes an attempt's events and saves them in checkpoints. Pieces of the answer
// that arrive within paceWindow may become one event. All other events are published immediately.
// Only the attempt's goroutine adds events. Timers publish pieces that have waited, and write the
// checkpoints.
//
// Each event has a number, which increases within the attempt. Together with the fence, it
// identifies the event in the log of the run. Subscribers that connect later read the saved events
// from the database and receive the other events from the bus.
type eventWriter struct {
	held lease.Held

	epoch   time.Time // checkpoints are written at multiples of checkpointEvery after this time
	publish func(runID string, chunk domain.EventChunk)
	pace    *pace
	// save returns held = false if the run no longer belongs to this attempt.
	save  func(context.Context, executiondb.Checkpoint) (held bool, err error)
	taken func() // called when the run no longer belongs to this attempt
	log   zerolog.Logger

	mu      sync.Mutex
	text    []byte        // pieces of the answer that are not yet published
	next    int           // number of the next event
	first   int           // number of the first event that is not yet saved
	lines   []byte        // events that are not yet saved
	timer   *time.Timer   // runs while there are unsaved events
	writing chan struct{} // closed when the current checkpoint has been written; nil if none is being written
	closed  bool          // no further checkpoint may begin
}

// begin publishes that the run has started. It must be called first. The start event of a first
// attempt is not saved, because readers derive it from the run's row.
func (t *eventWriter) begin(startedAt domain.Time) {
	t.next, t.first = 1, 1
	if t.held.Fence != domain.StartedID.Fence {
		return // the method restarted publishes the start of a later attempt, once the number of recorded steps is known
	}

	// The start event has number 1, although it is not saved.
	t.next, t.first = 2, 2
	started := domain.StartedEvent(startedAt)
	t.publish(t.held.RunID, domain.EventChunk{
		Fence: started.ID.Fence, First: started.ID.N, Lines: domain.AppendEventLine(nil, started.Type, started.Data),
	})
}

// restarted publishes that the run continues after the given number of recorded steps. Clients then
// discard the events of earlier attempts.
func (t *eventWriter) restarted(afterStep int) {
	if t.held.Fence != domain.StartedID.Fence {
		t.write(domain.EventRunRestarted, domain.RestartedData(afterStep))
	}
}

// loop publishes an event that the agent loop reports. It never blocks, except for the lock. An
// event that cannot be encoded is logged and dropped.
func (t *eventWriter) loop(e agentloop.Event) {
	var data []byte
	var err error

	// Replayed events are published too, because clients have discarded those of earlier attempts.
	switch e.Type {
	case agentloop.EventDelta:
		t.piece(e.Text)
		return
	case agentloop.EventToolStarted, agentloop.EventToolCompleted:
		data, err = json.Marshal(struct {
			ToolCall *domain.ToolCall `json:"toolCall"`
		}{e.Tool})
	case agentloop.EventOutput:
		data, err = json.Marshal(struct {
			Data json.RawMessage `json:"data"`
		}{e.Data})
	case agentloop.EventCitation:
		data, err = json.Marshal(struct {
			Citation *domain.Citation `json:"citation"`
		}{e.Citation})
	default:
		return
	}

	if err != nil {
		t.log.Error().Err(err).Str("type", e.Type).Msg("cannot encode event")
		return
	}
	t.write(e.Type, data)
}

// piece publishes a piece of the answer, immediately or at the end of the current paceWindow. An
// empty piece is ignored.
func (t *eventWriter) piece(text string) {
	if text == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()

	// If older text is already waiting, both texts are published together at the end of the window.
	// A long text is published at once, to bound the size of an event.
	waits := len(t.text) > 0
	t.text = append(t.text, text...)
	if len(t.text) >= maxPiece || !waits && t.pace.admit(t) {
		t.writeText()
	}
}

// flush publishes the waiting pieces of the answer.
func (t *eventWriter) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writeText()
}

// writeText publishes the waiting pieces of the answer as one event. The caller must hold t.mu.
func (t *eventWriter) writeText() {
	if len(t.text) == 0 {
		return
	}
	data, err := domain.DeltaData(string(t.text))
	t.text = t.text[:0]
	if err != nil {
		t.log.Error().Err(err).Str("type", domain.EventMessageDelta).Msg("cannot encode event")
		return
	}
	t.append(domain.EventMessageDelta, data)
}

// write publishes an event that is not a piece of the answer, after the waiting pieces.
func (t *eventWriter) write(kind string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writeText()
	t.append(kind, data)
}

// append appends an event to the unsaved ones, publishes it and starts the checkpoint timer. The
// caller must hold t.mu.
func (t *eventWriter) append(kind string, data []byte) {
	// Publish while holding the lock: the chunk shares the memory of t.lines, which a checkpoint
	// overwrites.
	from := len(t.lines)
	t.lines = domain.AppendEventLine(t.lines, kind, data)
	t.publish(t.held.RunID, domain.EventChunk{Fence: t.held.Fence, First: t.next, Lines: t.lines[from:]})
	t.next++

	// Start the timer with the first unsaved event, unless a checkpoint is being written. When that
	// checkpoint is done, it starts the timer for the next checkpoint.
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(t.untilCheckpoint(), t.checkpoint)
	case from == 0 && t.writing == nil:
		t.timer.Reset(t.untilCheckpoint())
	}
}

// untilCheckpoint returns the time until the checkpoint of an event that is added now.
func (t *eventWriter) untilCheckpoint() time.Duration {
	wait := checkpointEvery - time.Since(t.epoch)%checkpointEvery
	if wait < checkpointAge {
		wait += checkpointEvery
	}
	return wait
}

// checkpoint saves the unsaved events. If the write fails, the events are part of the next
// checkpoint. checkpoint runs in the goroutine of the timer. If the run no longer belongs to this
// attempt, checkpoint calls taken, which ends the attempt.
func (t *eventWriter) checkpoint() {
	t.mu.Lock()
	if t.closed || t.writing != nil || len(t.lines) == 0 {
		t.mu.Unlock()
		return
	}
	// Save a copy of the events without holding the lock, so that the attempt can add events
	// meanwhile.
	chunk, written := t.chunk(), len(t.lines)
	done := make(chan struct{})
	t.writing = done
	t.mu.Unlock()

	// Do not use the attempt's context: a checkpoint that has begun is completed.
	held, err := t.save(context.Background(), executiondb.Checkpoint{Held: t.held, Chunk: chunk})

	t.mu.Lock()
	defer t.mu.Unlock()
	// If the write failed, keep the events in lines. It is harmless to save them twice.
	if err == nil {
		t.lines = append(t.lines[:0], t.lines[written:]...)
		t.first = chunk.LastN + 1
	}
	t.writing = nil
	close(done)

	switch {
	case err == nil && !held:
		t.taken()
	case len(t.lines) > 0 && !t.closed:
		t.timer.Reset(t.untilCheckpoint())
	}
}

// chunk returns the unsaved events. The caller must hold t.mu.
func (t *eventWriter) chunk() executiondb.Chunk {
	if t.next == t.first {
		return executiondb.Chunk{}
	}
	return executiondb.Chunk{FirstN: t.first, LastN: t.next - 1, Events: string(t.lines)}
}

// close publishes the waiting pieces and stops the checkpoint timer. It does not wait for a
// checkpoint that is being written: the fence decides whether that write takes effect.
func (t *eventWriter) close() {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.writeText()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// closeAndWait closes the writer and waits until no checkpoint is being written, or until ctx ends.
// Unless ctx ends first, no checkpoint saves the events that the method rest returns afterwards.
func (t *eventWriter) closeAndWait(ctx context.Context) {
	t.close()
	t.mu.Lock()
	writing := t.writing
	t.mu.Unlock()
	if writing == nil {
		return
	}
	select {
	case <-writing:
	case <-ctx.Done():
	}
}

// rest returns the events to save with the run's result, and the number of the final event. If a
// first attempt published its whole answer as one delta event, rest returns no events, because
// readers derive that event from the result.
func (t *eventWriter) rest(run domain.Run) (events executiondb.Chunk, endN int) {
	t.mu.Lock()
	defer t.mu.Unlock()

	// alone is true if the only unsaved event after the start event is the delta, and no checkpoint
	// has saved an event.
	alone := t.held.Fence == domain.StartedID.Fence && t.first == 2 && t.next == 3
	if alone && run.Status == domain.RunCompleted && isAnswer(t.lines, *run.Message) {
		return executiondb.Chunk{}, t.next
	}

	// The final event is not in the chunk; only its number is stored.
	return t.chunk(), t.next
}

// isAnswer reports whether lines contains exactly one delta event, with the whole answer.
func isAnswer(lines []byte, answer string) bool {
	data, err := domain.DeltaData(answer)
	return err == nil && answer != "" && string(lines) == string(domain.AppendEventLine(nil, domain.EventMessageDelta, data))
}

// forget drops the unsaved events. Their numbers are not reused.
func (t *eventWriter) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.first = nil, t.next
}

// newEventWriter returns the event writer of an attempt. The argument taken is called when the run
// no longer belongs to the attempt.
func (r *Runner) newEventWriter(a *attempt, taken func()) *eventWriter {
	phase := time.Duration(rand.N(checkpointPhases)) * checkpointEvery / checkpointPhases //nolint:gosec // it only spreads work

	// A random phase spreads the checkpoints of a worker's runs over time.
	t := &eventWriter{held: a.claim.Held(), epoch: r.epoch.Add(-phase), publish: r.bus.Events, pace: &r.pace, taken: taken, log: a.log}
	var alone bool
	t.save = func(ctx context.Context, c executiondb.Checkpoint) (held bool, err error) {
		answer, err := r.events.Do(ctx, checkpoint{Checkpoint: c, alone: alone})
		alone = err != nil // the batch may have failed because it was too large, so retry each checkpoint separately
		switch {
		case err != nil:
			return false, err
		case errors.Is(answer, errTaken):
			return false, nil
		}
		return true, answer
	}
	t.begin(domain.At(a.claim.StartedAt))
	return t
}

// checkpoint is a request to save the events of one run.
type checkpoint struct {
	executiondb.Checkpoint

	alone bool // true if the checkpoint must be saved in a batch of its own
}

// size returns the number of bytes that count toward a batch's byte limit.
func (c checkpoint) size() int {
	if c.alone {
		return executiondb.MaxBatchBytes
	}
	return c.Size()
}

// saveEvents saves one batch of checkpoints. For each checkpoint it returns nil, errTaken, or the
// reason why the write must be retried. An error of the whole batch means that nothing was saved.
func (r *Runner) saveEvents(ctx context.Context, checkpoints []checkpoint) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()

	// A batch contains at most one checkpoint of a run, so the results are found by the run's id.
	chunks := make([]executiondb.Checkpoint, len(checkpoints))
	for i, c := range checkpoints {
		chunks[i] = c.Checkpoint
	}

	done, err := r.records.SaveEvents(ctx, chunks)
	if err != nil {
		r.log.Warn().Err(err).Int("runs", len(checkpoints)).Msg("cannot save events, retrying")
		return nil, err
	}

	out := make([]error, len(checkpoints))
	for i, c := range checkpoints {
		switch cause := done.Rejected[c.RunID]; {
		case cause != nil: // events that could not be stored are not retried, because subscribers have received them
			r.log.Error().Err(cause).Str("run_id", c.RunID).Msg("cannot store events; the run continues without them")
		case done.Locked[c.RunID]:
			out[i] = pg.ErrLocked
		case !done.Saved[c.RunID]:
			out[i] = errTaken
		}
	}
	return out, nil
}
