// Package sweep repairs the state that failed processes leave behind, and enforces time limits. It
// does the following:
//
//   - publishes lost job messages again
//   - requeues runs whose worker died
//   - ends runs that are past their deadline or wait too long for a person's decision
//   - removes results past their retention
//   - adds the words of finished runs to the search index
//
// Any number of workers may sweep. They lock rows with SKIP LOCKED. If two workers dispatch the
// same run again, only the first job message leads to a claim.
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
	"parley/shared/lifecycle"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
)

const (
	// every is the interval of the method sweep, and expireEvery is the interval of the method
	// expire.
	every       = time.Second
	expireEvery = 10 * time.Second
	// Counters of rate limits are deleted if they have not been used for this time.
	limitsIdle    = 5 * time.Minute
	maxRound      = 20_000 // maximum number of rows of each kind in one round; such a round takes less than a second
	maxBatch      = 500    // maximum number of rows that are deleted, or runs that are indexed, in one transaction
	indexShare    = 5      // indexing takes at most a fifth of the time, so that it does not delay runs
	maxRedispatch = 5000   // maximum number of job messages that one sweep publishes again
	// Time for which a consumer's sequence number must be higher than the stream's last one before
	// recreateForgotten creates the stream again.
	forgotFor = 2 * time.Second
	// Interval at which the sweeper checks that the job stream stores messages.
	checkEvery    = 2 * time.Second
	unwritableFor = 10 * time.Second // time for which a stream must have refused messages before it is created again
)

// Sweeper performs the repairs, most of them once a second.
type Sweeper struct {
	store  *store.Store
	bus    *bus.Bus
	log    zerolog.Logger
	stream time.Time // creation time of the stream that the last round found

	forgotSince time.Time // time since which a consumer's sequence number has been higher than the stream's last one; zero if none is

	unwritableSince time.Time // time since which the stream has refused messages; zero if it stores messages

	clock clock

	metrics *metrics
}

// New creates a sweeper.
func New(st *store.Store, b *bus.Bus, log zerolog.Logger) *Sweeper {
	return &Sweeper{store: st, bus: b, log: log, metrics: newMetrics()}
}

// Run sweeps at intervals until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	s.log.Info().Msg("sweeper ready")
	var loops sync.WaitGroup
	loops.Go(func() { s.repeat(ctx, "sweep", every, s.sweep) })
	loops.Go(func() { s.repeat(ctx, "checking jobs", checkEvery, s.checkJobs) })
	loops.Go(func() { s.repeat(ctx, "expiry", expireEvery, s.expire) }) // run this loop separately, because one round may take a long time
	loops.Go(func() { s.repeat(ctx, "indexing runs", every, s.indexRuns) })
	loops.Go(func() {
		_ = s.measure(ctx) // the loop below reports errors
		s.repeat(ctx, "measuring", measureEvery, s.measure)
	})
	loops.Wait()
	return nil
}

// repeat calls the function do at intervals until ctx ends. It logs the first of several
// consecutive failures, and later that the failures have ended.
func (s *Sweeper) repeat(ctx context.Context, what string, every time.Duration, do func(context.Context) error) {
	// If a round takes longer than the interval, the next round starts late. Rounds never overlap.
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

		// Log only a change, because a lasting failure would fill the log with the same line.
		if err != nil && !failed {
			s.log.Warn().Err(err).Msg(what + " failed, retrying")
		}
		if err == nil && failed {
			s.log.Info().Msg(what + " works again")
		}
		failed = err != nil
	}
}

// sweep runs one round of all repairs. If one repair fails, the other repairs still run.
func (s *Sweeper) sweep(ctx context.Context) error {
	// The order matters: the first repairs free slots, which dispatchWaiting then fills in the same
	// round.
	var errs []error
	for _, part := range []func(context.Context) error{
		s.releaseCoalesced, s.endRuns, s.requeueLost, s.dispatchWaiting, s.notifyAgain, s.endDocuments,
	} {
		errs = append(errs, part(ctx))
	}
	return errors.Join(errs...)
}

// releaseCoalesced queues the runs whose time for coalescing deliveries has passed.
func (s *Sweeper) releaseCoalesced(ctx context.Context) error {
	orgs, err := s.store.Queue.ReleaseCollected(ctx, maxRound)
	s.metrics.count(actionCoalesce, len(orgs))
	s.changed(domain.ChangedRuns, orgs)
	return err
}

// endRuns ends runs that are past their deadline, have waited too long for a person's decision, or
// have lost too many workers. Later in the round, dispatchWaiting fills their slots.
func (s *Sweeper) endRuns(ctx context.Context) error {
	var errs []error

	// Each query ends runs in batches. Even if a query fails, it returns the runs that it has
	// ended. Publish the results of these runs in any case, because callers wait for them.
	runs := s.store.Executions
	for _, end := range []func(context.Context, int) ([]executiondb.Ended, error){runs.EndOverdue, runs.EndUnanswered, runs.EndPoison} {
		ended, err := end(ctx, maxRound)
		s.metrics.count(actionEnd, len(ended))
		for _, e := range ended {
			s.log.Warn().Str("run_id", e.RunID).Msg("the sweeper finished a run")
			s.bus.Cancelled(e.RunID)
			s.bus.Done(e.RunID, e.ReplyTo, e.Result)
			s.bus.Changed(domain.ChangedRuns, e.OrganizationID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// requeueLost requeues runs whose lease has expired. It does nothing while leases may only seem
// expired because the clock was changed.
func (s *Sweeper) requeueLost(ctx context.Context) error {
	if err := s.checkClock(ctx); err != nil {
		return err
	}
	if time.Now().Before(s.clock.grace) {
		return nil
	}

	// A requeued run has no slot. Later in this round, dispatchWaiting dispatches it.
	orgs, err := s.store.Executions.RequeueLost(ctx, maxRound)
	s.metrics.count(actionRequeue, len(orgs))
	if n := len(orgs); n > 0 {
		failpoint.Here(failpoint.ExpireAfter)
		s.log.Warn().Int("runs", n).Msg("leases expired; runs requeued")
	}
	s.changed(domain.ChangedRuns, orgs)
	return err
}

// endDocuments marks documents as failed if they have lost too many workers or have passed their
// deadline.
func (s *Sweeper) endDocuments(ctx context.Context) error {
	orgs, err := s.store.Knowledge.EndDocuments(ctx, maxBatch)
	s.metrics.count(actionDocuments, len(orgs))
	if n := len(orgs); n > 0 {
		s.log.Warn().Int("documents", n).Msg("the sweeper set documents to failed")
	}
	s.changed(domain.ChangedDocuments, orgs)
	return err
}

// changed notifies the watchers of each organization that its rows of the given kind have changed.
func (s *Sweeper) changed(kind domain.ChangeKind, orgs []string) {
	for _, org := range orgs {
		s.bus.Changed(kind, org)
	}
}

// dispatchWaiting dispatches queued runs into free slots, and publishes their job messages.
func (s *Sweeper) dispatchWaiting(ctx context.Context) error {
	next, err := s.store.Queue.DispatchWaiting(ctx)
	s.metrics.count(actionDispatch, len(next))
	if len(next) > 0 {
		failpoint.Here(failpoint.DispatchAfter)
	}
	s.bus.PublishJobs(next...)
	return err
}

// notifyAgain publishes the job messages of runs that were dispatched but not claimed in time. It
// skips a run whose message may still be delivered. If the stream is missing, notifyAgain creates
// it and publishes the messages of all dispatched runs.
func (s *Sweeper) notifyAgain(ctx context.Context) error {
	// EnsureStream creates the stream if it is missing, for example because all NATS servers have
	// lost their disks.
	found, err := s.bus.EnsureStream(ctx)
	if err != nil {
		return err
	}

	// A new creation time means that another stream has replaced the one from the last round. The
	// messages of the old stream are lost.
	if !s.stream.IsZero() && !found.Made.Equal(s.stream) {
		s.metrics.count(actionStream, 1)
		s.log.Warn().Msg("the job stream was lost; recreating it and publishing all dispatched runs again")
		if err := s.store.Queue.RepublishAll(ctx); err != nil {
			return err
		}
	}
	if !s.stream.Equal(found.Made) { // the stream is not the one that the last round found
		if err := s.bus.UpdateStream(ctx); err != nil {
			s.log.Warn().Err(err).Msg("cannot update the job stream; its old configuration stays")
		}
	}

	s.stream = found.Made
	return errors.Join(s.recreateForgotten(ctx, found), s.notifyOverdue(ctx))
}

// recreateForgotten creates the job stream again if a consumer has recorded a higher sequence
// number than the stream's last one. Such a stream would deliver no messages for a long time. The
// next sweep publishes the job messages again. The stream must be in this state for forgotFor,
// because the servers of a cluster may disagree for a moment.
func (s *Sweeper) recreateForgotten(ctx context.Context, found bus.Stream) error {
	if !found.Forgot {
		s.forgotSince = time.Time{}
		return nil
	}

	// When a round first finds the stream in this state, the round only records the time, and a
	// later round decides.
	if s.forgotSince.IsZero() {
		s.forgotSince = time.Now()
	}
	if time.Since(s.forgotSince) < forgotFor {
		return nil
	}
	s.log.Warn().Msg("the job stream lost messages that its consumers still expect, and delivers nothing; recreating it")
	s.forgotSince = time.Time{} // before the next repair, wait for the full time again
	return s.bus.RemakeStream(ctx)
}

// checkJobs creates the job stream again if the stream has refused messages for unwritableFor.
// After a full disk, NATS refuses messages for the stream until the stream is created again.
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
	s.unwritableSince = time.Time{} // before the next repair, wait for the full time again
	s.log.Error().Err(err).Msg("the job stream does not store messages; recreating it")
	return errors.Join(err, s.bus.RemakeStream(ctx))
}

// notifyOverdue publishes job messages again for dispatched runs that were not claimed in time.
func (s *Sweeper) notifyOverdue(ctx context.Context) error {
	overdue, err := s.store.Queue.OverdueJobs(ctx, maxRedispatch)
	if err != nil || len(overdue) == 0 {
		return err
	}

	again, later, err := s.splitOverdue(ctx, overdue)
	if err != nil {
		return err
	}

	// If a message may still arrive, only postpone the run, to avoid a duplicate message.
	next, err := s.store.Queue.Redispatch(ctx, again, later)
	s.metrics.count(actionNotify, len(next))
	if len(next) > 0 {
		failpoint.Here(failpoint.RedispatchAfter)
		s.log.Warn().Int("runs", len(next)).Msg("job messages were not answered; publishing them again")
	}
	s.bus.PublishJobs(next...)
	return err
}

// splitOverdue divides overdue runs into two groups. The first result contains the runs whose job
// messages are certainly lost. The second result contains the runs whose messages may still be
// delivered. A message may still be delivered if the lane's oldest undelivered message is older
// than the dispatch of the run.
func (s *Sweeper) splitOverdue(ctx context.Context, overdue []queuedb.Overdue) (again, later []queuedb.Overdue, err error) {
	type state struct {
		oldest time.Time
		found  bool
	}

	// Request the state of each lane only once, because thousands of its runs may be overdue.
	lanes := map[domain.Lane]state{}
	for _, lane := range domain.Lanes {
		oldest, found, err := s.bus.OldestUndelivered(ctx, lane)
		if err != nil {
			return nil, nil, err
		}
		lanes[lane] = state{oldest, found}
	}

	// JetStream delivers the messages of a lane in order. If an older message is still undelivered,
	// the run's own message may be undelivered, too.
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

// expire deletes expired rows: runs past their retention, webhook deliveries, lost budget holds,
// records of removed runs, unreferenced texts and contents, notifications, login sessions and
// links, and the rate limit counters of idle callers. It deletes them in batches until none are
// left. A failure does not stop the other deletions.
func (s *Sweeper) expire(ctx context.Context) error {
	var errs []error
	for _, prune := range []func(context.Context, int) (int, error){
		s.store.Sessions.DeleteExpired, s.store.Sessions.PruneDeliveries, s.store.Budgets.ChargeLost, s.store.Sessions.PrunePast,
		s.store.Blobs.PruneUploads, s.store.Blobs.PruneSources, s.store.Blobs.PruneBlobs,
		s.store.Notifications.PruneNotifications,
	} {
		for n := maxBatch; n == maxBatch; {
			var err error
			n, err = prune(ctx, maxBatch)
			s.metrics.count(actionExpire, n)
			if err != nil {
				errs = append(errs, err) // continue with the other deletions
				break
			}
		}
	}

	// Call PruneLogins and PruneLimits only once. PruneLogins deletes all expired rows in one call.
	// PruneLimits may leave counters, which the next round deletes.
	_, logins := s.store.Accounts.PruneLogins(ctx)
	_, limits := s.store.Limits.PruneLimits(ctx, limitsIdle, maxBatch)
	return errors.Join(append(errs, logins, limits)...)
}

// indexRuns adds the words of finished runs to the search index until all of them are indexed.
func (s *Sweeper) indexRuns(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		n, err := s.store.Runs.IndexRuns(ctx, maxBatch)
		s.metrics.count(actionIndex, n)
		if err != nil || n < maxBatch {
			return err
		}

		_ = lifecycle.Sleep(ctx, (indexShare-1)*time.Since(began)) // an error means that ctx has ended
	}
	return nil
}
