package leased

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/store/lease"
)

// Causes with which attempts are cancelled.
var (
	ErrTaken    = errors.New("another worker has taken over")
	ErrLease    = errors.New("the lease expired while the database was unreachable")
	ErrDraining = errors.New("the worker is stopping")
)

// Attempt is one execution of a claimed row by this worker.
type Attempt[R any] struct {
	row        R
	key        string
	cancel     context.CancelCauseFunc
	leaseUntil time.Time // time at which the lease expires, by this process's monotonic clock; guarded by Set.mu
	beat       time.Time // time of the claim or of the last heartbeat; guarded by Set.mu
}

// Set contains this worker's attempts, so that one heartbeat can extend the leases of many rows.
type Set[R any] struct {
	key      func(R) string
	mu       sync.Mutex
	attempts map[string]*Attempt[R]
}

// New returns an empty set. The function key returns the id of a row.
func New[R any](key func(R) string) *Set[R] {
	return &Set[R]{key: key, attempts: map[string]*Attempt[R]{}}
}

// Add adds an attempt at a row. The argument asked is the time at which the claim was sent. The
// lease is counted from this time. Add cancels an earlier attempt at the same row, because the new
// claim replaces the earlier one.
func (s *Set[R]) Add(row R, asked time.Time, cancel context.CancelCauseFunc) *Attempt[R] {
	a := &Attempt[R]{row: row, key: s.key(row), cancel: cancel, leaseUntil: asked.Add(lease.Lease), beat: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.attempts[a.key]; before != nil {
		before.cancel(ErrTaken)
	}
	s.attempts[a.key] = a
	return a
}

// Remove removes an attempt, unless this worker has claimed the row again in the meantime.
func (s *Set[R]) Remove(a *Attempt[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[a.key] == a {
		delete(s.attempts, a.key)
	}
}

// has reports whether this attempt is still in the set. A later attempt at the same row replaces
// it.
func (s *Set[R]) has(a *Attempt[R]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[a.key] == a
}

// Cancel cancels the attempt at a row if this worker executes it.
func (s *Set[R]) Cancel(key string, cause error) {
	s.mu.Lock()
	a := s.attempts[key]
	s.mu.Unlock()
	if a != nil {
		a.cancel(cause)
	}
}

// cancelAll cancels all attempts with the given cause. It does not wait until they have ended.
func (s *Set[R]) cancelAll(cause error) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.attempts))
	s.mu.Unlock()
	for _, a := range all {
		a.cancel(cause)
	}
}

// Count returns the number of attempts in progress.
func (s *Set[R]) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts)
}

// Watch cancels attempts whose leases have expired by the local clock. When a lease has expired,
// another worker may claim the row, and the fence of its claim rejects the writes of this worker.
// Watch does not call the database, because a database that does not respond would also delay
// Watch.
func (s *Set[R]) Watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.mu.Lock()
			for _, a := range s.attempts {
				if now.After(a.leaseUntil) {
					a.cancel(ErrLease)
				}
			}
			s.mu.Unlock()
		}
	}
}

// Drain waits until all attempts have ended, for at most the duration patience. It then cancels the
// remaining attempts with ErrDraining, so that other workers can continue with their rows. It waits
// for these attempts for at most the duration last, and returns false if some of them are still
// running.
func (s *Set[R]) Drain(attempts *sync.WaitGroup, patience, last time.Duration) bool {
	done := make(chan struct{})
	go func() { attempts.Wait(); close(done) }()
	if within(patience, done) {
		return true
	}
	s.cancelAll(ErrDraining)
	return within(last, done)
}

// within reports whether the channel done is closed within the duration d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
