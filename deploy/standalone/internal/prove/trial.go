package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/shared/lifecycle/supervise"
)

// trial sends the triggers to a service while parts of the service are killed. Its methods run and
// result are called once, in this order.
type trial struct {
	load    *load
	service *service
	ledger  *ledger
	report  *reporter

	killed  []KillRecord
	listed  []Listed
	elapsed time.Duration
}

// KillRecord describes a kill that has happened.
type KillRecord struct {
	Part     string `json:"part"`
	Kind     string `json:"kind"`
	Answered int    `json:"answered"` // number of triggers that were answered before the kill
	UnderWay int    `json:"underWay"` // number of triggers that were sent but not answered yet
	Booking  int    `json:"booking"`  // number of bookings in progress in the ledger
	DownMS   int64  `json:"downMs"`   // delay before the restart
}

// errLate is the cause with which the context is canceled at the proof's time limit.
var errLate = errors.New("the time limit was reached")

// watchPause is the interval at which the trial checks whether the next kill is due.
const watchPause = 5 * time.Millisecond

// run sends the triggers while it kills parts. Then it sends every trigger once more. A trigger
// without an answer at the time limit is a fault in the verdict and not an error.
func (t *trial) run(ctx context.Context, kills []Kill, within time.Duration) error {
	began := time.Now()
	loading, over := context.WithTimeoutCause(ctx, within, errLate)
	defer over()

	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.load.run(loading, t.service.sizes.clients)
	}()
	if err := t.killAll(loading, kills, sent); err != nil && !errors.Is(err, errLate) {
		over()
		<-sent
		return err
	}

	t.await(loading, sent)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	t.elapsed = time.Since(began)
	return t.askAgain(ctx)
}

// killAll kills parts according to the schedule. Each kill happens after a number of answers.
// killAll returns early, without an error, if no trigger is in progress any more.
func (t *trial) killAll(ctx context.Context, kills []Kill, sent <-chan struct{}) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()

	for _, s := range kills {
		p, err := t.service.of(s.Part)
		if err != nil {
			return err
		}
		for int(t.load.answered.Load()) < s.After {
			select {
			case <-tick.C:
				t.report.answered(int(t.load.answered.Load()), "")
			case <-sent: // no trigger is in progress: all were answered or rejected
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		// A worker is killed while it books, because a lost booking would be the worst fault.
		if s.Kind == kindWorker {
			t.awaitBooking(ctx)
		}
		if err := t.kill(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// bookingWait is how long the trial waits for a booking before it kills a worker. Workers that were
// killed shortly before need time to restart.
const bookingWait = 3 * time.Second

// awaitBooking waits until a booking is in progress, for at most bookingWait.
func (t *trial) awaitBooking(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, bookingWait)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for t.ledger.underWay() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// kill kills a part and records the state of the trial at that moment. It does not wait for the
// restart, so several parts can be down at the same time.
func (t *trial) kill(ctx context.Context, s Kill, p *supervise.Part) error {
	now := KillRecord{Part: s.Part, Kind: s.Kind, DownMS: s.Down.Milliseconds()}
	err := kill(ctx, p, s.Down, func() {
		now.Answered, now.UnderWay, now.Booking = int(t.load.answered.Load()), t.load.underWay(), t.ledger.underWay()
	})
	if err != nil {
		return err
	}
	t.killed = append(t.killed, now)
	t.report.killed(now)
	return nil
}

// await waits until all triggers are answered or the time limit is reached. Meanwhile it shows the
// progress.
func (t *trial) await(ctx context.Context, sent <-chan struct{}) {
	after := "waiting for the last answers"
	if slices.ContainsFunc(t.killed, func(s KillRecord) bool { return s.Kind == kindWorker }) {
		after = "runs of killed workers are taken over when their leases expire, within 30 s"
	}

	t.report.sayf("%d kills are done; %s", len(t.killed), after)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			t.report.answered(int(t.load.answered.Load()), "the last kill is done")
		case <-sent:
			t.report.answered(int(t.load.answered.Load()), "")
			return
		case <-ctx.Done():
			<-sent
			return
		}
	}
}

// askAgain sends every answered trigger once more, and then requests the list of all runs.
func (t *trial) askAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTime, errLate)
	defer cancel()

	if err := t.service.awaitAll(ctx); err != nil { // the part that was killed last may still be restarting
		return err
	}

	t.report.sayf("%d of %d triggers are answered; replaying all of them and listing runs",
		t.load.answered.Load(), len(t.load.answers))
	t.load.replay(ctx, t.service.sizes.clients)
	if ctx.Err() != nil {
		return fmt.Errorf("replaying: %w", context.Cause(ctx))
	}

	var err error
	t.listed, err = t.load.api.runs(ctx)
	return err
}

// result returns the result of the trial, with the verdict about the evidence.
func (t *trial) result() Result {
	bookings := t.ledger.bookings()
	v := judge(Evidence{Answers: t.load.answers, Bookings: bookings, Runs: t.listed, Ended: t.service.unexpectedEnds()})
	r := Result{Verdict: v, OK: v.OK(), Kills: t.killed, Killed: map[string]int{}, DurationMS: t.elapsed.Milliseconds()}
	for _, s := range t.killed {
		r.Killed[s.Kind]++
	}
	for _, b := range bookings {
		r.Repeated += b.Times - 1
	}
	r.Requests, r.Retries = t.load.counts()
	return r
}
