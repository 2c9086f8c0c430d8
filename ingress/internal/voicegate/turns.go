package voicegate

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/contain"
	"parley/shared/domain"
)

const followFor = time.Minute // maximum duration of one wait for a run's events, after which another wait begins

// firstSave is the time limit for the first attempt to store how much of an answer was played.
const firstSave = 2 * time.Second

// savePauses are the pauses between attempts to store how much of an answer was played.
var savePauses = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}

// news reports a change of a turn's run. Its events belong to the reader of the run, so the
// receiver must signal that it no longer uses them. Exactly one of runID, err, events and cut is
// set.
type news struct {
	// Name of the answer.
	answer string
	runID  string // id of the run that was started
	err    error  // why the run was refused
	// Events of the run, in order.
	events []domain.Event
	cut    bool // whether the stream of events was lost
	// Gets a value when the owner has handled the news; nil: no one waits.
	done chan<- struct{}
}

// turns performs the actions of a connection on runs (jobs), one after another. It also follows the
// runs that it has started. One goroutine runs the method work, which performs the jobs. Each
// followed run has a goroutine of its own.
type turns struct {
	// Interface to the client's runs.
	runs Runs
	log  zerolog.Logger
	may  time.Duration // maximum duration of a job
	// News for the owner.
	news chan news
	did  chan struct{}   // signals that a job is done
	over <-chan struct{} // closed when the owner no longer receives news

	mu sync.Mutex
	// Jobs in order, without the current job.
	jobs    []func(context.Context)
	closed  bool          // whether no further jobs follow
	more    chan struct{} // signals a new job, or that the queue was closed
	pending int           // number of jobs that are not done, including the current one

	following map[string]context.CancelFunc // functions that stop following a run, by answer; used only by the goroutine of the jobs
	// Goroutines that follow runs.
	followers sync.WaitGroup
}

// newTurns returns a queue without jobs. The parameter may is the maximum duration of a job. After
// the channel over is closed, the queue sends no more news.
func newTurns(runs Runs, log zerolog.Logger, may time.Duration, over <-chan struct{}) *turns {
	return &turns{
		runs: runs, log: log, may: may, news: make(chan news), did: make(chan struct{}, 1), over: over,
		more: make(chan struct{}, 1), following: map[string]context.CancelFunc{},
	}
}

// waiting returns the number of jobs that are not done. The owner pauses reading from the client
// while the number is large.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending
}

// begin queues a job that starts the run of a turn. It returns at once; the result arrives as news.
func (t *turns) begin(turn realtime.Turn) {
	t.add(func(ctx context.Context) { t.start(ctx, turn) })
}

// end queues a job that ends a turn. The job runs after the job that starts the turn's run. Errors
// of the queued job are only logged, because the client can do nothing about them.
func (t *turns) end(ended realtime.Ended) {
	t.add(func(ctx context.Context) { t.finalize(ctx, ended) })
}

// add queues a job. It never blocks. The queue is limited by the owner, which stops reading from
// the client.
func (t *turns) add(job func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, job)
	t.pending++
	rouse(t.more)
}

// close makes the method work return as soon as the queue is empty. Jobs that are already queued
// are still performed. No job may be added afterwards.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	rouse(t.more)
}

// next takes the first job of the queue. closed is true if the queue is empty and no further jobs
// follow.
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

// work performs jobs until the queue is closed and empty. It then stops following runs. It is
// called once. ctx is the context of the jobs; after its end, jobs fail quickly. work returns when
// no goroutine of the queue is left.
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

// safely calls the function do and converts a panic to an error, because a panic would end the
// process with all its connections. The error is then contain.ErrPanic.
func (t *turns) safely(do func() error) (err error) {
	defer contain.Panic(&err, &t.log, "a turn panicked")
	return do()
}

// start starts the run of a turn and begins to follow it. It reports the id of the run to the
// owner, or the error if the run was refused. The run continues if the connection has ended in the
// meantime.
func (t *turns) start(ctx context.Context, turn realtime.Turn) {
	// Jobs run one after another, so a job that never ends would delay all later jobs and the end
	// of the connection.
	within, cancel := context.WithTimeout(ctx, t.may)
	defer cancel()
	var run Run
	err := t.safely(func() (err error) {
		run, err = t.runs.Begin(within, turn)
		return err
	})
	if err != nil {
		t.send(news{answer: turn.Answer, err: err})
		return
	}
	if !t.send(news{answer: turn.Answer, runID: run.ID()}) { // without a receiver, the run continues as part of the session
		run.Close()
		return
	}
	follow, stop := context.WithCancel(ctx)
	t.following[turn.Answer] = stop
	t.followers.Go(func() { t.follow(follow, turn.Answer, run) })
}

// follow reports the events of a run to the owner until the run ends or its events are no longer
// needed. It closes the run. An unexpected end of the events is reported with cut. A run whose
// events end normally is reported with cut as well, which then has no effect.
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
				t.log.Debug().Err(err).Str("run_id", run.ID()).Msg("cannot read further events of a voice turn's run")
			}
			t.sendAndWait(ctx, news{answer: answer, cut: true, done: done}, done)
			return
		}
	}
}

// finalize stores how much of a turn's answer was played, and cancels the turn's run. It may be called
// after the connection has ended. It stops following the run first, so the owner gets no further
// events of the run. It logs errors instead of returning them. Each action is attempted even if the
// other fails, and has its own time limit.
func (t *turns) finalize(ctx context.Context, ended realtime.Ended) {
	if stop := t.following[ended.Answer]; stop != nil {
		stop()
		delete(t.following, ended.Answer)
	}

	// The first attempt to store the playback comes before the cancellation, which otherwise stores the
	// text that the model has written. Further attempts come later, so that they do not delay it.
	var unsaved error
	if ended.Heard != nil {
		unsaved = t.within(ctx, firstSave, func(ctx context.Context) error { return t.runs.SavePlayback(ctx, ended.RunID, *ended.Heard) })
	}
	if ended.Cancel {
		if err := t.within(ctx, t.may, func(ctx context.Context) error { return t.runs.Cancel(ctx, ended.RunID) }); err != nil {
			t.log.Warn().Err(err).Str("run_id", ended.RunID).Msg("cannot cancel a voice turn's run")
		}
	}
	if unsaved != nil && (transient(unsaved) || errors.Is(unsaved, context.DeadlineExceeded)) {
		unsaved = t.within(ctx, t.may, func(ctx context.Context) error { return t.save(ctx, ended.RunID, *ended.Heard) })
	}
	if unsaved != nil {
		t.log.Warn().Err(unsaved).Str("run_id", ended.RunID).Msg("cannot store the playback offset of a voice turn")
	}
}

// within calls do with a context that ends after the given time. A panic of do is an error.
func (t *turns) within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.safely(func() error { return do(ctx) })
}

// save stores how much of an answer was played. It retries while the database is unreachable,
// because the value is stored nowhere else. It does not retry if the database rejects the value. It
// makes at most four attempts. The wait ends with ctx.
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

// transient reports whether a retry may succeed. A panic is not transient, because it would happen
// again. Errors of the database are transient.
func transient(err error) bool {
	switch apierr.CodeFor(err) {
	case apierr.Internal, apierr.Unavailable, apierr.Overloaded: // an error without a code is treated as internal
		return !errors.Is(err, contain.ErrPanic)
	default:
		return false
	}
}

// send sends news to the owner. It returns false if the owner no longer receives any. It blocks
// while the owner is busy.
func (t *turns) send(n news) bool {
	select {
	case t.news <- n:
		return true
	case <-t.over:
		return false
	}
}

// sendAndWait sends news of a followed run to the owner, and waits until the owner has handled it.
// It returns false if the owner no longer receives news, or if ctx has ended before the news was
// sent.
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
	case <-t.over: // the owner no longer uses the events, because it has ended
		return false
	}
}
