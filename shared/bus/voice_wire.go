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
	voiceLagFrames = 1000    // maximum number of frames that wait for a session's reader
	voiceLagBytes  = 4 << 20 // maximum number of bytes of the frames that wait for a session's reader
	voiceHead      = 4       // size of the frame's number, which precedes the frame, in bytes
)

// Reasons for the end of a session that neither end has closed.
const (
	voiceCut    = "the connection to NATS was lost"
	voiceGap    = "frames were lost"
	voiceBroken = "a frame is invalid"
	voiceLag    = "the reader is too slow"
	voiceSilent = "the peer sent no message for too long"
	voiceGone   = "the peer is no longer connected"
	voiceUnsent = "a frame cannot be sent"
	voiceStop   = "this process is stopping"
)

// errVoiceEnded is returned by a send after the session has ended.
var errVoiceEnded = errors.New("the voice session has ended")

// voiceControl is a control message for one end of a session: a command for the worker, or a report
// for the ingress.
type voiceControl interface {
	contract.VoiceCommand | contract.VoiceReport
}

// voiceWire is one end of a voice session. Frames are numbered, because core NATS loses
// messages while an end is disconnected: a session has all its frames in order, or it is lost.
// An empty frame is a ping.
type voiceWire[In voiceControl] struct {
	board      *voiceBoard[In]
	token, own string // token identifies the session; own is the subject of the frames from the other end
	reconnects uint64 // reconnection count when the session was created
	frames     chan contract.VoiceFrame[In]
	answers    chan *nats.Msg         // replies to an opening
	peer       atomic.Pointer[string] // subject of the other end; nil: not known yet
	ended      chan struct{}          // closed by finish
	onEnd      func()                 // called once by finish; may be nil

	active atomic.Bool // a frame arrived since the last check
	silent int         // checks without frames; used only by voiceBoard.listen

	// in guards the fields of the receiving direction.
	in     sync.Mutex
	due    uint32 // number of the next frame
	unread []int  // sizes of the frames in the channel; may include frames that were just read
	bytes  int    // sum of unread
	over   bool   // finish was called

	// out guards the fields of the sending direction: the number of the next frame and a reused
	// buffer.
	out  sync.Mutex
	next uint32
	buf  []byte
}

// take queues a frame for the reader without waiting. It runs in the subscription's goroutine. If
// reason is not empty, the session is lost. If the result over is true, the other end has closed
// the session.
func (w *voiceWire[In]) take(data []byte) (over bool, reason string) {
	w.active.Store(true)
	if len(data) < voiceHead {
		return false, voiceBroken
	}

	w.in.Lock()
	defer w.in.Unlock()

	// A gap in the numbers means that a frame was lost. Audio with a gap would be transcribed
	// incorrectly.
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

// queue adds a frame to the channel, and returns false if the reader lags. The
// caller must hold w.in.
func (w *voiceWire[In]) queue(frame contract.VoiceFrame[In], size int) bool {
	// The frames that the reader has taken from the channel since the last call no longer count.
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

// finish ends this end of the session. Only the first call returns true.
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

// send sends a frame that consists of its number and the content that the function write appends.
// If write fails or the frame is too large for a message, nothing is sent and the session
// continues. After any other error, the session is lost.
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
	err = w.board.nc.PublishRequest(*w.peer.Load(), w.own, frame) // if the other end is gone, own receives "no responders"
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("sending voice frame: %w", err)
	}

	if err != nil {
		w.board.end(w, voiceUnsent)
		return fmt.Errorf("sending voice frame: %w", err)
	}

	// The number increases only after a frame was sent, so a failed send leaves no gap in the
	// numbers.
	w.next++
	return nil
}

// ping sends an empty frame.
func (w *voiceWire[In]) ping() {
	if w.peer.Load() == nil {
		return
	}
	_ = w.send(func(b []byte) ([]byte, error) { return b, nil }) // if it fails, the session has ended
}

// audio sends samples in as many frames as necessary.
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
