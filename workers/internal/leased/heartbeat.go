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
	// HeartbeatEvery is the time between two heartbeats of a row. It is so short that several
	// heartbeats may fail before a lease expires.
	HeartbeatEvery = lease.Lease / 3

	heartbeatParts = 10  // number of statements per HeartbeatEvery if the worker holds many rows
	heartbeatFew   = 256 // maximum number of rows whose leases are all extended in a single statement
	heartbeatLate  = HeartbeatEvery * 3 / 2
	lockedRetry    = 250 * time.Millisecond // time before another heartbeat is sent for a row that another transaction has locked
)

// Extend is a function that extends the leases of rows in one statement. It returns the ids of the
// rows whose leases it has extended, and the ids of the rows that another transaction has locked.
// This worker no longer holds the remaining rows.
type Extend[R any] func(ctx context.Context, rows []R) (extended, locked map[string]bool, err error)

// Heartbeat extends each lease every HeartbeatEvery until ctx ends. If another transaction has
// locked a row, Heartbeat tries again every lockedRetry.
func (s *Set[R]) Heartbeat(ctx context.Context, log zerolog.Logger, extend Extend[R]) {
	ticker := time.NewTicker(HeartbeatEvery / heartbeatParts)
	defer ticker.Stop()
	var locked []*Attempt[R]
	for {
		// Retry locked rows soon, because their leases could expire before the next regular
		// heartbeat.
		var again <-chan time.Time
		if len(locked) > 0 {
			again = time.After(lockedRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// If a locked row is also due in this tick, send only one heartbeat for it.
			due := s.due()
			locked = slices.DeleteFunc(locked, func(a *Attempt[R]) bool { return !s.has(a) || slices.Contains(due, a) })
			locked = s.extend(ctx, log, extend, append(due, locked...))
		case <-again:
			locked = s.extend(ctx, log, extend, slices.DeleteFunc(locked, func(a *Attempt[R]) bool { return !s.has(a) }))
		}
	}
}

// due returns the attempts whose leases are to be extended in this tick. If there are few attempts,
// it returns all of them every HeartbeatEvery. If there are many, it returns a tenth of them in
// each tick, beginning with those whose last heartbeat is oldest. A single statement for thousands
// of leases would occupy a core for a tenth of a second and delay other work.
func (s *Set[R]) due() (due []*Attempt[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, few := time.Now(), len(s.attempts) <= heartbeatFew
	wait := HeartbeatEvery
	if !few {
		wait /= 2 // if many rows were claimed at the same time, this spreads their heartbeats over several ticks
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
			tenth++ // earlier heartbeats of this attempt have failed, so its lease expires soon
		}
		due = due[:tenth]
	}
	return due
}

// extend extends the leases of attempts. It returns the attempts whose rows another transaction has
// locked. It immediately cancels an attempt if this worker no longer holds the row. If the database
// is unreachable or a row stays locked, the attempt is cancelled only when its lease expires, so
// that a restart of PostgreSQL does not interrupt every model call.
func (s *Set[R]) extend(ctx context.Context, log zerolog.Logger, extend Extend[R], attempts []*Attempt[R]) (stillLocked []*Attempt[R]) {
	if len(attempts) == 0 {
		return nil
	}

	// In the database, the new lease begins after this moment. By the local clock, the lease
	// therefore expires earlier than in the database.
	asked := time.Now()
	rows := make([]R, len(attempts))
	for i, a := range attempts {
		rows[i] = a.row
	}

	// A heartbeat must end before the next one is due.
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
		// Store the time of this heartbeat also for locked and lost rows. Locked rows are retried
		// separately, and attempts at lost rows are cancelled.
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
