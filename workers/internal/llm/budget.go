package llm

import "sync"

// retryCost is the cost of a retry in tokens of the bucket. An answered call adds one token.
const retryCost = 10

// Budget bounds the retries of all runs of a process, so that retries do not overload a failing
// provider. It is a token bucket: ten answered calls pay for one retry. It is safe for concurrent
// use. A nil *Budget allows every retry.
type Budget struct {
	mu   sync.Mutex
	size int
	left int
}

// NewBudget returns a full budget, enough for size retries or at least one.
func NewBudget(size int) *Budget {
	full := max(size, 1) * retryCost
	return &Budget{size: full, left: full}
}

// Spend takes the cost of a retry from the budget. It returns false if the budget is too low; the
// retry must then not be made.
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
