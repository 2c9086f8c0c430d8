package runner

import (
	"context"
	"slices"
	"sync"
)

const (
	// inputBytes is the maximum size of all large inputs and histories in memory. A worker has
	// thousands of slots and several copies of each input. Without a limit, these copies could fill
	// the memory.
	inputBytes = 96 << 20
	// inputShare is the limit for one organization. newcomerBytes is reserved for organizations
	// without an input in memory. Nine organizations can fill the unreserved memory, and twelve
	// more the reserved memory, so the few organizations of one person cannot fill either part.
	inputShare    = 8 << 20
	newcomerBytes = inputBytes / 4
)

// inputs limits the memory for data of runs: one value for large inputs and histories, another
// value for the images in prompts. It is safe for concurrent use. Runs wait in the order of their
// arrival, with two exceptions. Other runs may pass a run whose organization has reached its share.
// Runs of organizations without an input in memory may pass those of other organizations.
type inputs struct {
	mu      sync.Mutex
	used    int            // reserved bytes of all runs
	byOrg   map[string]int // reserved bytes by organization
	waiting []*inputTurn   // runs that wait for memory, in the order of their arrival
}

// inputTurn is a run's reservation of memory, or its position in the queue.
type inputTurn struct {
	org   string
	bytes int
	// granted is closed once the bytes are reserved.
	granted chan struct{}
}

// newInputs returns inputs without any reservation.
func newInputs() *inputs { return &inputs{byOrg: map[string]int{}} }

// enter waits until a run of org may use the given number of bytes. The caller must release the
// bytes with leave. If ctx ends first, enter reserves nothing and fails with the cause of ctx.
func (in *inputs) enter(ctx context.Context, org string, bytes int) (*inputTurn, error) {
	// A run whose data is larger than the share is admitted if no other run of its organization has
	// reserved memory.
	turn := &inputTurn{org, min(bytes, inputShare), make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, turn)
	in.grant()
	in.mu.Unlock()

	// A run leaves the queue without memory if it is cancelled or reaches its deadline, or if the
	// worker stops.
	select {
	case <-turn.granted:
		return turn, nil
	case <-ctx.Done():
		in.leave(turn)
		return nil, context.Cause(ctx)
	}
}

// shrink reduces a reservation to the given number of bytes. The turn may be nil.
func (in *inputs) shrink(turn *inputTurn, bytes int) {
	if turn == nil || bytes >= turn.bytes {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.used -= turn.bytes - bytes
	in.add(turn.org, bytes-turn.bytes)
	turn.bytes = bytes
	in.grant()
}

// leave releases a reservation, or removes its turn from the queue. The turn may be nil.
func (in *inputs) leave(turn *inputTurn) {
	if turn == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	// A run that is still in the queue has reserved nothing.
	if i := slices.Index(in.waiting, turn); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
	} else {
		in.used -= turn.bytes
		in.add(turn.org, -turn.bytes)
	}
	in.grant()
}

// grant admits the waiting runs for which enough memory is free. The caller must hold the lock.
func (in *inputs) grant() {
	// full is true if an earlier run of an organization without inputs in memory waits for memory.
	// crowded is true if any earlier run waits for memory although its organization has not reached
	// its share.
	kept, full, crowded := in.waiting[:0], false, false
	for _, turn := range in.waiting {
		newcomer, over := in.byOrg[turn.org] == 0, in.byOrg[turn.org]+turn.bytes > inputShare
		// A run that waits only because the memory is full blocks later runs. A newcomer blocks all
		// of them; any other run blocks only runs that are not newcomers.
		full = full || newcomer && in.used+turn.bytes > inputBytes
		crowded = full || crowded || !newcomer && !over && in.used+turn.bytes > inputBytes-newcomerBytes
		if over || newcomer && full || !newcomer && crowded {
			kept = append(kept, turn)
			continue
		}
		in.used += turn.bytes
		in.add(turn.org, turn.bytes)
		close(turn.granted)
	}

	// The slice is reused, so remove the pointers to admitted runs from its end.
	clear(in.waiting[len(kept):])
	in.waiting = kept
}

// add changes the memory that is reserved for an organization.
func (in *inputs) add(org string, bytes int) {
	if in.byOrg[org] += bytes; in.byOrg[org] == 0 {
		delete(in.byOrg, org)
	}
}
