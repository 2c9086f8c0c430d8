package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// trial is one storm over one service.
type trial struct {
	storm   *storm
	service *service
	ledger  *ledger
	tell    *teller

	struck  []Struck
	listed  []Listed
	elapsed time.Duration
}

// Struck is a strike as it came.
type Struck struct {
	Part     string `json:"part"`
	Kind     string `json:"kind"`
	Answered int    `json:"answered"` // triggers that were answered before it
	UnderWay int    `json:"underWay"` // triggers that were sent and not answered when it came
	Booking  int    `json:"booking"`  // of these, those whose effect was being booked
	DownMS   int64  `json:"downMs"`   // how long it stayed away before it was started again
}

// errLate ends a storm whose time is over.
var errLate = errors.New("out of time")

// watchPause is how often it is looked whether the next strike is due.
const watchPause = 5 * time.Millisecond

// run sends the triggers while the strikes come, then asks for everything again. What is not answered in time is for the verdict.
func (t *trial) run(ctx context.Context, strikes []Strike, within time.Duration) error {
	began := time.Now()
	storming, over := context.WithTimeoutCause(ctx, within, errLate)
	defer over()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.storm.run(storming, t.service.sizes.clients)
	}()
	if err := t.strikeAll(storming, strikes, sent); err != nil && !errors.Is(err, errLate) {
		over()
		<-sent
		return err
	}
	t.await(storming, sent)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.elapsed = time.Since(began)
	return t.askAgain(ctx)
}

// strikeAll carries the strikes out, each when so many triggers are answered.
func (t *trial) strikeAll(ctx context.Context, strikes []Strike, sent <-chan struct{}) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for _, s := range strikes {
		p, err := t.service.of(s.Part)
		if err != nil {
			return err
		}
		for int(t.storm.answered.Load()) < s.After {
			select {
			case <-tick.C:
				t.tell.answered(int(t.storm.answered.Load()), "")
			case <-sent: // refused for good: there is nothing left to strike at
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if s.Kind == kindWorker {
			t.awaitBooking(ctx)
		}
		if err := t.strike(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// bookingWait is how long a strike at a worker waits for somebody to be booking: a worker that was struck before takes a while to be back.
const bookingWait = 3 * time.Second

// awaitBooking waits until an effect is being booked, for a while.
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

// strike kills a part; others may be killed before it is back.
func (t *trial) strike(ctx context.Context, s Strike, p *part) error {
	now := Struck{Part: s.Part, Kind: s.Kind, DownMS: s.Down.Milliseconds()}
	err := p.strike(ctx, s.Down, func() {
		now.Answered, now.UnderWay, now.Booking = int(t.storm.answered.Load()), t.storm.underWay(), t.ledger.underWay()
	})
	if err != nil {
		return err
	}
	t.struck = append(t.struck, now)
	t.tell.struck(now)
	return nil
}

// await waits until the storm is over.
func (t *trial) await(ctx context.Context, sent <-chan struct{}) {
	after := "waiting for the last answers"
	if slices.ContainsFunc(t.struck, func(s Struck) bool { return s.Kind == kindWorker }) {
		after = "runs of killed workers are taken over when their leases expire, within 30 s"
	}
	t.tell.sayf("%d kills are done; %s", len(t.struck), after)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.tell.answered(int(t.storm.answered.Load()), "all kills are done")
		case <-sent:
			t.tell.answered(int(t.storm.answered.Load()), "")
			return
		case <-ctx.Done():
			<-sent
			return
		}
	}
}

// askAgain replays every key and lists every run.
func (t *trial) askAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTime, errLate)
	defer cancel()
	for _, p := range t.service.parts { // the last one struck may be on its way back
		if _, err := p.await(ctx); err != nil {
			return err
		}
	}
	t.tell.sayf("%d of %d triggers are answered; replaying all of them and listing runs",
		t.storm.answered.Load(), len(t.storm.answers))
	t.storm.replay(ctx, t.service.sizes.clients)
	if ctx.Err() != nil {
		return fmt.Errorf("replaying: %w", context.Cause(ctx))
	}
	var err error
	t.listed, err = t.storm.api.runs(ctx)
	return err
}

// result judges.
func (t *trial) result() Result {
	bookings := t.ledger.bookings()
	v := judge(Evidence{Answers: t.storm.answers, Bookings: bookings, Runs: t.listed, Ended: t.service.endings()})
	r := Result{Verdict: v, OK: v.OK(), Kills: t.struck, Killed: map[string]int{}, DurationMS: t.elapsed.Milliseconds()}
	for _, s := range t.struck {
		r.Killed[s.Kind]++
	}
	for _, b := range bookings {
		r.Repeated += b.Times - 1
	}
	r.Requests, r.Retries = t.storm.counts()
	return r
}
