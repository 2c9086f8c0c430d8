package llm

import "sync"

// retryCost is the number of tokens that a retry takes from the budget. Each answered call adds one
// token.
const retryCost = 10

// Budget limits the retries of all runs of a process, so that retries do not overload a failing
// provider. It is a token bucket: each answered call adds one token, and each retry takes ten. It
// is safe for concurrent use. A nil *Budget allows every retry.
type Budget struct {
	mu   sync.Mutex
	size int
	left int
}

// NewBudget returns a full budget that allows the given number of retries, but at least one.
func NewBudget(size int) *Budget {
	full := max(size, 1) * retryCost
	return &Budget{size: full, left: full}
}

// Spend takes the cost of a retry from the budget. If the budget contains too few tokens, Spend
// returns false, and the caller must not retry.
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

// Earn adds one token to the budget. Call it after each call that was answered.
func (b *Budget) Earn() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+1, b.size)
}
