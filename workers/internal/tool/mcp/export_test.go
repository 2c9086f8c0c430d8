package mcp

import "time"

// SetClock has the lists age by another clock.
func (b *Backend) SetClock(now func() time.Time) { b.lists.now = now }

// Kept is how many lists are kept.
func (b *Backend) Kept() int {
	b.lists.mu.Lock()
	defer b.lists.mu.Unlock()
	return len(b.lists.lists)
}
