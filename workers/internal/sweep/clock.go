package sweep

import (
	"context"
	"time"

	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// clockStep is the largest normal difference that may arise, from one round to the next, between
// the database's clock and this process's monotonic clock. A larger difference means that the
// database's clock was changed.
const clockStep = 2 * time.Second

// clock is the sweeper's last reading of the database's clock.
type clock struct {
	// The database's clock, and the start time of the server that was asked.
	seen  executiondb.Clock
	at    time.Time     // time on this process's monotonic clock, just before seen was read
	took  time.Duration // how long the reading took, which bounds its error
	grace time.Time     // until then, no lease counts as expired
}

// checkClock detects a changed database clock, a promoted standby and a restarted server. After
// each of these, leases may seem expired although their workers are alive. For the length of a
// lease, in which workers can renew their leases, no lease therefore counts as expired. After the
// first check this time is shorter, because the sweeper may have restarted together with the
// server.
func (s *Sweeper) checkClock(ctx context.Context) error {
	// The local clock is monotonic. So a difference between the progress of the two clocks shows
	// that the database's clock was set.
	before := time.Now()
	now, err := s.store.Executions.Clock(ctx)
	if err != nil {
		return err
	}

	// On the first check, old is zero, and the step means nothing.
	old := s.clock
	s.clock = clock{seen: now, at: before, took: time.Since(before), grace: old.grace}
	first := old.at.IsZero()
	step := now.Now.Sub(old.seen.Now) - before.Sub(old.at)
	stepped := step.Abs() > clockStep+old.took+s.clock.took // the reading of each clock took up to this long

	if !first && !stepped && now.Started.Equal(old.seen.Started) {
		return nil
	}

	// Waits that were computed with the old clock could last too long.
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
