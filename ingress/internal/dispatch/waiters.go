package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store"
	"parley/shared/store/rundb"
)

const (
	// pollEvery is the interval of the poll. If the reply to a request is lost, the request waits
	// for up to twice this time after its run has finished.
	pollEvery = 2 * time.Second
	maxPoll   = 1000 // maximum number of runs read in one statement
)

// waiters contains the requests of this process that wait for runs, grouped by run. It is safe for
// concurrent use.
type waiters struct {
	store *store.Store
	bus   *bus.Bus
	log   zerolog.Logger

	mu sync.Mutex
	// runs is keyed by the run's id.
	runs map[string]*watched
	due  map[string]bool // ids of the runs to read now
	wake chan struct{}   // signals that due is not empty
}

// watched is a run for which at least one request waits. The mutex of waiters protects it.
type watched struct {
	org string

	since time.Time // when the first request began to wait
	waits []*wait   // a slice and not a map, because nearly all runs have one waiting request
	stop  func()    // ends the subscription to the run's done notice; nil: no subscription
}

// wait is one request's wait for a run. The channel result is buffered, so sending to it never
// blocks. The channel receives at most one result.
type wait struct {
	runID  string
	known  string // decision for which the run waited, as far as the request knew when it began to wait; see waitsFor
	result chan *Result
}

// waitsFor returns a text that identifies the decision for which a run waits, or "" if it waits for
// none.
func waitsFor(run domain.Run) string {
	if run.RequiredAction == nil {
		return ""
	}
	return strings.Join(run.RequiredAction.CallIDs(), " ") + " " + run.RequiredAction.ExpiresAt.UTC().Format(time.RFC3339Nano)
}

// newWaiters returns an empty set of waits. The poll method must run, because lost replies would
// otherwise never be noticed.
func newWaiters(st *store.Store, b *bus.Bus, log zerolog.Logger) *waiters {
	return &waiters{store: st, bus: b, log: log, runs: map[string]*watched{}, due: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// add begins a wait for a run. The argument known identifies the decision for which, to the
// caller's knowledge, the run waits; see waitsFor. The caller must call remove.
func (ws *waiters) add(of rundb.RunRef, known string) *wait {
	w := &wait{runID: of.RunID, known: known, result: make(chan *Result, 1)}
	ws.mu.Lock()
	defer ws.mu.Unlock()

	// Requests that wait for the same run share one entry and one subscription.
	run := ws.runs[of.RunID]
	if run == nil {
		run = &watched{org: of.OrganizationID, since: time.Now()}
		ws.runs[of.RunID] = run
	}
	run.waits = append(run.waits, w)
	return w
}

// attach begins a wait for a run that another request has accepted. It subscribes to the run's done
// notice and then makes the poll read the run's row, so that it cannot miss the end of the run. ctx
// bounds the time for the subscription, not the wait.
func (ws *waiters) attach(ctx context.Context, of rundb.RunRef, known string) *wait {
	w, runID := ws.add(of, known), of.RunID

	// If the bus is unreachable, the poll ends the wait. The poll is slower than a notice, but
	// needs only the database.
	stop, err := ws.bus.OnDone(ctx, runID, func() { ws.look(runID) })
	if err != nil {
		ws.log.Debug().Err(err).Str("run_id", runID).Msg("cannot subscribe to notifications of finished runs, polling instead")
	} else {
		ws.keepStop(runID, stop)
	}
	ws.look(runID)
	return w
}

// keepStop stores stop, which ends a subscription to a run's done notice. If the run already has a
// subscription, or has no waits anymore, keepStop ends the new subscription.
func (ws *waiters) keepStop(runID string, stop func()) {
	ws.mu.Lock()
	run := ws.runs[runID]

	// Another request may have subscribed to the same run, or the last wait may have ended in the
	// meantime. In both cases the new subscription is not needed.
	if run != nil && run.stop == nil {
		run.stop, stop = stop, nil
	}
	ws.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// remove ends a wait. If it was the last wait for its run, remove also ends the run's subscription.
// It releases the lock first, because ending a subscription calls the bus.
func (ws *waiters) remove(w *wait) {
	ws.mu.Lock()
	run := ws.runs[w.runID]
	var stop func()
	if run != nil {
		run.waits = slices.DeleteFunc(run.waits, func(other *wait) bool { return other == w })
		if len(run.waits) == 0 {
			delete(ws.runs, w.runID)
			stop = run.stop
		}
	}
	ws.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// reply handles a worker's reply. body is the JSON run object of the finished run, which the waits
// for the run get as their result. An empty body means that the object was too large for a message
// or that the run waits for a person. In these cases the row is read.
func (ws *waiters) reply(runID string, body []byte) {
	if len(body) == 0 {
		ws.look(runID)
		return
	}

	// The waits get the JSON unparsed.
	ended := rundb.StoredRun{Run: domain.Run{ID: runID}}
	ended.SetResult(body)
	ws.resolve(ended)
}

// resolve ends the waits for a finished run. Runs without waits are ignored.
func (ws *waiters) resolve(ended rundb.StoredRun) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	run := ws.runs[ended.Run.ID]
	if run == nil {
		return
	}

	// All waits get the same Result, which can be large. Their requests do not modify it.
	ended.OrganizationID = run.org
	r := &Result{Ended: true, Run: ended}

	failpoint.Here(failpoint.AnswerBefore)
	for _, w := range run.waits {
		select {
		case w.result <- r:
		default: // the wait has ended already
		}
	}
}

// parked ends the waits for a run that waits for a person's decision. These waits get a Result
// whose field Ended is false. Waits that began when the run was already waiting for this decision
// continue.
func (ws *waiters) parked(run domain.Run) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	watched := ws.runs[run.ID]
	if watched == nil {
		return
	}

	// A request that knew this decision when it began to wait waits for the next state of the run.
	action := waitsFor(run)
	for _, w := range watched.waits {
		if w.known == action {
			continue
		}
		select {
		case w.result <- &Result{}:
		default: // the wait has ended already
		}
	}
}

// look makes the poll read the row of a run immediately. It never blocks, so callbacks of the bus
// may call it.
func (ws *waiters) look(runID string) {
	ws.mu.Lock()
	ws.due[runID] = true
	ws.mu.Unlock()
	select {
	case ws.wake <- struct{}{}:
	default: // the poll has already been woken
	}
}

// poll reads the rows of runs as soon as look has marked them. Every pollEvery, it also reads the
// rows of all runs whose first wait began more than pollEvery ago. poll returns when ctx ends.
func (ws *waiters) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ws.wake:
			ws.read(ctx, ws.takeDue(false))
		case <-ticker.C:
			ws.read(ctx, ws.takeDue(true))
		}
	}
}

// takeDue returns the runs that look has marked, and clears the marks. If all is set, it also
// returns the runs for which requests have waited for longer than pollEvery, because their replies
// may have been lost.
func (ws *waiters) takeDue(all bool) []rundb.RunRef {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var due []rundb.RunRef
	for id := range ws.due {
		if run := ws.runs[id]; run != nil {
			// A run without remaining waits is not read.
			due = append(due, rundb.RunRef{OrganizationID: run.org, RunID: id})
		}
	}

	// Omit runs whose first wait began later, because their replies may still arrive.
	if all {
		old := time.Now().Add(-pollEvery)
		for id, run := range ws.runs {
			if !ws.due[id] && run.since.Before(old) {
				due = append(due, rundb.RunRef{OrganizationID: run.org, RunID: id})
			}
		}
	}
	clear(ws.due)
	return due
}

// read reads the rows of runs, up to maxPoll in each statement. It ends the waits for runs that
// have finished or wait for a person. After a failure it leaves the rest to the next tick.
func (ws *waiters) read(ctx context.Context, due []rundb.RunRef) {
	for len(due) > 0 {
		n := min(len(due), maxPoll)
		if err := ws.readSome(ctx, due[:n]); err != nil {
			ws.log.Warn().Err(err).Msg("cannot read the runs that requests wait for, retrying")
			return // the next tick reads all these runs again
		}
		due = due[n:]
	}
}

// readSome reads the rows of at most maxPoll runs, and ends the waits for runs that have finished
// or wait for a person.
func (ws *waiters) readSome(ctx context.Context, due []rundb.RunRef) error {
	awaited, err := ws.store.Runs.AwaitedRuns(ctx, due)
	if err != nil {
		return err
	}

	for _, r := range awaited {
		if r.Ended() {
			ws.resolve(r)
		} else {
			ws.parked(r.Run)
		}
	}
	return nil
}
