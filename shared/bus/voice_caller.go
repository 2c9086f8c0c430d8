package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
	"parley/shared/lifecycle"
)

// Errors of opening a voice session.
var (
	// ErrNoVoiceWorker means that no voice worker accepted the session: no worker is running, none
	// has a free slot, or the bus is unreachable.
	ErrNoVoiceWorker = errors.New("no voice worker accepted the session")
	// ErrVoiceRefused means that the workers rejected the capability.
	ErrVoiceRefused = errors.New("the voice workers rejected the session")
)

const (
	voiceLostChecks = int(1500 * time.Millisecond / voiceCheckInterval) // a worker sends a frame at least every 500 ms
	voicePause      = 50 * time.Millisecond                             // between two offers of a session

	maxTranscription = 200 // maximum length of the name of a transcription model, in bytes
)

// VoiceCaller opens sessions with voice workers. It is safe for concurrent use. All its
// sessions share one subscription.
type VoiceCaller struct {
	board *voiceBoard[contract.VoiceReport]
}

// NewVoiceCaller subscribes to the frames of its sessions.
func (b *Bus) NewVoiceCaller() (*VoiceCaller, error) {
	c := &VoiceCaller{board: &voiceBoard[contract.VoiceReport]{
		nc: b.nc, log: b.log, patience: voiceLostChecks, pings: true, closes: func(contract.VoiceReport) bool { return false },
	}}
	return c, c.board.start()
}

// Close ends all sessions and the subscription.
func (c *VoiceCaller) Close() { c.board.close() }

// Open finds a worker with a free slot for a session, until ctx ends. It skips busy workers, and
// keeps trying while no worker is running. The argument body is an encoded contract.VoiceOpen,
// which the argument capability authorizes. The error is ErrNoVoiceWorker, or ErrVoiceRefused if
// workers have rejected every offer for some time.
//
// A frozen worker may accept an old offer late. The worker is then notified immediately that the
// offer has expired.
func (c *VoiceCaller) Open(ctx context.Context, capability string, body []byte) (*VoiceSession, error) {
	msg := &nats.Msg{Subject: contract.SubjectVoiceOpen, Data: body, Header: nats.Header{contract.HeaderCapability: {capability}}}
	for began := time.Now(); ; {
		session, err := c.offer(ctx, msg)
		if err == nil {
			return session, nil
		}
		if !errors.Is(err, ErrNoVoiceWorker) && !errors.Is(err, ErrVoiceRefused) {
			return nil, fmt.Errorf("opening a voice session: %w", err)
		}
		if errors.Is(err, ErrVoiceRefused) && time.Since(began) > acceptTimeout { // another worker may have another key
			return nil, err
		}
		if lifecycle.Sleep(ctx, jittered(voicePause)) != nil {
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// offer offers a session once, for at most offerTimeout. It returns ErrNoVoiceWorker or
// ErrVoiceRefused if no worker accepts the session.
func (c *VoiceCaller) offer(ctx context.Context, msg *nats.Msg) (*VoiceSession, error) {
	// The session's peer is known only after a worker has accepted the session.
	wire := c.board.wire("", nil)
	if wire == nil {
		return nil, nats.ErrConnectionClosed
	}

	// The session's local end must exist before the offer is sent, because frames may follow the
	// acceptance immediately.
	msg.Reply = wire.own
	if err := c.board.nc.PublishMsg(msg); err != nil {
		c.board.end(wire, voiceStop)
		if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoVoiceWorker, err)
	}

	transcription, err := c.awaitAccepted(ctx, wire)
	if err != nil {
		c.board.end(wire, voiceStop)
		return nil, err
	}

	return &VoiceSession{wire, transcription}, nil
}

// awaitAccepted waits until a worker accepts a session. It returns the name of the worker's
// transcription model.
func (c *VoiceCaller) awaitAccepted(ctx context.Context, wire *voiceWire[contract.VoiceReport]) (string, error) {
	late := time.NewTimer(offerTimeout)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return "", ErrNoVoiceWorker
	case <-late.C:
		return "", ErrNoVoiceWorker
	case <-wire.ended: // the connection was interrupted, or the worker accepted the session and then ended it
		return "", ErrNoVoiceWorker
	case m := <-wire.answers:
		switch stageFor(m) {
		case contract.StageAccepted:
			return string(m.Data[:min(len(m.Data), maxTranscription)]), nil
		case contract.StageRefused:
			return "", ErrVoiceRefused
		default: // busy, or no worker is subscribed
			return "", ErrNoVoiceWorker
		}
	}
}

// VoiceSession is the ingress's end of a voice session. It is safe for concurrent use.
type VoiceSession struct {
	wire          *voiceWire[contract.VoiceReport]
	transcription string
}

// Transcription returns the name of the worker's transcription model. It is empty if the worker has
// an earlier release.
func (l *VoiceSession) Transcription() string { return l.transcription }

// Send sends a command to the worker. An error means that the session is lost or that the
// command cannot be encoded.
func (l *VoiceSession) Send(command contract.VoiceCommand) error {
	return l.wire.send(func(b []byte) ([]byte, error) { return contract.AppendVoiceControl(b, command) })
}

// Audio sends input samples. The argument at is the number of the first sample. Audio does not
// retain pcm.
func (l *VoiceSession) Audio(at int64, pcm []byte) error {
	return l.wire.audio(contract.VoiceAudio{At: at, PCM: pcm})
}

// Frames returns the frames from the worker, in order and without gaps. When the session is closed
// or lost, the channel is closed after the frames that have arrived. A session is lost if its
// reader lags, the worker is silent for 1.5 s or gives up, or the bus is unreachable.
func (l *VoiceSession) Frames() <-chan contract.VoiceFrame[contract.VoiceReport] {
	return l.wire.frames
}

// Close ends the session and notifies the worker. A second call does nothing.
func (l *VoiceSession) Close() {
	_ = l.Send(contract.VoiceCommand{Type: contract.VoiceClose}) // an error means that the session is already lost
	l.wire.board.end(l.wire, "")
}
