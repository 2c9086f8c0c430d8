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
	voiceLook      = 100 * time.Millisecond // how often lines are looked at
	voicePingLooks = 20                     // between two pings: 2 s
)

// voiceBoard has all lines of a process that end here: one subscription, whose messages are told apart by the last token
// of their subjects, and one goroutine that finds the lines of which nothing is heard any more.
type voiceBoard[In voiceControl] struct {
	nc       *nats.Conn
	log      zerolog.Logger
	inbox    string
	sub      *nats.Subscription
	patience int           // looks that a line may be silent for: late ones count once, so who was frozen itself loses nothing
	pings    bool          // this end has to say that it is there
	closes   func(In) bool // whether the other end closes the line with it
	last     atomic.Uint64 // token
	stopped  chan struct{}

	mu     sync.Mutex
	closed bool
	wires  map[string]*voiceWire[In]
	looked []*voiceWire[In] // the keeper's own
}

// start subscribes for frames, and looks after lines until close.
func (v *voiceBoard[In]) start() error {
	v.inbox, v.wires, v.stopped = v.nc.NewInbox(), map[string]*voiceWire[In]{}, make(chan struct{})
	sub, err := v.nc.Subscribe(v.inbox+".*", v.hear)
	if err != nil {
		return fmt.Errorf("subscribing for voice frames: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by line: one whose reader lags is lost
	v.sub = sub
	go v.keep()
	return nil
}

// wire makes an end of a line; peer is "" when the other end is still to be found. It is nil once the board is closed.
func (v *voiceBoard[In]) wire(peer string, onEnd func()) *voiceWire[In] {
	token := strconv.FormatUint(v.last.Add(1), 36)
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

// join tells a wire where the other end is.
func (w *voiceWire[In]) join(peer string) {
	w.news.Store(true)
	w.peer.Store(&peer)
}

// hear hands a message to the line that it is for. It waits for nobody.
func (v *voiceBoard[In]) hear(m *nats.Msg) {
	v.mu.Lock()
	w := v.wires[contract.RunIDFor(m.Subject)]
	v.mu.Unlock()
	switch {
	case w == nil: // it has ended here, and the other end did not hear of it; or a worker took an opening that nobody waits for
		v.say(m.Reply, "", contract.StageEnded)
	case m.Header == nil:
		if over, reason := w.take(m.Data); over || reason != "" {
			v.end(w, reason)
		}
	case w.peer.Load() != nil || stageFor(m) == contract.StageEnded:
		v.end(w, voiceGone) // by its own word, or by the server's
	default:
		if stageFor(m) == contract.StageAccepted {
			w.join(m.Reply) // at once: frames follow
		}
		select {
		case w.answers <- m:
		default: // one is enough
		}
	}
}

// end ends a line here, and tells the other end, unless that was the one who closed it: then there is no reason.
func (v *voiceBoard[In]) end(w *voiceWire[In], reason string) {
	v.mu.Lock()
	delete(v.wires, w.token)
	v.mu.Unlock()
	if !w.finish() || reason == "" {
		return
	}
	peer := w.peer.Load()
	if peer == nil {
		return // nobody has taken it
	}
	if reason != voiceStop {
		v.log.Debug().Str("line", w.own).Str("reason", reason).Msg("voice session lost")
	}
	v.say(*peer, "", contract.StageEnded)
}

// say publishes what is no frame; whoever does not hear it takes silence for loss.
func (v *voiceBoard[In]) say(to, reply string, stage contract.ToolStage) {
	if to == "" {
		return
	}
	err := v.nc.PublishMsg(&nats.Msg{Subject: to, Reply: reply, Header: nats.Header{contract.HeaderStage: {string(stage)}}})
	if err != nil {
		v.log.Debug().Err(err).Str("stage", string(stage)).Msg("cannot send the state of a voice session")
	}
}

// keep looks after the lines until the board or the connection is closed.
func (v *voiceBoard[In]) keep() {
	status := v.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer v.nc.RemoveStatusListener(status)
	tick := time.NewTicker(voiceLook)
	defer tick.Stop()
	cut := func(*voiceWire[In]) {} // only those that were cut
	for looks := 1; !v.nc.IsClosed(); {
		select {
		case <-v.stopped:
			return
		case <-status:
			v.look(cut)
		case <-tick.C:
			v.look(v.listen)
			if v.pings && looks%voicePingLooks == 0 {
				v.look((*voiceWire[In]).ping)
			}
			looks++
		}
	}
	v.look(cut)
}

// look calls f with each line, and ends those during which the connection was away: what was published meanwhile is lost.
func (v *voiceBoard[In]) look(f func(*voiceWire[In])) {
	v.mu.Lock()
	for _, w := range v.wires {
		v.looked = append(v.looked, w)
	}
	v.mu.Unlock()
	connected, reconnects := v.nc.IsConnected(), v.nc.Stats().Reconnects // after the lines: none is newer
	for _, w := range v.looked {
		if !connected || w.reconnects != reconnects {
			v.end(w, voiceCut)
			continue
		}
		f(w)
	}
	clear(v.looked)
	v.looked = v.looked[:0]
}

// listen ends a line of which nothing is heard.
func (v *voiceBoard[In]) listen(w *voiceWire[In]) {
	if w.peer.Load() == nil || w.news.Swap(false) {
		w.silent = 0
		return
	}
	if w.silent++; w.silent >= v.patience {
		v.end(w, voiceSilent)
	}
}

// close ends all lines, and the subscription.
func (v *voiceBoard[In]) close() {
	v.mu.Lock()
	closed := v.closed
	v.closed = true
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
	_ = v.sub.Unsubscribe() // fails only when the connection is closed
	close(v.stopped)
}
