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

// errPanic is the error of a job that panicked. The client sees only that the turn failed.
var errPanic = errors.New("a turn panicked")

const followFor = time.Minute // maximum duration of one wait for a run's events; another wait follows

// savePauses are the pauses between attempts to store the playback position.
var savePauses = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}

// news is a change in a turn. The events belong to the run's reader, so the receiver signals when
// it no longer uses them.
type news struct {
	answer string
	runID  string // the run was started
	err    error  // the run was refused
	events []domain.Event
	cut    bool // the events are lost
	done   chan<- struct{}
}

// turns performs the actions on runs one after another, and follows the runs that it started.
type turns struct {
	runs Runs
	log  zerolog.Logger
	may  time.Duration // time limit of a job
	news chan news
	did  chan struct{}   // signals that a job is done
	over <-chan struct{} // closed when the owner no longer receives news

	mu      sync.Mutex
	jobs    []func(context.Context)
	closed  bool          // no more jobs are added
	more    chan struct{} // signals a new job, or closed
	pending int           // jobs, including the current one

	following map[string]context.CancelFunc // ends the following of runs, by answer; used only by the goroutine that performs the jobs
	followers sync.WaitGroup
}

// newTurns returns a turns without jobs. may is the time limit for one job. When over is closed, no
// more news is sent.
func newTurns(runs Runs, log zerolog.Logger, may time.Duration, over <-chan struct{}) *turns {
	return &turns{
		runs: runs, log: log, may: may, news: make(chan news), did: make(chan struct{}, 1), over: over,
		more: make(chan struct{}, 1), following: map[string]context.CancelFunc{},
	}
}

// waiting returns the number of pending jobs.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending
}

// begin queues the start of a turn's run.
func (t *turns) begin(turn realtime.Turn) {
	t.add(func(ctx context.Context) { t.start(ctx, turn) })
}

// end queues the end of a turn, after its start, which may be in progress or still queued.
func (t *turns) end(ended realtime.Ended) {
	t.add(func(ctx context.Context) { t.settle(ctx, ended) })
}

// add queues a job. It never blocks.
func (t *turns) add(job func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, job)
	t.pending++
	rouse(t.more)
}

// close ends the queue. Pending jobs are still performed.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	rouse(t.more)
}

// next takes the first job. closed is true if there is none and none will follow.
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

// work performs jobs until the queue has ended, and then stops following runs.
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

// safely turns a panic into an error, because the process serves other conversations.
func (t *turns) safely(do func() error) (err error) {
	defer t.contain(&err)
	return do()
}

// contain recovers from a panic and sets err. It must be deferred directly.
func (t *turns) contain(err *error) {
	if cause := recover(); cause != nil {
		// The panic value is not logged, because it may quote the conversation; the stack shows where the panic happened.
		t.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("a turn panicked")
		*err = errPanic
	}
}

// start starts a turn's run and follows it. It reports the run's id or the rejection.
func (t *turns) start(ctx context.Context, turn realtime.Turn) {
	// Jobs run one after another, so a job that hangs would delay the end of the connection.
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
	if !t.tell(news{answer: turn.Answer, runID: run.ID()}) { // the run continues for the session
		run.Close()
		return
	}
	follow, stop := context.WithCancel(ctx)
	t.following[turn.Answer] = stop
	t.followers.Go(func() { t.follow(follow, turn.Answer, run) })
}

// follow reports a run's events until the run ends or its events are no longer needed.
func (t *turns) follow(ctx context.Context, answer string, run Run) {
	defer run.Close()
	done := make(chan struct{}, 1)
	for {
		events, err := run.Next(ctx, time.Now().Add(followFor))
		if ctx.Err() != nil {
			return
		}
		if len(events) > 0 {
			if !t.sendAndWait(ctx, news{answer: answer, events: events, done: done}, done) {
				return
			}
		}

		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.log.Debug().Err(err).Str("run_id", run.ID()).Msg("cannot continue to follow the run of a voice turn")
			}
			t.sendAndWait(ctx, news{answer: answer, cut: true, done: done}, done)
			return
		}
	}
}

// settle cancels a turn's run and stores how much was played. It also works after the connection
// has ended.
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
			t.log.Warn().Err(err).Str("run_id", ended.RunID).Msg("cannot store the playback offset of a voice turn")
		}
	}
}

// save stores how much was played. It retries while the database is unreachable, because the value
// is stored nowhere else. It does not retry if the database rejects the value.
func (t *turns) save(ctx context.Context, runID string, heard domain.Playback) error {
	for _, pause := range savePauses {
		err := t.safely(func() error { return t.runs.SavePlayback(ctx, runID, heard) })
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
	return t.safely(func() error { return t.runs.SavePlayback(ctx, runID, heard) })
}

// transient reports whether a retry may succeed. A panic would happen again.
func transient(err error) bool {
	switch apierr.CodeFor(err) {
	case apierr.Internal, apierr.Unavailable, apierr.Overloaded: // errors without a code are internal
		return !errors.Is(err, errPanic)
	default:
		return false
	}
}

// tell sends news to the owner. It returns false if the owner no longer receives.
func (t *turns) tell(n news) bool {
	select {
	case t.news <- n:
		return true
	case <-t.over:
		return false
	}
}

// sendAndWait sends news of a followed run and waits until it was handled.
func (t *turns) sendAndWait(ctx context.Context, n news, done <-chan struct{}) bool {
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
	case <-t.over: // the reader is closed, so its events are not used any more
		return false
	}
}
