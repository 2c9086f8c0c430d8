// Package sweep finds what was lost on the way: doorbells that no worker heard, runs whose
// worker died, deadlines that passed, decisions that nobody made, and results whose retention is over.
//
// Any number of workers may sweep: rows are locked with SKIP LOCKED, and a redispatch
// that two of them make is refused at the claim.
package sweep

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
)

const (
	every         = time.Second
	expireEvery   = 10 * time.Second
	limitsIdle    = 5 * time.Minute
	roundMax      = 20_000 // rows of a kind ended, requeued or released in one round: as many as a second is enough for
	batchMax      = 500    // rows pruned in one transaction
	redispatchMax = 5000   // doorbells rung again in one sweep
	dispatchMax   = 64     // waiting runs dispatched per organization in one sweep
	forgotFor     = 2 * time.Second
	checkEvery    = 2 * time.Second
	unwritableFor = 10 * time.Second // before a stream that stores nothing is made again
)

// Sweeper repairs once a second.
type Sweeper struct {
	window int
	store  *store.Store
	bus    *bus.Bus
	log    zerolog.Logger
	stream time.Time // when the stream was made that the last sweep saw

	forgotSince time.Time // zero: the stream has what its consumers remember

	unwritableSince time.Time // zero: the stream stores messages

	clock clock

	metrics *metrics
}

// New makes a sweeper; window is how many runs of one organization may be dispatched at a time.
func New(window int, st *store.Store, b *bus.Bus, log zerolog.Logger) *Sweeper {
	return &Sweeper{window: window, store: st, bus: b, log: log, metrics: newMetrics()}
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	s.log.Info().Msg("sweeper ready")
	var loops sync.WaitGroup
	loops.Go(func() { s.repeat(ctx, "sweep", every, s.sweep) })
	loops.Go(func() { s.repeat(ctx, "checking jobs", checkEvery, s.checkJobs) })
	loops.Go(func() { s.repeat(ctx, "expiry", expireEvery, s.expire) }) // by itself: it may take long and must delay nothing
	loops.Go(func() {
		_ = s.measure(ctx) // what fails now fails again, and is told then
		s.repeat(ctx, "measuring", measureEvery, s.measure)
	})
	loops.Wait()
	return nil
}

// repeat does something at intervals until ctx ends. That it fails is said once, not each time.
func (s *Sweeper) repeat(ctx context.Context, what string, every time.Duration, do func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.metrics.failed.WithLabelValues(what).Inc()
		}
		if err != nil && !failed {
			s.log.Warn().Err(err).Msg(what + " failed, retrying")
		}
		if err == nil && failed {
			s.log.Info().Msg(what + " works again")
		}
		failed = err != nil
	}
}

// sweep makes one round; each part is tried whatever became of the ones before.
func (s *Sweeper) sweep(ctx context.Context) error {
	var errs []error
	for _, part := range []func(context.Context) error{
		s.releaseCollected, s.endRuns, s.requeueLost, s.dispatchWaiting, s.ringAgain, s.endDocuments,
	} {
		errs = append(errs, part(ctx))
	}
	return errors.Join(errs...)
}

// releaseCollected makes the runs wait for a place, like others, that have collected deliveries for long enough.
func (s *Sweeper) releaseCollected(ctx context.Context) error {
	orgs, err := s.store.Queue.ReleaseCollected(ctx, roundMax)
	s.metrics.count(didCollect, len(orgs))
	s.changed(domain.ChangedRuns, orgs)
	return err
}

// endRuns ends what has passed its deadline, waited for a person for too long or cost too many workers. The places they leave are filled by
// dispatchWaiting, which comes after.
func (s *Sweeper) endRuns(ctx context.Context) error {
	var errs []error
	runs := s.store.Executions
	for _, end := range []func(context.Context, int) ([]executiondb.Ended, error){runs.EndOverdue, runs.EndUnanswered, runs.EndPoison} {
		ended, err := end(ctx, roundMax)
		s.metrics.count(didEnd, len(ended))
		for _, e := range ended {
			s.log.Warn().Str("run_id", e.RunID).Msg("run finished by the sweeper")
			s.bus.Cancelled(e.RunID)
			s.bus.Done(e.RunID, e.ReplyTo, e.Result)
			s.bus.Changed(domain.ChangedRuns, e.OrganizationID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Sweeper) requeueLost(ctx context.Context) error {
	if err := s.checkClock(ctx); err != nil {
		return err
	}
	if time.Now().Before(s.clock.grace) {
		return nil
	}
	orgs, err := s.store.Executions.RequeueLost(ctx, roundMax)
	s.metrics.count(didRequeue, len(orgs))
	if n := len(orgs); n > 0 {
		failpoint.Here(failpoint.RequeueAfter)
		s.log.Warn().Int("runs", n).Msg("leases expired; runs requeued")
	}
	s.changed(domain.ChangedRuns, orgs)
	return err
}

// endDocuments fails the documents that have cost too many workers, or that nobody could process in time.
func (s *Sweeper) endDocuments(ctx context.Context) error {
	orgs, err := s.store.Knowledge.EndDocuments(ctx, batchMax)
	s.metrics.count(didDocuments, len(orgs))
	if n := len(orgs); n > 0 {
		s.log.Warn().Int("documents", n).Msg("documents failed by the sweeper")
	}
	s.changed(domain.ChangedDocuments, orgs)
	return err
}

func (s *Sweeper) changed(kind domain.ChangeKind, orgs []string) {
	for _, org := range orgs {
		s.bus.Changed(kind, org)
	}
}

func (s *Sweeper) dispatchWaiting(ctx context.Context) error {
	next, err := s.store.Queue.DispatchWaiting(ctx, s.window, dispatchMax)
	s.metrics.count(didDispatch, len(next))
	if len(next) > 0 {
		failpoint.Here(failpoint.DispatchAfter)
	}
	s.bus.Ring(next...)
	return err
}

// ringAgain rings for dispatched runs that were not claimed in time, unless the stream shows that their
// doorbells are still on the way.
func (s *Sweeper) ringAgain(ctx context.Context) error {
	found, err := s.bus.EnsureStream(ctx)
	if err != nil {
		return err
	}
	if !s.stream.IsZero() && !found.Made.Equal(s.stream) {
		s.metrics.count(didFindStream, 1)
		s.log.Warn().Msg("the job stream was lost; recreating it and publishing all dispatched runs again")
		if err := s.store.Queue.RingAll(ctx); err != nil {
			return err
		}
	}
	if !s.stream.Equal(found.Made) { // of this release or of one before
		if err := s.bus.UpdateStream(ctx); err != nil {
			s.log.Warn().Err(err).Msg("cannot update the job stream; its old configuration stays")
		}
	}
	s.stream = found.Made
	return errors.Join(s.mend(ctx, found), s.ringOverdue(ctx))
}

// mend makes a stream anew that was found to have fewer messages than its consumers remember, and would deliver nothing for long; it is
// rung for by the next sweep. Servers of a cluster may disagree for a moment.
func (s *Sweeper) mend(ctx context.Context, found bus.Stream) error {
	if !found.Forgot {
		s.forgotSince = time.Time{}
		return nil
	}
	if s.forgotSince.IsZero() {
		s.forgotSince = time.Now()
	}
	if time.Since(s.forgotSince) < forgotFor {
		return nil
	}
	s.log.Warn().Msg("the job stream lost messages that its consumers still expect, and delivers nothing; recreating it")
	s.forgotSince = time.Time{} // and another while before the next try
	return s.bus.RemakeStream(ctx)
}

// checkJobs makes a stream again that has stored nothing for a while: after a full disk, a server refuses to write to it until then.
func (s *Sweeper) checkJobs(ctx context.Context) error {
	err := s.bus.CheckJobs(ctx)
	if !errors.Is(err, bus.ErrNotStored) {
		s.unwritableSince = time.Time{}
		return err
	}
	if s.unwritableSince.IsZero() {
		s.unwritableSince = time.Now()
	}
	if time.Since(s.unwritableSince) < unwritableFor {
		return err
	}
	s.unwritableSince = time.Time{} // and another while before the next try
	s.log.Error().Err(err).Msg("the job stream does not store messages; recreating it")
	return errors.Join(err, s.bus.RemakeStream(ctx))
}

func (s *Sweeper) ringOverdue(ctx context.Context) error {
	overdue, err := s.store.Queue.OverdueJobs(ctx, redispatchMax)
	if err != nil || len(overdue) == 0 {
		return err
	}
	again, later, err := s.split(ctx, overdue)
	if err != nil {
		return err
	}
	next, err := s.store.Queue.Redispatch(ctx, again, later)
	s.metrics.count(didRing, len(next))
	if len(next) > 0 {
		failpoint.Here(failpoint.RedispatchAfter)
		s.log.Warn().Int("runs", len(next)).Msg("job messages were not answered; publishing them again")
	}
	s.bus.Ring(next...)
	return err
}

// split tells the doorbells that must be lost from those that have not had their turn: while the oldest
// undelivered one of a lane is older than a run's own, the run's may still come.
func (s *Sweeper) split(ctx context.Context, overdue []queuedb.Overdue) (again, later []queuedb.Overdue, err error) {
	type state struct {
		oldest time.Time
		found  bool
	}
	lanes := map[domain.Lane]state{}
	for _, lane := range domain.Lanes {
		oldest, found, err := s.bus.OldestUndelivered(ctx, lane)
		if err != nil {
			return nil, nil, err
		}
		lanes[lane] = state{oldest, found}
	}
	for _, o := range overdue {
		lane := lanes[o.Job.Lane]
		if lane.found && lane.oldest.Before(o.DispatchedAt) {
			later = append(later, o)
			continue
		}
		again = append(again, o)
	}
	return again, later, nil
}

// expire removes what is kept no longer: runs past their retention, deliveries, what was known of removed runs for long enough, and texts
// and contents that nothing links to, a batch at a time until none is left, login sessions and links that are over, and what idle
// callers' limits have counted.
func (s *Sweeper) expire(ctx context.Context) error {
	var errs []error
	for _, prune := range []func(context.Context, int) (int, error){
		s.store.Sessions.DeleteExpired, s.store.Sessions.PruneDeliveries, s.store.Budgets.SettleLost, s.store.Sessions.PrunePast,
		s.store.Blobs.PruneSources, s.store.Blobs.PruneBlobs,
		s.store.Notifications.PruneNotifications,
	} {
		for n := batchMax; n == batchMax; {
			var err error
			n, err = prune(ctx, batchMax)
			s.metrics.count(didExpire, n)
			if err != nil {
				errs = append(errs, err) // the others are tried all the same
				break
			}
		}
	}
	_, logins := s.store.Accounts.PruneLogins(ctx)
	_, limits := s.store.Limits.PruneLimits(ctx, limitsIdle, batchMax)
	return errors.Join(append(errs, logins, limits)...)
}
