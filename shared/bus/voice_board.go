package bus

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"parley/shared/contract"
)

const (
	voiceCheckInterval = 100 * time.Millisecond // interval at which sessions are checked
	voicePingChecks    = 20                     // checks between two pings: 2 s
)

// voiceBoard has the local ends of all voice sessions of a process. They share one subscription,
// whose subjects end in a token that identifies the session, and one goroutine that finds silent
// sessions.
type voiceBoard[In voiceControl] struct {
	nc       *nats.Conn
	log      zerolog.Logger
	inbox    string
	sub      *nats.Subscription
	patience int           // maximum number of checks without a frame; after a freeze of the process, the delayed checks count as one
	pings    bool          // this end must send pings
	closes   func(In) bool // reports whether the other end closes the session with this frame
	last     atomic.Uint64 // last token
	stopped  chan struct{}

	mu       sync.Mutex
	closed   bool
	wires    map[string]*voiceWire[In]
	snapshot []*voiceWire[In] // used only by watch
}

// start subscribes to frames, and checks the sessions until close.
func (v *voiceBoard[In]) start() error {
	v.inbox, v.wires, v.stopped = v.nc.NewInbox(), map[string]*voiceWire[In]{}, make(chan struct{})
	sub, err := v.nc.Subscribe(v.inbox+".*", v.handleMessage)
	if err != nil {
		return fmt.Errorf("subscribing to voice frames: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1) // unlimited, because each session has a limit: a session whose reader lags is lost
	v.sub = sub
	go v.watch()
	return nil
}

// wire creates the local end of a session. The argument peer is "" if the other end is not known
// yet. wire returns nil if the board is closed.
func (v *voiceBoard[In]) wire(peer string, onEnd func()) *voiceWire[In] {
	token := strconv.FormatUint(v.last.Add(1), 36)

	// The channel of frames has room for a lagging reader, so that the subscription never waits.
	w := &voiceWire[In]{
		board: v, token: token, own: v.inbox + "." + token, reconnects: v.nc.Stats().Reconnects, onEnd: onEnd,
		frames: make(chan contract.VoiceFrame[In], voiceLagFrames), answers: make(chan *nats.Msg, 1), ended: make(chan struct{}),
	}
	if peer != "" {
		w.join(peer)
	}

	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}

	v.wires[token] = w
	return w
}

// join sets the subject of the other end.
func (w *voiceWire[In]) join(peer string) {
	w.active.Store(true)
	w.peer.Store(&peer)
}

// handleMessage passes a message to its session without waiting.
func (v *voiceBoard[In]) handleMessage(m *nats.Msg) {
	v.mu.Lock()
	w := v.wires[contract.RunIDFor(m.Subject)]
	v.mu.Unlock()
	switch {
	case w == nil: // no such session: it has ended and the other end has not noticed, or a worker accepted an expired offer
		v.sendStage(m.Reply, "", contract.StageEnded)
	// A message without a header is a frame.
	case m.Header == nil:
		if over, reason := w.take(m.Data); over || reason != "" {
			v.end(w, reason)
		}
	case w.peer.Load() != nil || stageFor(m) == contract.StageEnded:
		v.end(w, voiceGone) // the other end or the server reports that the session is gone
	default:
		if stageFor(m) == contract.StageAccepted {
			w.join(m.Reply) // immediately, because frames follow
		}
		select {
		case w.answers <- m:
		default: // the first answer is enough
		}
	}
}

// end ends a session here and notifies the other end. An empty reason means that the other end
// closed it and needs no notification.
func (v *voiceBoard[In]) end(w *voiceWire[In], reason string) {
	v.mu.Lock()
	delete(v.wires, w.token)
	v.mu.Unlock()

	// If the session has already ended, nothing happens. The other end may have closed it at the
	// same time.
	if !w.finish() || reason == "" {
		return
	}

	peer := w.peer.Load()
	if peer == nil {
		return // no worker has accepted the session
	}

	if reason != voiceStop {
		v.log.Debug().Str("line", w.own).Str("reason", reason).Msg("voice session lost")
	}

	v.sendStage(*peer, "", contract.StageEnded)
}

// sendStage publishes a message that is not a frame. If the message is lost, the other end notices
// the silence.
func (v *voiceBoard[In]) sendStage(to, reply string, stage contract.ToolStage) {
	v.send(to, reply, stage, "")
}

// send publishes a message that is not a frame, with a body.
func (v *voiceBoard[In]) send(to, reply string, stage contract.ToolStage, body string) {
	if to == "" {
		return
	}
	header := nats.Header{contract.HeaderStage: {string(stage)}}
	err := v.nc.PublishMsg(&nats.Msg{Subject: to, Reply: reply, Data: []byte(body), Header: header})
	if err != nil {
		v.log.Debug().Err(err).Str("stage", string(stage)).Msg("cannot send the state of a voice session")
	}
}

// watch checks the sessions every voiceCheckInterval until the board or the connection is closed.
// It ends sessions whose connection was interrupted, and sessions whose other end is silent.
func (v *voiceBoard[In]) watch() {
	status := v.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer v.nc.RemoveStatusListener(status)

	tick := time.NewTicker(voiceCheckInterval)
	defer tick.Stop()
	cut := func(*voiceWire[In]) {} // with this function, check ends only the sessions whose connection was interrupted
	for checks := 1; !v.nc.IsClosed(); {
		select {
		case <-v.stopped:
			return
		case <-status:
			v.check(cut)
		case <-tick.C:
			v.check(v.listen)
			if v.pings && checks%voicePingChecks == 0 {
				v.check((*voiceWire[In]).ping)
			}
			checks++
		}
	}

	v.check(cut)
}

// check calls f for each session. If the connection was interrupted during a session, check ends
// the session, because messages were lost.
func (v *voiceBoard[In]) check(f func(*voiceWire[In])) {
	v.mu.Lock()
	for _, w := range v.wires {
		v.snapshot = append(v.snapshot, w)
	}

	v.mu.Unlock()
	connected, reconnects := v.nc.IsConnected(), v.nc.Stats().Reconnects // read last, because the state must be newer than every session
	for _, w := range v.snapshot {
		if !connected || w.reconnects != reconnects {
			v.end(w, voiceCut)
			continue
		}
		f(w)
	}

	clear(v.snapshot)
	v.snapshot = v.snapshot[:0]
}

// listen ends a session if the other end has been silent for too long.
func (v *voiceBoard[In]) listen(w *voiceWire[In]) {
	if w.peer.Load() == nil || w.active.Swap(false) {
		w.silent = 0
		return
	}
	if w.silent++; w.silent >= v.patience {
		v.end(w, voiceSilent)
	}
}

// close ends all sessions and the subscription.
func (v *voiceBoard[In]) close() {
	v.mu.Lock()
	closed := v.closed
	v.closed = true

	// The sessions are ended after the lock is released, because the method end takes the lock.
	wires := make([]*voiceWire[In], 0, len(v.wires))
	for _, w := range v.wires {
		wires = append(wires, w)
	}

	v.mu.Unlock()
	if closed {
		return
	}

	for _, w := range wires {
		v.end(w, voiceStop)
	}

	_ = v.sub.Unsubscribe() // fails only if the connection is closed
	close(v.stopped)
}
