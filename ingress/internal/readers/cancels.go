package readers

import "sync"

const maxCancels = 16 // simultaneous cancellations

// cancels carries out cancellations, up to maxCancels at the same time. The organizations take
// turns, so that one with many runs to cancel does not delay the others.
type cancels struct {
	cancel func(*leftRun)
	wait   sync.WaitGroup

	mu     sync.Mutex
	queues map[string][]*leftRun // by organization; never empty
	turns  []string              // the organizations with a queue, the next one first
	active int
}

// add cancels a run as soon as it is its turn.
func (c *cancels) add(run *leftRun) {
	c.mu.Lock()
	defer c.mu.Unlock()

	// An organization is in turns exactly if it has a queue.
	org := run.OrganizationID
	if len(c.queues[org]) == 0 {
		c.turns = append(c.turns, org)
	}
	c.queues[org] = append(c.queues[org], run)

	// A goroutine performs cancellations until no run is left, and then ends.
	if c.active < maxCancels {
		c.active++
		c.wait.Go(func() {
			for next := c.next(); next != nil; next = c.next() {
				c.cancel(next)
			}
		})
	}
}

// next removes the next run from the queues. If there is none, it returns nil, and the caller must
// end.
func (c *cancels) next() *leftRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) == 0 {
		c.active--
		return nil
	}

	// The organization goes to the end of the turns if it has more runs.
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
