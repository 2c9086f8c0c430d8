package sweep

import (
	"context"
	"time"

	"parley/shared/store"
)

// clockStep is how far the database's clock and this process's monotonic one may part between two rounds. More is a step.
const clockStep = 2 * time.Second

// clock is what the sweeper knows of the database's clock.
type clock struct {
	seen  store.Clock
	at    time.Time // before seen was read, by this process's monotonic clock
	grace time.Time // no lease counts as over until then
}

// checkClock notices a step of the database's clock, and another server in place of the one before: a standby that was promoted, or the
// same one after a restart. Leases may seem to be over then although their workers live. The workers get as long as a lease to renew
// them. A first look only shortens waits: the sweeper may have restarted with the server.
func (s *Sweeper) checkClock(ctx context.Context) error {
	before := time.Now()
	now, err := s.store.Clock(ctx)
	if err != nil {
		return err
	}
	first := s.clock.at.IsZero()
	step := now.Now.Sub(s.clock.seen.Now) - before.Sub(s.clock.at)
	stepped := step.Abs() > clockStep+time.Since(before)
	if !first && !stepped && now.Started.Equal(s.clock.seen.Started) {
		s.clock.seen, s.clock.at = now, before
		return nil
	}
	shortened, err := s.store.ShortenWaits(ctx)
	if err != nil {
		return err // the next round finds the same
	}
	if !first {
		s.clock.grace = time.Now().Add(store.Lease)
		s.log.Warn().Dur("step", step).Int64("shortened", shortened).
			Msg("the database's clock has stepped, or another server has taken over; workers get time to renew their leases")
	}
	s.clock.seen, s.clock.at = now, before
	return nil
}
