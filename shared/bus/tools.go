package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

// How calls of tools can go wrong on their way.
var (
	// ErrNoToolWorker says that no tool worker took the call: there is none, or none has a place. Only a worker that
	// was frozen just then may still begin it.
	ErrNoToolWorker = errors.New("no tool worker took the call")
	// ErrToolsAway is the ErrNoToolWorker of a call during which the bus itself was away: it says nothing of the workers,
	// and one of them may have taken the call just before.
	ErrToolsAway = fmt.Errorf("%w: the bus was unreachable", ErrNoToolWorker)
	// ErrToolLost says that a worker took the call and was not heard of again.
	ErrToolLost = errors.New("the tool worker was lost")
	// ErrToolRefused says that a worker did not accept the capability or could not read the call.
	ErrToolRefused = errors.New("the tool worker rejected the call")
	// ErrToolTooLarge says that the call is too large for a message; nothing was sent.
	ErrToolTooLarge = errors.New("the call is too large for a message")
)

// errAbsent says that nobody at all is there to take a call.
var errAbsent = errors.New("no subscriber")

const (
	acceptWithin = 1800 * time.Millisecond // a missing tool worker must be an error within 2 s
	offerFor     = 850 * time.Millisecond  // then another worker may get the call
	clockLeeway  = 5 * time.Second         // by which a worker's clock may be ahead
	answerGrace  = 7 * time.Second         // behind the deadline, for the worker's word that it was too late
	absentWithin = 500 * time.Millisecond  // nobody subscribed: long enough for a worker to reconnect
	retryPause   = 100 * time.Millisecond
	outageFor    = 6 * time.Second // that the bus may be away before a call is given up
	lostAfter    = 6 * time.Second // three beats

	deadlineFormat = "2006-01-02T15:04:05.000Z07:00"
)

// ToolCaller calls tools on tool workers; safe for concurrent use. All its calls share one subscription.
type ToolCaller struct {
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription
	last  atomic.Uint64 // call

	mu    sync.Mutex
	calls map[string]*toolCall
}

// toolCall is a call that waits. Its channels never block who writes: beats may be dropped, and of what ends an
// attempt one is enough.
type toolCall struct {
	alive chan struct{}
	ends  chan *nats.Msg
}

// NewToolCaller subscribes for the answers.
func (b *Bus) NewToolCaller() (*ToolCaller, error) {
	c := &ToolCaller{nc: b.nc, inbox: b.nc.NewInbox(), calls: map[string]*toolCall{}}
	sub, err := b.nc.Subscribe(c.inbox+".*", c.hear)
	if err != nil {
		return nil, fmt.Errorf("subscribing for tools' answers: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by the calls that wait
	c.sub = sub
	return c, nil
}

// Close ends the subscription. Calls that still wait end as if the workers were lost.
func (c *ToolCaller) Close() { _ = c.sub.Unsubscribe() } // fails only when the connection is closed

// hear hands a message from a tool worker, or the server's word that there is none, to the call that waits for it.
func (c *ToolCaller) hear(m *nats.Msg) {
	c.mu.Lock()
	call := c.calls[contract.RunIDFor(m.Subject)]
	c.mu.Unlock()
	if call == nil {
		return // it no longer waits
	}
	switch stageFor(m) {
	case contract.StageAccepted, contract.StageWorking:
		select {
		case call.alive <- struct{}{}:
		default:
		}
	default:
		select {
		case call.ends <- m:
		default:
		}
	}
}

// Call has a tool worker carry a call out and gives its answer, a contract.ToolReply. The worker is told the deadline, and a
// moment behind it Call returns. Its errors are ErrNoToolWorker, ErrToolsAway, ErrToolLost, ErrToolRefused, ErrToolTooLarge
// and ctx's.
//
// A call that nobody takes is offered again as long as there is hope: to another worker, where one is frozen, has no
// place, or does not accept the capability. One that was frozen may take an old offer late; then two carry the call
// out, and what must not happen twice is the effect ledger's to prevent.
func (c *ToolCaller) Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error) {
	if !deadline.After(time.Now()) {
		return nil, context.DeadlineExceeded
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(answerGrace))
	defer cancel()
	msg := &nats.Msg{Subject: contract.ToolSubject(kind), Data: body, Header: nats.Header{
		contract.HeaderDeadline: {deadline.UTC().Format(deadlineFormat)}, contract.HeaderCapability: {capability},
	}}
	if traceparent := contract.Traceparent(ctx); traceparent != "" {
		msg.Header[contract.HeaderTraceparent] = []string{traceparent}
	}
	outage, absent := time.Now().Add(outageFor), absentWithin
	for {
		here := c.presence()
		turned, answer, err := c.offerAround(ctx, msg, absent)
		if !turned || here.connected && c.presence() == here {
			return answer, err
		}
		if time.Now().After(outage) {
			return nil, ErrToolsAway
		}
		absent = acceptWithin // workers have to come back, too: they get all the time that there is for one that is frozen
	}
}

// offerAround offers a call again and again for as long as a worker has to take it; less when for some time nobody at all
// is there. A call that nobody took was turned away, and err says why.
func (c *ToolCaller) offerAround(ctx context.Context, msg *nats.Msg, absent time.Duration) (turned bool, answer []byte, err error) {
	began, nobody := time.Now(), ErrNoToolWorker
	for left := acceptWithin; left > 0; left = acceptWithin - time.Since(began) {
		turned, answer, err = c.offer(ctx, msg, min(left, offerFor))
		if !turned {
			return false, answer, err
		}
		if errors.Is(err, ErrToolRefused) {
			nobody = err
		}
		if errors.Is(err, errAbsent) && time.Since(began) >= absent {
			return true, nil, nobody
		}
		if err := wait(ctx, retryPause); err != nil {
			return false, nil, err
		}
	}
	return true, nil, nobody
}

// presence is whether the server can be reached, and how often it has come back: as long as both stay the same, it was
// there all the time.
type presence struct {
	connected  bool
	reconnects uint64
}

func (c *ToolCaller) presence() presence {
	return presence{c.nc.IsConnected(), c.nc.Stats().Reconnects}
}

// offer sends a call once, waits until a worker takes it, and then for the end of it. When it was turned away, it may be
// offered again; err then says why.
func (c *ToolCaller) offer(ctx context.Context, msg *nats.Msg, within time.Duration) (turned bool, answer []byte, err error) {
	token := strconv.FormatUint(c.last.Add(1), 36)
	call := &toolCall{alive: make(chan struct{}, 1), ends: make(chan *nats.Msg, 1)}
	c.mu.Lock()
	c.calls[token] = call
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, token)
		c.mu.Unlock()
	}()
	msg.Reply = c.inbox + "." + token
	if err := c.nc.PublishMsg(msg); err != nil {
		if errors.Is(err, nats.ErrMaxPayload) {
			return false, nil, ErrToolTooLarge
		}
		return true, nil, err // the connection is away, perhaps not for long
	}
	return taken(ctx, call, within)
}

// taken waits until a worker takes a call, and then for its end.
func taken(ctx context.Context, call *toolCall, within time.Duration) (turned bool, answer []byte, err error) {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return false, nil, ctx.Err()
	case <-late.C:
		return true, nil, ErrNoToolWorker
	case <-call.alive:
		answer, err = await(ctx, call)
		return false, answer, err
	case m := <-call.ends:
		switch stageFor(m) {
		case contract.StageBusy:
			return true, nil, ErrNoToolWorker
		case contract.StageRefused:
			return true, nil, ErrToolRefused
		case "": // the server's word that nobody is subscribed
			return true, nil, errAbsent
		default:
			answer, err = ended(m)
			return false, answer, err
		}
	}
}

// wait lets a pause pass, a little longer at random, so that those who were turned away do not come back as one.
func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause + rand.N(pause/2)) //nolint:gosec // G404: no secret
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// await waits for the end of a call that a worker has taken.
func await(ctx context.Context, call *toolCall) ([]byte, error) {
	silence := time.NewTimer(lostAfter)
	defer silence.Stop()
	for {
		select {
		case m := <-call.ends:
			return ended(m)
		case <-call.alive:
			silence.Reset(lostAfter)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-silence.C:
			return nil, ErrToolLost
		}
	}
}

func stageFor(m *nats.Msg) contract.ToolStage {
	return contract.ToolStage(m.Header.Get(contract.HeaderStage))
}

func ended(m *nats.Msg) ([]byte, error) {
	switch stageFor(m) {
	case contract.StageAnswer:
		return m.Data, nil
	case contract.StageBusy:
		return nil, ErrNoToolWorker
	default:
		return nil, ErrToolRefused
	}
}
