package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

const (
	voiceLagFrames = 1000    // that may wait for a line's reader
	voiceLagBytes  = 4 << 20 // in all of them
	voiceHead      = 4       // bytes before a frame: its number
)

// Why lines end that nobody closed.
const (
	voiceCut    = "the connection to the bus was lost"
	voiceGap    = "frames were lost"
	voiceBroken = "a frame is broken"
	voiceLag    = "the reader lags"
	voiceSilent = "no message from the peer"
	voiceGone   = "the peer is gone"
	voiceUnsent = "a frame cannot be sent"
	voiceStop   = "this process is stopping"
)

var errVoiceEnded = errors.New("the voice session has ended")

// voiceControl is what an end of a line is told: commands the worker, reports the ingress.
type voiceControl interface {
	contract.VoiceCommand | contract.VoiceReport
}

// voiceWire is one end of a line. Frames are numbered, for core NATS loses what is published while somebody is away: a
// line has all its frames in their order, or it is lost. An empty frame says only that the other end is there.
type voiceWire[In voiceControl] struct {
	board      *voiceBoard[In]
	token, own string // own: where the other end's frames come
	reconnects uint64 // of the connection, when the line was made
	frames     chan contract.VoiceFrame[In]
	answers    chan *nats.Msg         // to an opening
	peer       atomic.Pointer[string] // nil: not found yet
	ended      chan struct{}
	onEnd      func()

	news   atomic.Bool // something came since the board last looked
	silent int         // looks without news; the board's keeper's own

	in     sync.Mutex
	due    uint32 // number of the next frame
	unread []int  // sizes of what is in the channel, and perhaps of what was before it
	bytes  int    // their sum
	over   bool

	out  sync.Mutex
	next uint32
	buf  []byte
}

// take queues a frame for the reader, who is never waited for. It runs in the board's one goroutine. A reason says that the
// line is lost; over, that the other end has closed it.
func (w *voiceWire[In]) take(data []byte) (over bool, reason string) {
	w.news.Store(true)
	if len(data) < voiceHead {
		return false, voiceBroken
	}
	w.in.Lock()
	defer w.in.Unlock()
	if binary.BigEndian.Uint32(data) != w.due {
		return false, voiceGap
	}
	w.due++
	if len(data) == voiceHead || w.over {
		return false, ""
	}
	frame, err := contract.ParseVoiceFrame[In](data[voiceHead:])
	if err != nil {
		return false, voiceBroken
	}
	if !w.queue(frame, len(data)) {
		return false, voiceLag
	}
	return frame.Control != nil && w.board.closes(*frame.Control), ""
}

// queue is called under the lock of what comes.
func (w *voiceWire[In]) queue(frame contract.VoiceFrame[In], size int) bool {
	for len(w.unread) > len(w.frames) {
		w.bytes -= w.unread[0]
		w.unread = w.unread[1:]
	}
	if w.bytes+size > voiceLagBytes {
		return false
	}
	select {
	case w.frames <- frame:
		w.unread = append(w.unread, size)
		w.bytes += size
		return true
	default:
		return false
	}
}

// finish ends this end of the line; true the first time.
func (w *voiceWire[In]) finish() bool {
	w.in.Lock()
	defer w.in.Unlock()
	if w.over {
		return false
	}
	w.over = true
	close(w.frames)
	close(w.ended)
	if w.onEnd != nil {
		w.onEnd()
	}
	return true
}

// send gives the other end a frame, which write appends to its number. What cannot be written is not sent, and no harm
// done; what cannot be sent loses the line.
func (w *voiceWire[In]) send(write func([]byte) ([]byte, error)) error {
	w.out.Lock()
	defer w.out.Unlock()
	select {
	case <-w.ended:
		return errVoiceEnded
	default:
	}
	frame, err := write(binary.BigEndian.AppendUint32(w.buf[:0], w.next))
	if err != nil {
		return err
	}
	w.buf = frame
	err = w.board.nc.PublishRequest(*w.peer.Load(), w.own, frame) // the server tells the own subject when nobody is there
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("sending voice frame: %w", err)
	}
	if err != nil {
		w.board.end(w, voiceUnsent)
		return fmt.Errorf("sending voice frame: %w", err)
	}
	w.next++
	return nil
}

// ping lets the other end know that this one is there.
func (w *voiceWire[In]) ping() {
	if w.peer.Load() == nil {
		return
	}
	_ = w.send(func(b []byte) ([]byte, error) { return b, nil }) // without success the line has ended
}

// audio sends samples, in as many frames as they need.
func (w *voiceWire[In]) audio(audio contract.VoiceAudio) error {
	rest := audio.PCM
	for len(rest) > 0 {
		audio.PCM = rest[:min(len(rest), 2*contract.MaxVoiceFrame)]
		rest = rest[len(audio.PCM):]
		if err := w.send(func(b []byte) ([]byte, error) { return contract.AppendVoiceAudio(b, audio) }); err != nil {
			return err
		}
		audio.At += int64(len(audio.PCM) / 2)
	}
	return nil
}
