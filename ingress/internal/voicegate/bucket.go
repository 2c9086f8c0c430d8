package voicegate

import "time"

// bucket is a token bucket. It allows a number of events per second, and a burst after a pause. It
// is not safe for concurrent use. The time is a parameter, so that tests need no clock.
type bucket struct {
	// Tokens per second, maximum number of tokens, and current number of tokens. The method owe may
	// make the current number negative.
	rate, burst, level float64
	// Time of the last fill.
	at time.Time
}

// newBucket returns a full bucket. rate is in tokens per second.
func newBucket(rate, burst float64, now time.Time) bucket {
	return bucket{rate: rate, burst: burst, level: burst, at: now}
}

// fill adds the tokens that the bucket has gained since the last call. A time before the last call
// changes nothing.
func (b *bucket) fill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.level = min(b.burst, b.level+b.rate*passed.Seconds())
		b.at = now
	}
}

// take takes one token. It returns false if none is available. The caller rejects the event then.
func (b *bucket) take(now time.Time) bool {
	b.fill(now)
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// owe takes tokens even if the bucket has too few. It returns how long the bucket needs to gain the
// missing tokens. The caller waits for that time before the next event. The result is 0 if the
// bucket has enough tokens.
func (b *bucket) owe(now time.Time, some int) time.Duration {
	b.fill(now)
	b.level -= float64(some)
	if b.level >= 0 {
		return 0
	}
	return time.Duration(-b.level / b.rate * float64(time.Second))
}
