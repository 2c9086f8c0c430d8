package leased

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/lease"
)

func newSet() *Set[string] { return New(func(row string) string { return row[:len(row)-2] }) } // "run_1 7" has fence 7

// An attempt ends when its lease expires, even if the database does not respond to the heartbeat.
func TestAnAttemptEndsWithItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSet()
		ctx, stop := context.WithCancel(t.Context())
		attempt, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		began, blocked := time.Now(), time.Now().Add(2*HeartbeatEvery)
		a := s.Add("run_1 1", began, cancel)
		go s.Watch(ctx)
		go s.Heartbeat(ctx, zerolog.Nop(), func(ctx context.Context, _ []string) (extended, locked map[string]bool, err error) {
			if time.Now().After(blocked) {
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}
			return map[string]bool{"run_1": true}, nil, nil
		})

		<-attempt.Done()
		took := time.Since(began)
		if !errors.Is(context.Cause(attempt), ErrLease) || took < HeartbeatEvery+lease.Lease || took > 2*HeartbeatEvery+lease.Lease+2*time.Second {
			t.Errorf("the attempt ended after %s with %v", took, context.Cause(attempt))
		}
		if s.Remove(a); s.Count() != 0 {
			t.Error("a removed attempt is still held")
		}
		stop()
		synctest.Wait()
	})
}

func TestAClaimReplacesAnEarlierOne(t *testing.T) {
	t.Parallel()
	s := newSet()
	ctx, cancel := context.WithCancelCause(t.Context())
	first := s.Add("run_1 1", time.Now(), cancel)
	second := s.Add("run_1 2", time.Now(), func(error) {})
	if !errors.Is(context.Cause(ctx), ErrTaken) {
		t.Errorf("the earlier attempt: %v", context.Cause(ctx))
	}
	if s.Remove(first); s.Count() != 1 {
		t.Error("the earlier attempt has removed the later one")
	}
	if s.Remove(second); s.Count() != 0 {
		t.Error("the row is still held")
	}
}

// beats records the heartbeats of rows.
type beats struct {
	downUntil  time.Time            // heartbeats fail until this time
	last       map[string]time.Time // time of the last heartbeat of each row
	statements int
	largest    int           // maximum number of rows in one statement
	longest    time.Duration // maximum time between two heartbeats of a row
}

func (b *beats) extend(_ context.Context, rows []string) (extended, locked map[string]bool, err error) {
	b.statements++
	if time.Now().Before(b.downUntil) {
		return nil, nil, errors.New("down")
	}
	b.largest = max(b.largest, len(rows))
	extended = make(map[string]bool, len(rows))
	for _, row := range rows {
		extended[row[:len(row)-2]] = true
		b.longest = max(b.longest, time.Since(b.last[row]))
		b.last[row] = time.Now()
	}
	return extended, nil, nil
}

// The leases of thousands of rows are extended in several statements. The leases of a few rows are
// extended in one statement. No lease expires, even if the database is unavailable for some time.
func TestHeartbeatsOfManyRowsAreSpread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows, largest, statements int
		down                      time.Duration
		longest                   time.Duration
	}{
		"a few":           {rows: 200, largest: 200, statements: 12, longest: HeartbeatEvery},
		"many":            {rows: 5000, largest: 500, statements: 120, longest: heartbeatLate},
		"after a failure": {rows: 5000, largest: 5000, statements: 120, down: 25 * time.Second, longest: 26 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &beats{last: map[string]time.Time{}, downUntil: time.Now().Add(c.down)}
				s := newSet()
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				attempts, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				for n := range c.rows {
					row := fmt.Sprint(n, " 1")
					s.Add(row, time.Now(), cancel)
					b.last[row] = time.Now()
				}
				go s.Watch(ctx)
				s.Heartbeat(ctx, zerolog.Nop(), b.extend)
				if cause := context.Cause(attempts); !errors.Is(cause, context.DeadlineExceeded) {
					t.Errorf("an attempt ended: %v", cause)
				}
				if b.largest > c.largest || b.statements > c.statements || b.longest > c.longest {
					t.Errorf("at most %d rows in one of %d statements, and %s between two heartbeats", b.largest, b.statements, b.longest)
				}
			})
		})
	}
}

// If another transaction has locked a row, an attempt at the row ends only when its lease expires.
// Until then, the heartbeat is retried for this row, and the heartbeats of other rows are not
// delayed. An attempt at a row that another worker has taken ends at once.
func TestALockedHeartbeatIsRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lasts time.Duration // duration of the lock
		cause error
	}{
		"for a moment": {HeartbeatEvery + time.Second, nil},
		"for too long": {time.Hour, ErrLease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, free, asked := newSet(), time.Now().Add(c.lasts), 0
				ctx, stop := context.WithCancel(t.Context())
				var causes [3]func() error
				for i := range causes {
					attempt, cancel := context.WithCancelCause(ctx)
					s.Add(fmt.Sprintf("run_%d 1", i), time.Now(), cancel)
					causes[i] = func() error { return context.Cause(attempt) }
				}
				go s.Heartbeat(ctx, zerolog.Nop(), func(context.Context, []string) (extended, locked map[string]bool, err error) {
					asked++
					locks := time.Now().Before(free)
					return map[string]bool{"run_0": !locks, "run_1": true}, map[string]bool{"run_0": locks}, nil
				})
				go s.Watch(ctx)
				<-time.After(2 * lease.Lease)
				synctest.Wait()
				if !errors.Is(causes[0](), c.cause) || causes[1]() != nil || !errors.Is(causes[2](), ErrTaken) {
					t.Errorf("the locked attempt ended with %v, the held one with %v, the lost one with %v", causes[0](), causes[1](), causes[2]())
				}
				if c.cause == nil && asked < 6+int(time.Second/lockedRetry)-1 {
					t.Errorf("leases were to be extended %d times", asked)
				}
				stop()
				synctest.Wait()
			})
		})
	}
}
