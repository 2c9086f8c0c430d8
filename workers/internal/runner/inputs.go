package runner

import (
	"context"
	"slices"
	"sync"

	"parley/shared/store/sessiondb"
	"parley/workers/internal/agentloop"
)

const (
	// inputBytes bounds the large inputs and histories in memory. Without it, the thousands of
	// slots of a worker could fill the memory, which contains several copies of each input.
	inputBytes = 96 << 20
	// inputShare is the limit for one organization. newcomerBytes is reserved for organizations
	// that have no input in memory. Nine organizations can fill the unreserved part, and twelve
	// more the reserve. So one person's few organizations cannot fill the memory.
	inputShare    = 8 << 20
	newcomerBytes = inputBytes / 4
)

// inputs limits the memory for large inputs and histories. Runs wait in the order of their arrival,
// with two exceptions. A run whose organization has reached its share lets other runs pass. A run
// whose organization has an input in memory lets runs of organizations without one pass.
type inputs struct {
	mu      sync.Mutex
	used    int // bytes
	byOrg   map[string]int
	waiting []*inputTurn
}

// inputTurn is a run's reservation, or its position in the queue.
type inputTurn struct {
	org   string
	bytes int
	// granted is closed once the bytes are reserved.
	granted chan struct{}
}

// newInputs returns inputs without any reservation.
func newInputs() *inputs { return &inputs{byOrg: map[string]int{}} }

// enter waits until a run of org may use the given number of bytes. The caller releases them with
// leave.
func (in *inputs) enter(ctx context.Context, org string, bytes int) (*inputTurn, error) {
	// A run larger than the share is still admitted, alone within its organization.
	turn := &inputTurn{org, min(bytes, inputShare), make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, turn)
	in.grant()
	in.mu.Unlock()

	// A run that leaves the queue without memory was cancelled, timed out, or its worker stops.
	select {
	case <-turn.granted:
		return turn, nil
	case <-ctx.Done():
		in.leave(turn)
		return nil, context.Cause(ctx)
	}
}

// shrink reduces a reservation to the given size. The turn may be nil.
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
	// A turn that still waits has reserved nothing.
	if i := slices.Index(in.waiting, turn); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
	} else {
		in.used -= turn.bytes
		in.add(turn.org, -turn.bytes)
	}
	in.grant()
}

// grant admits the waiting runs that fit. The caller holds the lock.
func (in *inputs) grant() {
	// full says that an earlier run of an organization without input waits for memory. crowded says
	// the same about any earlier run that its own share would admit.
	kept, full, crowded := in.waiting[:0], false, false
	for _, turn := range in.waiting {
		newcomer, over := in.byOrg[turn.org] == 0, in.byOrg[turn.org]+turn.bytes > inputShare
		// If a run waits only because memory is full, later runs with the same claim to memory must
		// not pass it.
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

	// The slice is reused, so the pointers to admitted runs are removed from its end.
	clear(in.waiting[len(kept):])
	in.waiting = kept
}

// add changes an organization's usage.
func (in *inputs) add(org string, bytes int) {
	if in.byOrg[org] += bytes; in.byOrg[org] == 0 {
		delete(in.byOrg, org)
	}
}

// load reads the parts of a run that its claim does not contain: a large input, and the earlier
// turns of its session. If these parts are large, load first waits until memory for both is
// available. The caller releases room with leave; room is nil if no memory was reserved.
func (r *Runner) load(ctx context.Context, a *attempt) (turns []sessiondb.Turn, room *inputTurn, err error) {
	// The first run of a session has no history.
	c, large := a.claim, 0
	if c.Seq > 1 {
		if turns, large, err = r.sessions.ShortHistory(ctx, c.OrganizationID, c.SessionRef, c.Seq, maxHistory); err != nil {
			return nil, nil, retryable(err)
		}
	}

	// Small data is already in memory and needs no reservation.
	if large+c.LargeInput == 0 {
		return turns, nil, nil
	}

	// The sizes are known, so memory is reserved before the data is read.
	if room, err = r.inputs.enter(ctx, c.OrganizationID, large+c.LargeInput); err != nil {
		return nil, nil, err
	}

	if c.LargeInput > 0 {
		a.claim.RawInput, err = r.records.RunInput(ctx, c.OrganizationID, c.RunID)
	}
	if large > 0 && err == nil {
		turns, err = r.sessions.History(ctx, c.OrganizationID, c.SessionRef, c.Seq, maxHistory)
	}
	if err != nil {
		r.inputs.leave(room)
		return nil, nil, retryable(err)
	}
	return turns, room, nil
}

// keepHistory reduces the reservation by the turns that do not fit into the model's context.
func (r *Runner) keepHistory(a *attempt, room *inputTurn, kept []agentloop.Turn) {
	bytes := a.claim.LargeInput
	for _, turn := range kept {
		for _, m := range turn.Messages {
			bytes += m.Size()
		}
	}
	r.inputs.shrink(room, bytes)
}
