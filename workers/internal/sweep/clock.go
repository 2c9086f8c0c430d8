package sweep

import (
	"context"
	"time"

	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// clockStep is the largest difference between the database's clock and this process's monotonic
// clock that may arise between two rounds. A larger one counts as a step.
const clockStep = 2 * time.Second

// clock is the sweeper's last reading of the database's clock.
type clock struct {
	seen  executiondb.Clock
	at    time.Time // just before seen was read, on this process's monotonic clock
	took  time.Duration
	grace time.Time // no lease counts as expired until then
}

// checkClock detects a step of the database's clock, a promoted standby and a restarted server.
// Leases may then seem expired although their workers are alive, so workers get the length of a
// lease to renew them. The first check only shortens waits, because the sweeper may have restarted
// together with the server.
func (s *Sweeper) checkClock(ctx context.Context) error {
	before := time.Now()
	now, err := s.store.Executions.Clock(ctx)
	if err != nil {
		return err
	}

	old := s.clock
	s.clock = clock{seen: now, at: before, took: time.Since(before), grace: old.grace}
	first := old.at.IsZero()
	step := now.Now.Sub(old.seen.Now) - before.Sub(old.at)
	stepped := step.Abs() > clockStep+old.took+s.clock.took // the clock was read at an unknown moment within these

	if !first && !stepped && now.Started.Equal(old.seen.Started) {
		return nil
	}

	shortened, err := s.store.Executions.ShortenWaits(ctx)
	if err != nil {
		s.clock = old // the next round detects the same step
		return err
	}

	if !first {
		s.clock.grace = time.Now().Add(lease.Lease)
		s.log.Warn().Dur("step", step).Int64("shortened", shortened).
			Msg("the database's clock has jumped, or another server has taken over; giving workers time to renew their leases")
	}
	return nil
}
