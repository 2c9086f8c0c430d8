package sweep

import (
	"context"
	"time"

	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// clockStep is how far the database's clock and this process's monotonic one may part between two rounds. More is a step.
const clockStep = 2 * time.Second

// clock is what the sweeper knows of the database's clock.
type clock struct {
	seen  executiondb.Clock
	at    time.Time // before seen was read, by this process's monotonic clock
	took  time.Duration
	grace time.Time // no lease counts as over until then
}

// checkClock notices a step of the database's clock, and another server in place of the one before: a standby that was promoted, or the
// same one after a restart. Leases may seem to be over then although their workers live. The workers get as long as a lease to renew
// them. A first look only shortens waits: the sweeper may have restarted with the server.
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
	stepped := step.Abs() > clockStep+old.took+s.clock.took // the clock was read at some time within these
	if !first && !stepped && now.Started.Equal(old.seen.Started) {
		return nil
	}
	shortened, err := s.store.Executions.ShortenWaits(ctx)
	if err != nil {
		s.clock = old // the next round finds the same
		return err
	}
	if !first {
		s.clock.grace = time.Now().Add(lease.Lease)
		s.log.Warn().Dur("step", step).Int64("shortened", shortened).
			Msg("the database's clock has jumped, or another server has taken over; giving workers time to renew their leases")
	}
	return nil
}
