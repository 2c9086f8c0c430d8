package readers

import "sync"

const maxCancels = 16 // maximum number of simultaneous cancellations

// cancels performs cancellations, up to maxCancels at a time. The organizations take turns, so that
// an organization with many cancellations does not delay the others. cancels is safe for concurrent
// use. It uses a goroutine only while there are runs to cancel.
type cancels struct {
	// Cancels one run; called without the lock.
	cancel func(*leftRun)
	// Counts the goroutines, so that the process can wait for them when it ends.
	wait sync.WaitGroup

	mu     sync.Mutex
	queues map[string][]*leftRun // runs to cancel, by organization; no queue is empty
	turns  []string              // organizations with a queue; the next one is first
	// Number of goroutines.
	active int
}

// add cancels a run when the turn of its organization comes. It does not block. A run that is added
// twice is cancelled twice, which has no effect.
func (c *cancels) add(run *leftRun) {
	c.mu.Lock()
	defer c.mu.Unlock()

	// The list turns contains exactly the organizations that have a queue.
	org := run.OrganizationID
	if len(c.queues[org]) == 0 {
		c.turns = append(c.turns, org)
	}
	c.queues[org] = append(c.queues[org], run)

	// A goroutine cancels runs until no run is left, and then ends.
	if c.active < maxCancels {
		c.active++
		c.wait.Go(func() {
			for next := c.next(); next != nil; next = c.next() {
				c.cancel(next)
			}
		})
	}
}

// next removes the next run from the queues and returns it. If there is none, it returns nil, and
// the calling goroutine must end. The caller counts as active until next returns nil.
func (c *cancels) next() *leftRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) == 0 {
		c.active--
		return nil
	}

	// If the organization has more runs, it moves to the end of the queue of organizations.
	org := c.turns[0]
	c.turns = c.turns[1:]
	run := c.queues[org][0]
	if c.queues[org] = c.queues[org][1:]; len(c.queues[org]) > 0 {
		c.turns = append(c.turns, org)
	} else {
		delete(c.queues, org)
	}
	return run
}
