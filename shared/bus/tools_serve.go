package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"parley/shared/contract"
)

const (
	beatInterval = 2 * time.Second // how often a worker reports that it is still processing a call
	cancelGrace  = 2 * time.Second // time for cancelled calls to send their replies
)

// ToolMessage is a call received from the bus.
type ToolMessage struct {
	Capability  string
	Body        []byte
	Deadline    time.Time
	Traceparent string // may be empty
}

// ToolOptions configures how a worker accepts calls of one kind of tool.
type ToolOptions struct {
	Slots int // maximum number of running calls
	Queue int // maximum number of calls that wait for a slot, divided among owners; further calls are rejected
	// Owner returns the owner of a call. Slots are divided among owners. If ok is false, the call
	// is rejected. Owner is called before the call is accepted, from one goroutine, and must be
	// fast. If Owner is nil, all calls have the same owner.
	Owner func(ToolMessage) (owner string, ok bool)
	// Observe, if not nil, is called with the numbers of running and waiting calls, initially
	// and after every change. It must be fast.
	Observe func(running, waiting int)
}

// toolServer serves one kind of tool in a worker. ServeTool creates it, and stop ends it.
type toolServer struct {
	nc     *nats.Conn
	log    zerolog.Logger
	owner  func(ToolMessage) (string, bool)
	handle func(context.Context, ToolMessage) ([]byte, bool)
	pool   *slotPool
}

// ServeTool accepts calls of a kind of tool, shared with all other workers that serve it. The
// function handle executes a call. It must return when its context ends, which is clockLeeway after
// the call's deadline at the latest. If handle returns false, the call is rejected.
//
// The function stop rejects further calls and lets running calls finish. When the context of stop
// ends, stop cancels the calls that are still running.
func (b *Bus) ServeTool(
	kind string, cfg ToolOptions, handle func(ctx context.Context, call ToolMessage) (answer []byte, ok bool),
) (stop func(ctx context.Context), err error) {
	// Calls run under their own context, so that they outlive the context of the caller of
	// ServeTool.
	work, cancel := context.WithCancel(context.Background())
	s := &toolServer{
		nc: b.nc, log: b.log.With().Str("tool", kind).Logger(), owner: cfg.Owner, handle: handle,
		pool: newSlotPool(cfg),
	}

	// The server delivers each call to one member of the queue group.
	sub, err := b.nc.QueueSubscribe(contract.ToolSubject(kind), contract.ToolGroup(kind), func(m *nats.Msg) { s.receive(work, m) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribing to calls of %s: %w", kind, err)
	}
	_ = b.flush(work) // after the flush, the server has the subscription and callers find this worker
	return func(ctx context.Context) { s.stop(ctx, sub, cancel) }, nil
}

// receive accepts a call, which is then executed under the context work, or rejects it. It runs in
// the subscription's goroutine.
func (s *toolServer) receive(work context.Context, m *nats.Msg) {
	deadline, err := time.Parse(deadlineFormat, m.Header.Get(contract.HeaderDeadline))
	call := ToolMessage{
		Capability: m.Header.Get(contract.HeaderCapability), Body: m.Data, Deadline: deadline,
		Traceparent: m.Header.Get(contract.HeaderTraceparent),
	}

	// An expired call is rejected, because its caller no longer waits.
	if m.Reply == "" || err != nil || !deadline.Add(clockLeeway).After(time.Now()) {
		s.sendStage(m.Reply, contract.StageRefused, nil)
		return
	}

	owner := ""
	if s.owner != nil {
		var ok bool
		if owner, ok = s.owner(call); !ok {
			s.sendStage(m.Reply, contract.StageRefused, nil)
			return
		}
	}

	// Another goroutine executes the call, so that this one can receive the next message.
	turn := s.pool.acquire(owner)
	if turn == nil {
		s.sendStage(m.Reply, contract.StageBusy, nil)
		return
	}

	s.sendStage(m.Reply, contract.StageAccepted, nil)
	go s.serve(work, call, m.Reply, turn)
}

// serve waits for the call's turn, executes the call, and sends the reply. Meanwhile it regularly
// sends beats, which show that the worker is alive.
func (s *toolServer) serve(ctx context.Context, call ToolMessage, reply string, turn *toolTurn) {
	defer s.pool.release(turn)

	// The leeway allows for a clock of this machine that is ahead of the caller's clock.
	ctx, cancel := context.WithDeadline(ctx, call.Deadline.Add(clockLeeway))
	defer cancel()
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for waiting := true; waiting; {
		select {
		case <-turn.begin:
			waiting = false
		case <-beat.C:
			s.sendStage(reply, contract.StageWorking, nil)
		case <-ctx.Done(): // not started
			s.sendStage(reply, contract.StageBusy, nil)
			return
		}
	}

	// The call may get a slot at the moment when its caller stops waiting.
	if ctx.Err() != nil {
		s.sendStage(reply, contract.StageBusy, nil)
		return
	}

	// The handler runs in another goroutine, so that this one can send beats while the handler
	// works.
	done := make(chan func(), 1)
	go func() {
		answer, ok := s.handle(ctx, call)
		if !ok {
			done <- func() { s.sendStage(reply, contract.StageRefused, nil) }
			return
		}
		done <- func() { s.sendStage(reply, contract.StageAnswer, answer) }
	}()

	for {
		select {
		// The handler returns when ctx ends, so this loop ends, too.
		case answer := <-done:
			answer()
			return
		case <-beat.C:
			s.sendStage(reply, contract.StageWorking, nil)
		}
	}
}

// sendStage sends a message about a call to its caller. It only logs an error.
func (s *toolServer) sendStage(reply string, stage contract.ToolStage, body []byte) {
	if reply == "" {
		return
	}

	err := s.nc.PublishMsg(&nats.Msg{Subject: reply, Data: body, Header: nats.Header{contract.HeaderStage: {string(stage)}}})
	if err != nil { // the error is only logged: without a message, the caller treats the worker as lost
		s.log.WithLevel(level(stage)).Err(err).Str("stage", string(stage)).Int("bytes", len(body)).Msg("cannot send a message about a tool call")
	}
}

// level returns the log level for a message that could not be sent. Only lost replies are warnings,
// so that lost beats do not flood the log during an outage.
func level(stage contract.ToolStage) zerolog.Level {
	if stage == contract.StageAnswer {
		return zerolog.WarnLevel
	}
	return zerolog.DebugLevel
}

// stop ends the service. It rejects calls that have arrived but were not read yet, so that another
// worker accepts them.
func (s *toolServer) stop(ctx context.Context, sub *nats.Subscription, cancel context.CancelFunc) {
	defer cancel()

	// From now on, calls that arrive get StageBusy, so that their callers try another worker.
	idle := s.pool.close()
	_ = sub.Drain() // fails only if the connection is closed
	select {
	case <-idle:
	case <-ctx.Done():
		cancel()
		grace := time.NewTimer(cancelGrace)
		defer grace.Stop()
		select {
		case <-idle:
		case <-grace.C:
			s.log.Warn().Msg("tool calls did not stop after they were cancelled")
		}
	}

	_ = s.nc.FlushTimeout(flushTimeout) // a lost reply does no harm: the result is in the ledger, or the caller repeats the call
}
