package runner

import (
	"context"
	"slices"
	"sync"

	"parley/shared/store/sessiondb"
	"parley/workers/internal/agentloop"
)

const (
	// inputBytes bounds the large inputs and histories of the runs in hand: a worker has thousands of slots, and each input is in memory
	// several times.
	inputBytes = 96 << 20
	// inputShare bounds those of one organization, and newcomerBytes is kept for organizations that have none in hand. It takes nine
	// organizations to fill the rest, and twelve more to fill this: more than one person may own.
	inputShare    = 8 << 20
	newcomerBytes = inputBytes / 4
)

// inputs are the large inputs and histories in memory. Runs wait for room in the order in which they came. Organizations that have their
// share are passed by others, and organizations that have any input in hand by newcomers.
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

// enter waits for room for what a run of an organization reads. leave gives it back.
func (in *inputs) enter(ctx context.Context, org string, bytes int) (*inputTurn, error) {
	turn := &inputTurn{org, min(bytes, inputShare), make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, turn)
	in.grant()
	in.mu.Unlock()

	select {
	case <-turn.granted:
		return turn, nil
	case <-ctx.Done():
		in.leave(turn)
		return nil, context.Cause(ctx)
	}
}

// shrink gives back the room of a turn beyond so many bytes. The turn may be nil.
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

// leave gives back the room of a turn, or its place in the queue. The turn may be nil.
func (in *inputs) leave(turn *inputTurn) {
	if turn == nil {
		return
	}
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

// load reads what a run's claim does not hold: an input that was too large for it, and the earlier turns of its session. If these are
// large, load waits until there is room for both. The caller gives the room back. It is nil if none was needed.
func (r *Runner) load(ctx context.Context, a *attempt) (turns []sessiondb.Turn, room *inputTurn, err error) {
	c, large := a.claim, 0
	if c.Seq > 1 {
		if turns, large, err = r.sessions.ShortHistory(ctx, c.OrganizationID, c.SessionRef, c.Seq, historyMax); err != nil {
			return nil, nil, retryable(err)
		}
	}
	if large+c.LargeInput == 0 {
		return turns, nil, nil
	}
	if room, err = r.inputs.enter(ctx, c.OrganizationID, large+c.LargeInput); err != nil {
		return nil, nil, err
	}
	if c.LargeInput > 0 {
		a.claim.RawInput, err = r.records.RunInput(ctx, c.OrganizationID, c.RunID)
	}
	if large > 0 && err == nil {
		turns, err = r.sessions.History(ctx, c.OrganizationID, c.SessionRef, c.Seq, historyMax)
	}
	if err != nil {
		r.inputs.leave(room)
		return nil, nil, retryable(err)
	}
	return turns, room, nil
}

// keepHistory gives back the room of the turns that do not fit the model.
func (r *Runner) keepHistory(a *attempt, room *inputTurn, kept []agentloop.Turn) {
	bytes := a.claim.LargeInput
	for _, turn := range kept {
		for _, m := range turn.Messages {
			bytes += m.Size()
		}
	}
	r.inputs.shrink(room, bytes)
}
