package leased

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/lease"
)

const (
	// HeartbeatEvery is the time between two heartbeats of a row. It is short enough that some may fail
	// before a lease expires.
	HeartbeatEvery = 10 * time.Second

	heartbeatParts = 10  // statements in that time for many rows
	heartbeatFew   = 256 // up to this number of rows get their heartbeats in one statement
	heartbeatLate  = HeartbeatEvery * 3 / 2
	lockedRetry    = 250 * time.Millisecond // between two heartbeats of rows that another transaction has locked
)

// Extend extends the leases of rows in one statement. It returns the ids of the rows whose leases were
// extended, and of those that another transaction has locked. This worker no longer holds the others.
type Extend[R any] func(ctx context.Context, rows []R) (extended, locked map[string]bool, err error)

// Heartbeat extends each lease every HeartbeatEvery until ctx ends. It extends those of locked rows
// every lockedRetry.
func (s *Set[R]) Heartbeat(ctx context.Context, log zerolog.Logger, extend Extend[R]) {
	ticker := time.NewTicker(HeartbeatEvery / heartbeatParts)
	defer ticker.Stop()
	var locked []*Attempt[R]
	for {
		// Retry locked rows soon: waiting for the next tick could let their leases expire.
		var again <-chan time.Time
		if len(locked) > 0 {
			again = time.After(lockedRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// A locked row that is due anyway gets one heartbeat, not two.
			due := s.due()
			locked = slices.DeleteFunc(locked, func(a *Attempt[R]) bool { return !s.has(a) || slices.Contains(due, a) })
			locked = s.extend(ctx, log, extend, append(due, locked...))
		case <-again:
			locked = s.extend(ctx, log, extend, slices.DeleteFunc(locked, func(a *Attempt[R]) bool { return !s.has(a) }))
		}
	}
}

// due returns the attempts for the next heartbeat. A few get theirs together. Extending thousands of
// leases in one statement would occupy a core for a tenth of a second and delay the work of other
// organizations. Of many attempts, each tick therefore takes a tenth, those with the oldest heartbeats.
func (s *Set[R]) due() (due []*Attempt[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, few := time.Now(), len(s.attempts) <= heartbeatFew
	wait := HeartbeatEvery
	if !few {
		wait /= 2 // rows that were claimed together are spread over the next ticks
	}
	for _, a := range s.attempts {
		if now.Sub(a.beat) >= wait {
			due = append(due, a)
		}
	}

	switch tenth := (len(s.attempts) + heartbeatParts - 1) / heartbeatParts; {
	case few && len(due) > 0:
		return slices.Collect(maps.Values(s.attempts))
	case len(due) > tenth:
		slices.SortFunc(due, func(a, b *Attempt[R]) int { return a.beat.Compare(b.beat) })
		for tenth < len(due) && now.Sub(due[tenth].beat) > heartbeatLate {
			tenth++ // heartbeats have failed, and these leases expire soon
		}
		due = due[:tenth]
	}
	return due
}

// extend extends the leases of attempts. It returns the attempts whose rows another transaction has
// locked. It immediately cancels attempts at rows that this worker no longer holds. If the database is
// unreachable or a row stays locked, the attempt is cancelled only when the lease expires, because a
// restart of PostgreSQL must not interrupt every model call.
func (s *Set[R]) extend(ctx context.Context, log zerolog.Logger, extend Extend[R], attempts []*Attempt[R]) (stillLocked []*Attempt[R]) {
	if len(attempts) == 0 {
		return nil
	}

	// The database's lease begins after this moment, so the local estimate expires first.
	asked := time.Now()
	rows := make([]R, len(attempts))
	for i, a := range attempts {
		rows[i] = a.row
	}

	// A heartbeat that takes longer would delay the next one.
	ctx, cancel := context.WithTimeout(ctx, HeartbeatEvery)
	defer cancel()
	extended, locked, err := extend(ctx, rows)
	if err != nil {
		log.Warn().Err(err).Int("leases", len(attempts)).Msg("heartbeat failed, retrying")
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attempts {
		// Locked and lost rows count as beaten as well: the former are retried separately, and the
		// latter end.
		a.beat = asked
		switch {
		case extended[a.key]:
			a.leaseUntil = asked.Add(lease.Lease)
		case locked[a.key]:
			stillLocked = append(stillLocked, a)
		default:
			a.cancel(ErrTaken)
		}
	}
	return stillLocked
}
