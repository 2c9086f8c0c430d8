package voicegate

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"parley/ingress/internal/realtime"
	"parley/shared/contract"
)

const (
	maxUnprocessed = 10 * contract.VoiceRate // if this many samples wait for the worker, the gate stops reading from the client
	maxJobs        = 32                      // if this many actions on runs are pending, the gate stops reading from the client

	eventRate, eventBurst   = 50, 500   // events other than audio per second; a client that sends more is disconnected
	appendRate, appendBurst = 500, 2000 // audio events per second; a client that sends more must wait

	lookWhileBusy  = time.Second            // interval between checks of a connection that may become idle
	lookWhileDrain = 100 * time.Millisecond // interval between checks of a draining connection
)

// connection is a voice connection. Unless noted otherwise, only the goroutine of serve uses the
// fields. That goroutine is called the owner. The method serve also starts the other goroutines of
// the connection; they end before serve returns.
type connection struct {
	gate *Gate
	// Decisions of the caller of Serve.
	a Admission
	// Time at which the request was accepted.
	began time.Time
	// State machine of the protocol.
	conversation *realtime.Conversation

	socket *websocket.Conn // WebSocket that reads and writes messages on conn
	// Hijacked connection; deadlines are set on it, and Close ends all reads and writes.
	conn net.Conn
	// Reads the client's messages.
	reader *reader
	// Messages from the reader.
	in chan clientMessage
	// Events to the client.
	out *eventQueue
	// Connection to the voice worker.
	voiceSession *voiceSession
	// Runs of the answers.
	turns *turns

	over    chan struct{} // closed when the owner no longer receives
	revoked chan struct{} // closed when the caller must no longer use the connection
	mute    chan struct{} // closed when the client does not respond to a ping
	stalls  atomic.Int64  // number of times that reading was paused or resumed; an odd number means paused

	hold *time.Timer // resumes reading from a client that has exceeded its rate
	// Whether reading waits for the timer hold.
	held    bool
	look    *time.Timer     // signals the next lookAround
	drain   <-chan struct{} // closed when the gate begins to drain; then replaced by a channel that is closed when all connections must end
	leaving bool            // whether the gate has begun to drain
	events  bucket          // limits the rate of events other than audio
	appends bucket          // limits the rate of audio events

	announced bool // whether session.created was sent to the client; it is sent when the first worker is connected
	// Why the connection ends; nil while it is open.
	outcome *end
	last    time.Time // latest time passed to the conversation
	answers int       // number of answers requested
	lost    int       // number of voice sessions lost
	stopped time.Time // when the worker reported the end of speech; zero after an answer has begun
	due     string    // id of the newest answer to speech; empty after a part of it was written
	dueFrom time.Time // end of the speech that this answer follows
}

// serve serves the connection until it ends. It opens a voice session and then handles events until
// c.outcome is set. It closes the connection also after a panic.
func (c *connection) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// The deferred function uses the parts that prepare creates, so they must exist before a
	// goroutine starts.
	c.prepare()
	var group sync.WaitGroup
	defer func() { // deferred, so that the goroutines end even after a panic
		c.close()
		late := time.AfterFunc(c.gate.times.run, cancel) // limits the time for the remaining actions on runs
		group.Wait()
		late.Stop()
		c.report()
	}()
	//nolint:contextcheck // reading and writing end with the socket
	group.Go(func() { c.out.write(c.socket, c.conn, c.gate.times.write) })
	group.Go(func() { c.reader.read(c.in, c.over) }) //nolint:contextcheck // as above
	group.Go(func() { c.turns.work(ctx) })
	group.Go(func() { c.ping(ctx) })
	group.Go(c.watchPermit)
	c.openLine(ctx, c.gate.times.open)
	for c.outcome == nil {
		c.step(ctx)
	}
}

// prepare creates the parts of the connection. It does not start a goroutine.
func (c *connection) prepare() {
	g := c.gate
	log := g.deps.Log.With().Str("session_id", c.a.Conversation.SessionID).Logger()
	c.over, c.revoked, c.mute = make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.in, c.out = make(chan clientMessage), newOutgoing()
	c.voiceSession = newVoiceSession(g.deps.Sessions, g.deps.Signer, c.a.Organization)
	c.turns = newTurns(c.a.Runs, log, g.times.run, c.over)
	c.hold, c.look = time.NewTimer(time.Hour), time.NewTimer(0)
	c.drain = g.draining
	c.events, c.appends = newBucket(eventRate, eventBurst, c.began), newBucket(appendRate, appendBurst, c.began)
}

// step waits for one event and handles it. Only the owner calls it. Several events may be ready;
// their order is then random. The method step may set c.outcome.
func (c *connection) step(ctx context.Context) {
	select {
	case m := <-c.readable():
		c.hear(m)
	case frame, ok := <-c.voiceSession.frames:
		c.worker(ctx, frame, ok)
	case came := <-c.voiceSession.opened:
		c.opened(came)
	case n := <-c.turns.news:
		c.turn(n)
	case <-c.turns.did: // an action on a run is done, so reading from the client may resume
	case <-c.out.announced:
		c.reportWritten()
	case <-c.out.done:
		if c.out.slow {
			c.end(endSlow)
		}
		c.end(endGone)
	case <-c.hold.C:
		c.held = false
	case <-c.look.C:
		c.lookAround()
	case <-c.drain:
		c.leave()
	case <-c.revoked:
		c.end(endRevoked)
	case <-c.mute:
		c.end(endMute)
	}
}

// readable returns the channel of the client's messages. It returns nil while the gate must not
// read from the client, for example before the first worker is connected. Other events are handled
// meanwhile.
func (c *connection) readable() <-chan clientMessage {
	// Whenever reading is paused or resumed, stalls changes. This lets ping distinguish a pause
	// from a client that does not respond.
	wait := !c.announced || c.held || c.conversation.Unheard() > maxUnprocessed || c.turns.waiting() >= maxJobs
	if wait != (c.stalls.Load()%2 == 1) {
		c.stalls.Add(1)
	}
	if wait {
		return nil
	}
	return c.in
}

// hear handles a message from the client. An error of the reader ends the connection.
func (c *connection) hear(m clientMessage) {
	if m.err != nil {
		c.end(endFor(m.err))
		return
	}

	// The conversation has processed the message, so its memory can be reused.
	now := c.now()
	effects := c.conversation.Client(now, m.body)
	c.reader.release(m.body)

	// A client that sends audio too fast must wait. A client that sends too many other events is
	// disconnected.
	if len(effects.Audio) > 0 {
		if wait := c.appends.owe(now, 1); wait > 0 {
			c.held = true
			c.hold.Reset(wait)
		}
	} else if !c.events.take(now) {
		c.end(endFlood)
		return
	}
	c.apply(effects)
}

// worker handles a frame from the worker, or the end of its session. ok is false if the worker was
// lost. A worker that stops sends VoiceLeaving first.
func (c *connection) worker(ctx context.Context, frame contract.VoiceFrame[contract.VoiceReport], ok bool) {
	now := c.now()
	switch {
	case !ok, frame.Control != nil && frame.Control.Type == contract.VoiceLeaving:
		c.reopen(ctx, now, ok)
	case frame.Audio != nil:
		c.apply(c.conversation.Audio(now, *frame.Audio))
	case frame.Control != nil:
		switch frame.Control.Type {
		case contract.VoiceAlive:
			c.voiceSession.listened(frame.Control.Heard)
		case contract.VoiceStopped:
			c.stopped = now
		}
		c.apply(c.conversation.Report(now, *frame.Control))
	}
}

// turn handles a change of a turn's run. The events of a run arrive after the news that the run has
// begun. If the news has a channel done, the sender gets a signal on this channel when the owner no
// longer uses the events.
func (c *connection) turn(n news) {
	now := c.now()
	switch {
	case n.err != nil:
		c.apply(c.conversation.Refused(now, n.answer, coded(n.err)))
	case n.runID != "":
		c.apply(c.conversation.Begun(now, n.answer, n.runID))
	case n.cut:
		c.apply(c.conversation.Cut(now, n.answer))
	}
	for _, e := range n.events {
		c.apply(c.conversation.Run(now, n.answer, e))
	}
	if n.done != nil {
		n.done <- struct{}{}
	}
}

// apply performs the effects that the conversation returns. The order matters: it is that of
// realtime.Effects. A client whose queue is full is disconnected. apply calls no method of the
// conversation.
func (c *connection) apply(effects realtime.Effects) {
	// Drop queued audio before queueing new events, because the new events may contain audio that
	// must be sent.
	if len(effects.Drop) > 0 {
		c.out.drop(effects.Drop)
	}
	if !c.out.push(effects.Events) {
		c.end(endSlow)
	}
	c.voiceSession.send(effects.Audio, effects.Commands)

	// End runs before beginning new ones, because the session's next run must read how much of the
	// previous answer was played.
	for _, ended := range effects.End {
		c.turns.end(ended)
	}
	for _, turn := range effects.Begin {
		c.answers++
		if !c.stopped.IsZero() {
			c.due, c.dueFrom, c.stopped = turn.Answer, c.stopped, time.Time{}
		}
		c.turns.begin(turn)
	}
	if effects.Close != nil {
		c.end(end{reason: "invalid", how: *effects.Close})
	}
}

// now returns the current time. It first reports to the conversation which audio was written,
// because the playback position depends on that. The result never decreases, as the conversation
// requires.
func (c *connection) now() time.Time {
	c.reportWritten()
	c.last = time.Now()
	return c.last
}

// reportWritten reports to the conversation which audio was written. It also measures the time
// between the end of speech and the first audio of the answer.
func (c *connection) reportWritten() {
	for _, s := range c.out.takeWritten() {
		if c.due != "" && s.answer == c.due {
			c.gate.metrics.turn.Observe(s.at.Sub(c.dueFrom).Seconds())
			c.due = ""
		}
		if s.at.After(c.last) { // the conversation requires that times do not decrease
			c.last = s.at
		}
		c.conversation.Sent(c.last, s.answer, s.samples)
	}
}

// openLine starts to open a voice session: the first one of the connection, or a replacement. The
// argument within is the timeout of the attempt. The result arrives on the channel opened.
func (c *connection) openLine(ctx context.Context, within time.Duration) {
	if err := c.voiceSession.open(ctx, c.conversation.Resume(), within); err != nil {
		c.gate.deps.Log.Error().Err(err).Msg("cannot encode a voice session")
		c.end(endNoWorker)
	}
}

// reopen replaces a voice session that was lost, or whose worker is stopping. After too many losses
// the connection ends. The conversation and the client notice only a delay.
func (c *connection) reopen(ctx context.Context, now time.Time, leaving bool) {
	// A worker announces that it stops, so the end of its session does not count as a loss.
	c.voiceSession.leave()
	if !leaving {
		c.gate.metrics.lost.Inc()
		c.lost++
		if c.voiceSession.tooOften(now) {
			c.end(endNoWorker)
			return
		}
	}
	c.openLine(ctx, c.gate.times.reopen)
}

// opened handles the result of an attempt to open a voice session. The client gets session.created
// after the first session has opened. Without a worker the connection ends.
func (c *connection) opened(came openResult) {
	if came.err != nil {
		c.gate.deps.Log.Warn().Err(came.err).Str("session_id", c.a.Conversation.SessionID).Msg("cannot open a voice session")
		c.voiceSession.failed()
		c.end(endNoWorker)
		return
	}
	c.voiceSession.up(came)
	if !c.announced {
		c.announced = true
		c.apply(c.conversation.Open(came.voiceSession.Transcription()))
	}
}

// leave is called when the gate begins to drain, and again when the time for draining ends. The
// first call lets the answer in progress finish. The second call ends the connection.
func (c *connection) leave() {
	if c.leaving {
		c.end(endDrain)
		return
	}
	c.drain, c.leaving = c.gate.cut, true
	c.look.Reset(0)
}

// lookAround ends a connection that is idle or has reached its maximum duration. It also ends a
// connection without activity while the gate drains. It schedules the next check.
func (c *connection) lookAround() {
	// The next check is scheduled for the earliest time at which its result can change.
	now := c.now()
	since, busy := c.conversation.Idle(now)
	wait := time.Hour
	if c.gate.cfg.MaxDuration > 0 {
		wait = c.began.Add(c.gate.cfg.MaxDuration).Sub(now)
		if wait <= 0 {
			c.end(endExpired)
			return
		}
	}

	switch idle := c.gate.cfg.IdleTimeout; {
	case c.leaving && !busy:
		c.end(endDrain)
		return
	case c.leaving:
		wait = min(wait, lookWhileDrain)
	case idle > 0 && busy:
		wait = min(wait, lookWhileBusy, idle)
	case idle > 0 && now.Sub(since) >= idle:
		c.end(endIdle)
		return
	case idle > 0:
		wait = min(wait, idle-now.Sub(since))
	}
	c.look.Reset(wait)
}
