package voicegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/domain"
)

var errPanic = errors.New("a turn panicked")

const followFor = time.Minute // a wait for a run's events; then the next one

// savePauses are the pauses between attempts to keep what was heard.
var savePauses = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}

// news is what became of a turn. The events are the run's reader's: whoever takes news of a run says when they are done with.
type news struct {
	answer string
	runID  string // it was begun
	err    error  // it was not
	events []domain.Event
	cut    bool // no more can be told
	done   chan<- struct{}
}

// turns carries out, one after the other, what is to be done with runs, and follows those that were begun.
type turns struct {
	runs Runs
	log  zerolog.Logger
	may  time.Duration
	news chan news
	did  chan struct{}   // a job was done
	over <-chan struct{} // nobody takes news any more

	mu      sync.Mutex
	jobs    []func(context.Context)
	closed  bool
	more    chan struct{}
	pending int // jobs, the one under way included

	following map[string]context.CancelFunc // by answer; of the one goroutine that does the jobs
	followers sync.WaitGroup
}

func newTurns(runs Runs, log zerolog.Logger, may time.Duration, over <-chan struct{}) *turns {
	return &turns{
		runs: runs, log: log, may: may, news: make(chan news), did: make(chan struct{}, 1), over: over,
		more: make(chan struct{}, 1), following: map[string]context.CancelFunc{},
	}
}

// waiting is how many jobs are not done yet.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending
}

// begin has a turn's run begun.
func (t *turns) begin(turn realtime.Turn) {
	t.add(func(ctx context.Context) { t.start(ctx, turn) })
}

// end has done what is left to do of a turn: behind its begin, which may be under way or not have been looked at.
func (t *turns) end(ended realtime.Ended) {
	t.add(func(ctx context.Context) { t.settle(ctx, ended) })
}

func (t *turns) add(job func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, job)
	t.pending++
	rouse(t.more)
}

// close says that no more comes. What was there is still done.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	rouse(t.more)
}

func (t *turns) next() (job func(context.Context), closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return nil, t.closed
	}
	job = t.jobs[0]
	t.jobs[0] = nil
	t.jobs = t.jobs[1:]
	return job, false
}

// work does the jobs until there will be no more, and ends what it follows.
func (t *turns) work(ctx context.Context) {
	defer t.followers.Wait()
	defer func() {
		for _, stop := range t.following {
			stop()
		}
	}()
	for {
		job, closed := t.next()
		switch {
		case job != nil:
			job(ctx)
			t.mu.Lock()
			t.pending--
			t.mu.Unlock()
			rouse(t.did)
		case closed:
			return
		default:
			<-t.more
		}
	}
}

// safely makes a panic an error: conversations of others are in the same process.
func (t *turns) safely(do func() error) (err error) {
	defer t.contain(&err)
	return do()
}

func (t *turns) contain(err *error) {
	if cause := recover(); cause != nil {
		// The cause may quote what was said; the stack says where.
		t.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("a turn panicked")
		*err = errPanic
	}
}

func (t *turns) start(ctx context.Context, turn realtime.Turn) {
	within, cancel := context.WithTimeout(ctx, t.may)
	defer cancel()
	var run Run
	err := t.safely(func() (err error) {
		run, err = t.runs.Begin(within, turn)
		return err
	})
	if err != nil {
		t.tell(news{answer: turn.Answer, err: err})
		return
	}
	if !t.tell(news{answer: turn.Answer, runID: run.ID()}) { // it goes on, for the session
		run.Close()
		return
	}
	follow, stop := context.WithCancel(ctx)
	t.following[turn.Answer] = stop
	t.followers.Go(func() { t.follow(follow, turn.Answer, run) })
}

// follow tells a run's events until its end, or until nobody wants to know.
func (t *turns) follow(ctx context.Context, answer string, run Run) {
	defer run.Close()
	done := make(chan struct{}, 1)
	for {
		events, err := run.Next(ctx, time.Now().Add(followFor))
		if ctx.Err() != nil {
			return
		}
		if len(events) > 0 {
			if !t.tellFor(ctx, news{answer: answer, events: events, done: done}, done) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.log.Debug().Err(err).Str("run_id", run.ID()).Msg("a voice turn's run can be followed no further")
			}
			t.tellFor(ctx, news{answer: answer, cut: true, done: done}, done)
			return
		}
	}
}

// settle cancels a turn's run, and keeps what was heard of it. A connection's end does not keep it from that.
func (t *turns) settle(ctx context.Context, ended realtime.Ended) {
	if stop := t.following[ended.Answer]; stop != nil {
		stop()
		delete(t.following, ended.Answer)
	}
	within, cancel := context.WithTimeout(ctx, t.may)
	defer cancel()
	if ended.Cancel {
		if err := t.safely(func() error { return t.runs.Cancel(within, ended.RunID) }); err != nil {
			t.log.Warn().Err(err).Str("run_id", ended.RunID).Msg("cannot cancel a voice turn's run")
		}
	}
	if ended.Heard != nil {
		if err := t.save(within, ended.RunID, *ended.Heard); err != nil {
			t.log.Warn().Err(err).Str("run_id", ended.RunID).Msg("cannot keep what was heard of a voice turn")
		}
	}
}

// save keeps what was heard, again after a pause when that fails: the database may be away for a moment, and nothing else has it.
// What is refused is refused for good.
func (t *turns) save(ctx context.Context, runID string, heard domain.Heard) error {
	for _, pause := range savePauses {
		err := t.safely(func() error { return t.runs.SaveHeard(ctx, runID, heard) })
		if err == nil || !transient(err) {
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
	return t.safely(func() error { return t.runs.SaveHeard(ctx, runID, heard) })
}

func transient(err error) bool {
	switch apierr.CodeFor(err) {
	case apierr.Internal, apierr.Unavailable, apierr.Overloaded: // what has no code is internal
		return !errors.Is(err, errPanic)
	default:
		return false
	}
}

func (t *turns) tell(n news) bool {
	select {
	case t.news <- n:
		return true
	case <-t.over:
		return false
	}
}

// tellFor tells of a run that is followed, and waits until it was looked at.
func (t *turns) tellFor(ctx context.Context, n news, done <-chan struct{}) bool {
	select {
	case t.news <- n:
	case <-t.over:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-done:
		return true
	case <-t.over: // the events are no longer the reader's concern, for it is closed
		return false
	}
}
