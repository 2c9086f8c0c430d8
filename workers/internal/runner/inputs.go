package runner

import (
	"context"
	"slices"
	"sync"
)

const (
	// inputBytes bounds the large inputs of the runs in hand: a worker has thousands of slots, and each input is in memory several times.
	inputBytes = 96 << 20
	// inputShare bounds those of one organization, and newcomerBytes is kept for organizations that have none in hand. It takes nine
	// organizations to fill the rest, and twelve more to fill this: more than one person may own.
	inputShare    = 8 << 20
	newcomerBytes = inputBytes / 4
)

// inputs are the large inputs in memory. Runs wait for room in the order in which they came. Organizations that have their share are
// passed by others, and organizations that have any input in hand by newcomers.
type inputs struct {
	mu      sync.Mutex
	used    int // bytes
	of      map[string]int
	waiting []*inputTurn
}

// inputTurn is a run that waits for room.
type inputTurn struct {
	org     string
	bytes   int
	granted chan struct{}
}

func newInputs() *inputs { return &inputs{of: map[string]int{}} }

// enter waits for room for an organization's input. leave gives it back.
func (in *inputs) enter(ctx context.Context, org string, bytes int) (leave func(), err error) {
	turn := &inputTurn{org, min(bytes, inputShare), make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, turn)
	in.grant()
	in.mu.Unlock()

	select {
	case <-turn.granted:
		return func() { in.leave(turn) }, nil
	case <-ctx.Done():
		in.leave(turn)
		return nil, context.Cause(ctx)
	}
}

// leave gives back the room of a turn, or its place in the queue.
func (in *inputs) leave(turn *inputTurn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i := slices.Index(in.waiting, turn); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
	} else {
		in.used -= turn.bytes
		in.add(turn.org, -turn.bytes)
	}
	in.grant()
}

// grant gives room to those that wait. It is called under the lock.
func (in *inputs) grant() {
	kept, full, crowded := in.waiting[:0], false, false
	for _, turn := range in.waiting {
		newcomer, over := in.of[turn.org] == 0, in.of[turn.org]+turn.bytes > inputShare
		// Nobody of its kind passes a run that waits for room alone.
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
	clear(in.waiting[len(kept):])
	in.waiting = kept
}

func (in *inputs) add(org string, bytes int) {
	if in.of[org] += bytes; in.of[org] == 0 {
		delete(in.of, org)
	}
}

// loadInput reads an input that was too large to be claimed with its run, once there is room for it. leave gives the room back.
func (r *Runner) loadInput(ctx context.Context, a *attempt) (leave func(), err error) {
	if a.claim.LargeInput == 0 {
		return func() {}, nil
	}
	leave, err = r.inputs.enter(ctx, a.claim.OrganizationID, a.claim.LargeInput)
	if err != nil {
		return nil, err
	}
	if a.claim.RawInput, err = r.records.RunInput(ctx, a.claim.OrganizationID, a.claim.RunID); err != nil {
		leave()
		return nil, retryable(err)
	}
	return leave, nil
}
