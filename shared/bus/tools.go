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
	"parley/shared/lifecycle"
)

// Errors of tool calls.
var (
	// ErrNoToolWorker means that no tool worker accepted the call: no worker is running, or none
	// has a free slot. A worker that was frozen when it received the call may still execute it
	// later.
	ErrNoToolWorker = errors.New("no tool worker accepted the call")
	// ErrToolsAway wraps ErrNoToolWorker. It means that the bus was unreachable, so the state of
	// the workers is unknown. A worker may have taken the call just before the connection failed.
	ErrToolsAway = fmt.Errorf("%w: NATS was unreachable", ErrNoToolWorker)
	// ErrToolLost means that a worker accepted the call and then sent nothing for silenceTimeout.
	ErrToolLost = errors.New("the tool worker stopped responding")
	// ErrToolRefused means that a worker rejected the capability or could not read the call.
	ErrToolRefused = errors.New("the tool worker rejected the call")
	// ErrToolTooLarge means that the call is too large for a message. Nothing was sent.
	ErrToolTooLarge = errors.New("the call is too large for a message")
)

// errAbsent means that no worker is subscribed.
var errAbsent = errors.New("no subscriber")

// Timeouts for a call on the caller's side. The worker's timeouts are in tools_serve.go.
const (
	acceptTimeout  = 1800 * time.Millisecond // total time of all offers; without a tool worker, the call must fail within 2 s
	offerTimeout   = 850 * time.Millisecond  // without an acceptance for this time, the call is offered to another worker
	clockLeeway    = 5 * time.Second         // maximum time by which a worker's clock may be ahead of the caller's
	answerGrace    = 7 * time.Second         // time after the deadline in which the worker may report that the call came too late
	maxAbsence     = 500 * time.Millisecond  // maximum time to offer the call while no worker is subscribed
	retryPause     = 100 * time.Millisecond  // between two offers of a call
	maxOutage      = 6 * time.Second         // maximum time that the bus may be unreachable before the call fails
	silenceTimeout = 6 * time.Second         // a worker that sends nothing for three beat intervals counts as lost

	deadlineFormat = "2006-01-02T15:04:05.000Z07:00"
)

// ToolCaller calls tools on tool workers. It is safe for concurrent use. All its calls share
// one subscription.
type ToolCaller struct {
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription
	last  atomic.Uint64 // number of the last call

	mu    sync.Mutex
	calls map[string]*toolCall
}

// toolCall is a pending call. Sending to its channels never blocks: beats that do not fit are
// dropped, and only the first final message counts.
type toolCall struct {
	alive chan struct{}  // receives a value for each message from the worker; capacity 1
	ends  chan *nats.Msg // receives the message that ends the call; capacity 1
}

// NewToolCaller subscribes to the answers. The caller closes it before the Bus.
func (b *Bus) NewToolCaller() (*ToolCaller, error) {
	c := &ToolCaller{nc: b.nc, inbox: b.nc.NewInbox(), calls: map[string]*toolCall{}}
	sub, err := b.nc.Subscribe(c.inbox+".*", c.handleMessage)
	if err != nil {
		return nil, fmt.Errorf("subscribing to replies from tool workers: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by the pending calls
	c.sub = sub
	return c, nil
}

// Close ends the subscription. Pending calls then fail as if their workers were lost.
func (c *ToolCaller) Close() { _ = c.sub.Unsubscribe() } // fails only if the connection is closed

// handleMessage passes a message to the pending call. The message comes from a tool worker, or it
// is the reply "no responders" of the NATS server.
func (c *ToolCaller) handleMessage(m *nats.Msg) {
	c.mu.Lock()
	call := c.calls[contract.RunIDFor(m.Subject)]
	c.mu.Unlock()
	if call == nil {
		return // no longer pending
	}

	// A message of stage accepted or beat only shows that the worker is alive. Any other stage ends
	// the call.
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

// Call executes a call on a tool worker and returns the worker's reply, a contract.ToolReply. It
// returns shortly after the deadline at the latest. Its errors are ErrNoToolWorker, ErrToolsAway,
// ErrToolLost, ErrToolRefused, ErrToolTooLarge and the errors of ctx.
//
// Call offers a call repeatedly for a limited time, because a worker may be frozen, have no free
// slot, or reject the capability. A frozen worker may accept an old offer late, so two workers
// may execute the same call. The effect ledger prevents effects that must not happen twice.
func (c *ToolCaller) Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error) {
	if !deadline.After(time.Now()) {
		return nil, context.DeadlineExceeded
	}

	// The worker stops at the deadline. The additional time is for its reply, which may be a
	// recorded outcome.
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(answerGrace))
	defer cancel()
	msg := &nats.Msg{Subject: contract.ToolSubject(kind), Data: body, Header: nats.Header{
		contract.HeaderDeadline: {deadline.UTC().Format(deadlineFormat)}, contract.HeaderCapability: {capability},
	}}
	if traceparent := contract.Traceparent(ctx); traceparent != "" {
		msg.Header[contract.HeaderTraceparent] = []string{traceparent}
	}

	outage, absent := time.Now().Add(maxOutage), maxAbsence
	for {
		// If the connection is interrupted during the offers, workers may be unreachable rather
		// than absent.
		here := c.presence()
		notTaken, answer, err := c.offerRepeatedly(ctx, msg, absent)
		if !notTaken || here.connected && c.presence() == here {
			return answer, err
		}
		if time.Now().After(outage) {
			return nil, ErrToolsAway
		}
		absent = acceptTimeout // workers must also reconnect, so the call is offered for the full time
	}
}

// offerRepeatedly offers a call repeatedly for acceptTimeout. If no worker is subscribed,
// offerRepeatedly gives up earlier, after the duration absent. If notTaken is true, no worker took
// the call, and err is the reason.
func (c *ToolCaller) offerRepeatedly(ctx context.Context, msg *nats.Msg, absent time.Duration) (notTaken bool, answer []byte, err error) {
	began, nobody := time.Now(), ErrNoToolWorker
	for left := acceptTimeout; left > 0; left = acceptTimeout - time.Since(began) {
		notTaken, answer, err = c.offer(ctx, msg, min(left, offerTimeout))
		if !notTaken {
			return false, answer, err
		}

		// A rejection is more informative than a missing reply, so the rejection's error is kept.
		if errors.Is(err, ErrToolRefused) {
			nobody = err
		}
		if errors.Is(err, errAbsent) && time.Since(began) >= absent {
			return true, nil, nobody
		}
		if lifecycle.Sleep(ctx, jittered(retryPause)) != nil {
			return false, nil, ctx.Err()
		}
	}

	return true, nil, nobody
}

// presence is the state of the connection: whether the server is reachable, and how often the
// connection was restored. If two values are equal, the server was reachable during the whole time
// between them.
type presence struct {
	connected  bool
	reconnects uint64
}

// presence reads the current state of the connection.
func (c *ToolCaller) presence() presence {
	return presence{c.nc.IsConnected(), c.nc.Stats().Reconnects}
}

// offer sends a call once, waits until a worker takes it, and then waits for the reply. If notTaken
// is true, the call may be offered again; err is the reason.
func (c *ToolCaller) offer(ctx context.Context, msg *nats.Msg, within time.Duration) (notTaken bool, answer []byte, err error) {
	// The call is registered before it is sent, because the reply may arrive immediately.
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

	// Each offer has its own token, so that a late reply to an earlier offer is ignored.
	msg.Reply = c.inbox + "." + token
	if err := c.nc.PublishMsg(msg); err != nil {
		if errors.Is(err, nats.ErrMaxPayload) {
			return false, nil, ErrToolTooLarge
		}
		return true, nil, err // the connection is lost, perhaps briefly
	}

	return awaitAccepted(ctx, call, within)
}

// awaitAccepted waits until a worker takes a call, and then for the worker's reply.
func awaitAccepted(ctx context.Context, call *toolCall, within time.Duration) (notTaken bool, answer []byte, err error) {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return false, nil, ctx.Err()
	case <-late.C:
		// If no message arrives, the worker that received the offer may be frozen.
		return true, nil, ErrNoToolWorker
	case <-call.alive:
		answer, err = awaitAnswer(ctx, call)
		return false, answer, err
	case m := <-call.ends:
		switch stageFor(m) {
		case contract.StageBusy:
			return true, nil, ErrNoToolWorker
		case contract.StageRefused:
			return true, nil, ErrToolRefused
		case "": // no responders: no worker is subscribed
			return true, nil, errAbsent
		default:
			answer, err = ended(m)
			return false, answer, err
		}
	}
}

// jittered returns the duration pause plus up to half of it at random, so that rejected callers do
// not retry simultaneously.
func jittered(pause time.Duration) time.Duration {
	return pause + rand.N(pause/2) //nolint:gosec // G404: no secret
}

// awaitAnswer waits for the reply to a call that a worker has taken.
func awaitAnswer(ctx context.Context, call *toolCall) ([]byte, error) {
	// Each beat of the worker restarts the timer.
	silence := time.NewTimer(silenceTimeout)
	defer silence.Stop()
	for {
		select {
		case m := <-call.ends:
			return ended(m)
		case <-call.alive:
			silence.Reset(silenceTimeout)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-silence.C:
			return nil, ErrToolLost
		}
	}
}

// stageFor returns the stage in a message's header. It returns "" for a voice frame and for the
// server's reply "no responders", because they have no stage.
func stageFor(m *nats.Msg) contract.ToolStage {
	return contract.ToolStage(m.Header.Get(contract.HeaderStage))
}

// ended returns the reply in a call's final message, or the error that this message reports.
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
