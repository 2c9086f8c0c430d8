package llm

import "sync"

// retryCost is the cost of a retry. An answered call earns 1.
const retryCost = 10

// Budget bounds the retries of all runs of a process, so that retries do not overload a provider
// that fails. It is a token bucket: ten answered calls earn one retry. It is safe for concurrent
// use. A nil Budget has no limit.
type Budget struct {
	mu   sync.Mutex
	size int
	left int
}

// NewBudget returns a full budget for size retries, at least one.
func NewBudget(size int) *Budget {
	full := max(size, 1) * retryCost
	return &Budget{size: full, left: full}
}

// Spend takes the cost of a retry. It returns false if the retry must not be made.
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

// Earn adds the credit for an answered call.
func (b *Budget) Earn() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+1, b.size)
}
