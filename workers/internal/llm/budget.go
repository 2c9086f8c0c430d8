package llm

import "sync"

// retryCost is what a retry costs, in what an answered call gives back.
const retryCost = 10

// Budget bounds retries over all runs of a process, so that a provider in trouble is not asked ever more often the
// worse it fares: a bucket of tokens, of which a retry takes one and an answer gives a tenth back. It is safe for
// concurrent use; the nil one has no bound.
type Budget struct {
	mu   sync.Mutex
	size int
	left int
}

// NewBudget makes a full bucket for so many retries, at least one.
func NewBudget(size int) *Budget {
	full := max(size, 1) * retryCost
	return &Budget{size: full, left: full}
}

// Spend takes what a retry costs; false means that it must not be made.
func (b *Budget) Spend() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < retryCost {
		return false
	}
	b.left -= retryCost
	return true
}

// Earn gives back what an answered call is worth.
func (b *Budget) Earn() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+1, b.size)
}
