package sweep

import (
	"context"
	"time"

	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// clockStep is the largest normal difference between the times that pass on the database's clock
// and on this process's monotonic clock from one round to the next. A larger difference means that
// the database's clock was changed.
const clockStep = 2 * time.Second

// clock is the sweeper's last reading of the database's clock.
type clock struct {
	// The last reading: the time on the database's clock, and the start time of the database
	// server.
	seen  executiondb.Clock
	at    time.Time     // time on this process's monotonic clock just before seen was read
	took  time.Duration // duration of the query for seen; limits the accuracy of seen
	grace time.Time     // time until which no lease counts as expired
}

// checkClock detects a changed database clock, a promoted standby and a restarted server. After
// each of these, leases may seem expired although their workers are alive. Therefore, no lease
// counts as expired for a time as long as a lease. In this time, workers can renew their leases.
// The sweeper's first check cannot detect a change, because there is no earlier reading. The first
// check only shortens waits.
func (s *Sweeper) checkClock(ctx context.Context) error {
	// The local clock is monotonic. If the database's clock has not advanced by about the same time
	// as the local clock, the database's clock was changed.
	before := time.Now()
	now, err := s.store.Executions.Clock(ctx)
	if err != nil {
		return err
	}

	// In the first check there is no earlier reading, so step has no meaning.
	old := s.clock
	s.clock = clock{seen: now, at: before, took: time.Since(before), grace: old.grace}
	first := old.at.IsZero()
	step := now.Now.Sub(old.seen.Now) - before.Sub(old.at)
	stepped := step.Abs() > clockStep+old.took+s.clock.took // each of the two readings is inaccurate by up to its duration

	if !first && !stepped && now.Started.Equal(old.seen.Started) {
		return nil
	}

	// Leases and other stored times come from the old clock and may now be too far in the future,
	// so shorten them.
	shortened, err := s.store.Executions.ShortenWaits(ctx)
	if err != nil {
		s.clock = old // keep the old reading, so that the next round detects the change again
		return err
	}

	if !first {
		s.clock.grace = time.Now().Add(lease.Lease)
		s.log.Warn().Dur("step", step).Int64("shortened", shortened).
			Msg("the database's clock has jumped, or another server has taken over; giving workers time to renew their leases")
	}
	return nil
}
