package runner

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/workers/internal/agentloop"
)

// checkpointEvery is the least time between two writes of a run's events; a reader that comes anew misses no more.
const checkpointEvery = 250 * time.Millisecond

// telling is what an attempt tells of its run: each event at once to whoever watches, and gathered to the
// database. Only the attempt's goroutine tells; checkpoints are written from a timer's.
type telling struct {
	held    lease.Held
	publish func(runID string, chunk domain.EventChunk)
	save    func(context.Context, executiondb.Checkpoint) (held bool, err error)
	taken   func() // the run is no longer this attempt's
	log     zerolog.Logger

	mu     sync.Mutex
	next   int           // number of the next event
	first  int           // of the first that no checkpoint holds
	lines  []byte        // those that no checkpoint holds
	timer  *time.Timer   // runs while there are any
	saving chan struct{} // closed when the checkpoint that is being written is; nil when none is
	closed bool
}

// begin tells that an attempt has started. The first one's start is in the run's row, as far as logs go.
func (t *telling) begin(startedAt domain.Time) {
	t.next, t.first = 1, 1
	if t.held.Fence != domain.StartedID.Fence {
		return // restarted tells, once it is known from where
	}
	t.next, t.first = 2, 2
	started := domain.StartedEvent(startedAt)
	t.publish(t.held.RunID, domain.EventChunk{
		Fence: started.ID.Fence, First: started.ID.N, Lines: domain.AppendEventLine(nil, started.Type, started.Data),
	})
}

// restarted tells that the run goes on after so many recorded steps: what earlier attempts told is void.
func (t *telling) restarted(afterStep int) {
	if t.held.Fence != domain.StartedID.Fence {
		t.tell(domain.EventRunRestarted, domain.RestartedData(afterStep))
	}
}

// loop tells what the agent loop does.
func (t *telling) loop(e agentloop.Event) {
	var data []byte
	var err error
	switch e.Type {
	case agentloop.EventDelta:
		if e.Text == "" {
			return
		}
		data, err = domain.DeltaData(e.Text)
	case agentloop.EventToolStarted, agentloop.EventToolCompleted:
		data, err = json.Marshal(struct {
			ToolCall *domain.ToolCall `json:"toolCall"`
		}{e.Tool})
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
	t.tell(e.Type, data)
}

func (t *telling) tell(kind string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := len(t.lines)
	t.lines = domain.AppendEventLine(t.lines, kind, data)
	t.publish(t.held.RunID, domain.EventChunk{Fence: t.held.Fence, First: t.next, Lines: t.lines[from:]})
	t.next++
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(checkpointEvery, t.checkpoint)
	case from == 0 && t.saving == nil:
		t.timer.Reset(checkpointEvery)
	}
}

// checkpoint writes what was told and is not written. A failure leaves it to the next checkpoint.
func (t *telling) checkpoint() {
	t.mu.Lock()
	if t.closed || t.saving != nil || len(t.lines) == 0 {
		t.mu.Unlock()
		return
	}
	chunk, written := t.chunk(), len(t.lines)
	done := make(chan struct{})
	t.saving = done
	t.mu.Unlock()

	held, err := t.save(context.Background(), executiondb.Checkpoint{Held: t.held, Chunk: chunk})

	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.lines = append(t.lines[:0], t.lines[written:]...)
		t.first = chunk.LastN + 1
	}
	t.saving = nil
	close(done)
	switch {
	case err == nil && !held:
		t.taken()
	case len(t.lines) > 0 && !t.closed:
		t.timer.Reset(checkpointEvery)
	}
}

// chunk gives what was told and is not written.
func (t *telling) chunk() executiondb.Chunk {
	if t.next == t.first {
		return executiondb.Chunk{}
	}
	return executiondb.Chunk{FirstN: t.first, LastN: t.next - 1, Events: string(t.lines)}
}

// close ends the checkpoints. One that is being written is not waited for: the fence decides what becomes of it.
func (t *telling) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// settled closes and waits until no checkpoint is being written, or ctx ends.
func (t *telling) settled(ctx context.Context) {
	t.close()
	t.mu.Lock()
	saving := t.saving
	t.mu.Unlock()
	if saving == nil {
		return
	}
	select {
	case <-saving:
	case <-ctx.Done():
	}
}

// rest gives what is left to be written with the run's end, and the end's number. A first attempt that told
// nothing but its whole answer in one piece leaves nothing: readers make that of the result.
func (t *telling) rest(run domain.Run) (events executiondb.Chunk, endN int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	alone := t.held.Fence == domain.StartedID.Fence && t.first == 2 && t.next == 3
	if alone && run.Status == domain.RunCompleted && isAnswer(t.lines, *run.Message) {
		return executiondb.Chunk{}, t.next
	}
	return t.chunk(), t.next
}

func isAnswer(lines []byte, answer string) bool {
	data, err := domain.DeltaData(answer)
	return err == nil && answer != "" && string(lines) == string(domain.AppendEventLine(nil, domain.EventMessageDelta, data))
}

// forget drops what was told and is not written; the numbers remain taken.
func (t *telling) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.first = nil, t.next
}

// telling makes what an attempt tells its run's events with.
func (r *Runner) telling(a *attempt, taken func()) *telling {
	t := &telling{held: a.claim.Held(), publish: r.bus.Events, taken: taken, log: a.log}
	var alone bool
	t.save = func(ctx context.Context, c executiondb.Checkpoint) (held bool, err error) {
		answer, err := r.events.Do(ctx, checkpoint{Checkpoint: c, alone: alone})
		alone = err != nil // the batch may have been too much for the database
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

// checkpoint is a request to save events.
type checkpoint struct {
	executiondb.Checkpoint

	alone bool // it is to be saved in a batch of its own
}

// size is about what the checkpoint adds to a batch.
func (c checkpoint) size() int {
	if c.alone {
		return executiondb.MaxBatchBytes
	}
	return c.Size()
}

// saveEvents is one batch of checkpoints. It answers each with nil, errTaken, or why it is to be saved later.
func (r *Runner) saveEvents(ctx context.Context, checkpoints []checkpoint) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
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
		case cause != nil: // they are told to whoever listens, and no later checkpoint has them
			r.log.Error().Err(cause).Str("run_id", c.RunID).Msg("cannot store events; the run continues without them")
		case done.Locked[c.RunID]:
			out[i] = pg.ErrLocked
		case !done.Saved[c.RunID]:
			out[i] = errTaken
		}
	}
	return out, nil
}
