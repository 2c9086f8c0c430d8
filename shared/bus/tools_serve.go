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
	beatEvery  = 2 * time.Second
	cancelWait = 2 * time.Second // for calls that were cancelled to give their answers
)

// ToolMessage is a call as it came over the bus.
type ToolMessage struct {
	Capability  string
	Body        []byte
	Deadline    time.Time
	Traceparent string // may be empty
}

// ToolServing is how much a worker takes on of one kind of tool.
type ToolServing struct {
	Slots int // calls carried out at a time
	Queue int // calls that wait for a slot, in equal parts for owners; what comes beyond them is turned away
	// Owner names who has the call made, so that slots are shared among owners; false refuses the call. It is called
	// before the call is accepted, from one goroutine, and must be quick. Nil: one owner has them all.
	Owner func(ToolMessage) (owner string, ok bool)
	// Observe is told how many calls are carried out and how many wait, at first and whenever that changes; it must be
	// quick. Nil: nobody wants to know.
	Observe func(running, waiting int)
}

// toolServer is a worker's part for one kind of tool.
type toolServer struct {
	nc     *nats.Conn
	log    zerolog.Logger
	owner  func(ToolMessage) (string, bool)
	handle func(context.Context, ToolMessage) ([]byte, bool)
	places *toolPlaces
}

// ServeTool takes calls of a kind of tool, and shares them with all other workers that do. handle carries one out and
// returns by the end of its context, which is the call's deadline at the latest; false refuses the call.
//
// stop takes no more calls, lets those in hand finish until its context ends, then cancels the rest.
func (b *Bus) ServeTool(
	kind string, cfg ToolServing, handle func(ctx context.Context, call ToolMessage) (answer []byte, ok bool),
) (stop func(ctx context.Context), err error) {
	work, cancel := context.WithCancel(context.Background())
	s := &toolServer{
		nc: b.nc, log: b.log.With().Str("tool", kind).Logger(), owner: cfg.Owner, handle: handle,
		places: newToolPlaces(cfg),
	}
	sub, err := b.nc.QueueSubscribe(contract.ToolSubject(kind), contract.ToolGroup(kind), func(m *nats.Msg) { s.receive(work, m) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribing to calls of %s: %w", kind, err)
	}
	_ = b.flush(work) // who is told that this worker is ready finds it; when the connection is away, once it is back
	return func(ctx context.Context) { s.stop(ctx, sub, cancel) }, nil
}

// receive accepts a call that is to be carried out under work, or turns it away. It runs in the subscription's one goroutine.
func (s *toolServer) receive(work context.Context, m *nats.Msg) {
	deadline, err := time.Parse(deadlineFormat, m.Header.Get(contract.HeaderDeadline))
	call := ToolMessage{
		Capability: m.Header.Get(contract.HeaderCapability), Body: m.Data, Deadline: deadline,
		Traceparent: m.Header.Get(contract.HeaderTraceparent),
	}
	if m.Reply == "" || err != nil || !deadline.Add(clockLeeway).After(time.Now()) {
		s.say(m.Reply, contract.StageRefused, nil)
		return
	}
	owner := ""
	if s.owner != nil {
		var ok bool
		if owner, ok = s.owner(call); !ok {
			s.say(m.Reply, contract.StageRefused, nil)
			return
		}
	}
	turn := s.places.ask(owner)
	if turn == nil {
		s.say(m.Reply, contract.StageBusy, nil)
		return
	}
	s.say(m.Reply, contract.StageAccepted, nil)
	go s.serve(work, call, m.Reply, turn)
}

// serve waits for the call's turn, carries it out, and answers; until then it tells every now and then that it is there.
func (s *toolServer) serve(ctx context.Context, call ToolMessage, reply string, turn *toolTurn) {
	defer s.places.leave(turn)
	ctx, cancel := context.WithDeadline(ctx, call.Deadline.Add(clockLeeway))
	defer cancel()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for waiting := true; waiting; {
		select {
		case <-turn.begin:
			waiting = false
		case <-beat.C:
			s.say(reply, contract.StageWorking, nil)
		case <-ctx.Done(): // not begun
			s.say(reply, contract.StageBusy, nil)
			return
		}
	}
	if ctx.Err() != nil {
		s.say(reply, contract.StageBusy, nil)
		return
	}
	done := make(chan func(), 1)
	go func() {
		answer, ok := s.handle(ctx, call)
		if !ok {
			done <- func() { s.say(reply, contract.StageRefused, nil) }
			return
		}
		done <- func() { s.say(reply, contract.StageAnswer, answer) }
	}()
	for {
		select {
		case answer := <-done:
			answer()
			return
		case <-beat.C:
			s.say(reply, contract.StageWorking, nil)
		}
	}
}

func (s *toolServer) say(reply string, stage contract.ToolStage, body []byte) {
	if reply == "" {
		return
	}
	err := s.nc.PublishMsg(&nats.Msg{Subject: reply, Data: body, Header: nats.Header{contract.HeaderStage: {string(stage)}}})
	if err != nil { // whoever calls takes silence for loss
		s.log.WithLevel(level(stage)).Err(err).Str("stage", string(stage)).Int("bytes", len(body)).Msg("cannot answer a tool call")
	}
}

// level keeps beats without a connection from filling the log.
func level(stage contract.ToolStage) zerolog.Level {
	if stage == contract.StageAnswer {
		return zerolog.WarnLevel
	}
	return zerolog.DebugLevel
}

// stop ends the service. What has arrived already and was not looked at yet is turned away, to another worker.
func (s *toolServer) stop(ctx context.Context, sub *nats.Subscription, cancel context.CancelFunc) {
	defer cancel()
	idle := s.places.close()
	_ = sub.Drain() // fails only when the connection is closed
	select {
	case <-idle:
	case <-ctx.Done():
		cancel()
		grace := time.NewTimer(cancelWait)
		defer grace.Stop()
		select {
		case <-idle:
		case <-grace.C:
			s.log.Warn().Msg("tool calls did not stop after they were cancelled")
		}
	}
	_ = s.nc.FlushTimeout(flushTimeout) // an answer that is lost is in the ledger, or the call is made again
}
