package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

// How opening a line can go wrong.
var (
	// ErrNoVoiceWorker says that no voice worker accepted the session: there is none, none has a place, or the bus is away.
	ErrNoVoiceWorker = errors.New("no voice worker accepted the session")
	// ErrVoiceRefused says that the workers did not accept the capability.
	ErrVoiceRefused = errors.New("the voice workers rejected the session")
)

const (
	voiceLostLooks = int(1500 * time.Millisecond / voiceLook) // of a worker, who tells every 500 ms that it is there
	voicePause     = 50 * time.Millisecond
)

// VoiceCaller opens lines with voice workers; safe for concurrent use. All its lines share one subscription.
type VoiceCaller struct {
	board *voiceBoard[contract.VoiceReport]
}

// NewVoiceCaller subscribes for the frames of its lines.
func (b *Bus) NewVoiceCaller() (*VoiceCaller, error) {
	c := &VoiceCaller{board: &voiceBoard[contract.VoiceReport]{
		nc: b.nc, log: b.log, patience: voiceLostLooks, pings: true, closes: func(contract.VoiceReport) bool { return false },
	}}
	return c, c.board.start()
}

// Close ends all lines and the subscription.
func (c *VoiceCaller) Close() { c.board.close() }

// Open finds a worker that has a place for a line, for as long as ctx lasts: a busy one is passed over, one that is missing
// may come back. The capability is for body, a contract.VoiceOpen. Its errors are ErrNoVoiceWorker and, when for some
// time a worker refused each offer, ErrVoiceRefused.
//
// A worker that was frozen may take an old offer late; it is told at once that nobody is there.
func (c *VoiceCaller) Open(ctx context.Context, capability string, body []byte) (*VoiceLine, error) {
	msg := &nats.Msg{Subject: contract.SubjectVoiceOpen, Data: body, Header: nats.Header{contract.HeaderCapability: {capability}}}
	for began := time.Now(); ; {
		line, err := c.offer(ctx, msg)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, ErrNoVoiceWorker) && !errors.Is(err, ErrVoiceRefused) {
			return nil, fmt.Errorf("opening voice line: %w", err)
		}
		if errors.Is(err, ErrVoiceRefused) && time.Since(began) > acceptWithin { // another worker may have another key
			return nil, err
		}
		if over := wait(ctx, voicePause); over != nil {
			return nil, fmt.Errorf("%w: %w", err, over)
		}
	}
}

// offer offers a line once.
func (c *VoiceCaller) offer(ctx context.Context, msg *nats.Msg) (*VoiceLine, error) {
	wire := c.board.wire("", nil)
	if wire == nil {
		return nil, nats.ErrConnectionClosed
	}
	msg.Reply = wire.own
	if err := c.board.nc.PublishMsg(msg); err != nil {
		c.board.end(wire, voiceStop)
		if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoVoiceWorker, err)
	}
	err := c.taken(ctx, wire)
	if err != nil {
		c.board.end(wire, voiceStop)
		return nil, err
	}
	return &VoiceLine{wire}, nil
}

// taken waits until a worker takes a line.
func (c *VoiceCaller) taken(ctx context.Context, wire *voiceWire[contract.VoiceReport]) error {
	late := time.NewTimer(offerFor)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return ErrNoVoiceWorker
	case <-late.C:
		return ErrNoVoiceWorker
	case <-wire.ended: // the connection was cut, or the worker took it and gave it up
		return ErrNoVoiceWorker
	case m := <-wire.answers:
		switch stageFor(m) {
		case contract.StageAccepted:
			return nil
		case contract.StageRefused:
			return ErrVoiceRefused
		default: // busy, or the server's word that nobody is subscribed
			return ErrNoVoiceWorker
		}
	}
}

// VoiceLine is an ingress's end of a line; safe for concurrent use.
type VoiceLine struct {
	wire *voiceWire[contract.VoiceReport]
}

// Send has the worker do something. An error says that the line is lost, or that the command cannot be sent at all.
func (l *VoiceLine) Send(command contract.VoiceCommand) error {
	return l.wire.send(func(b []byte) ([]byte, error) { return contract.AppendVoiceControl(b, command) })
}

// Audio sends samples of the input from the sample at on; it keeps nothing of pcm.
func (l *VoiceLine) Audio(at int64, pcm []byte) error {
	return l.wire.audio(contract.VoiceAudio{At: at, PCM: pcm})
}

// Frames brings what the worker sends, in order and without gaps. It is closed, behind what had come, when the line is lost
// or closed: because its reader lagged, the worker was not heard of for 1.5 s or gave the line up, or the bus was away.
func (l *VoiceLine) Frames() <-chan contract.VoiceFrame[contract.VoiceReport] { return l.wire.frames }

// Close ends the line, and tells the worker; a second time it does nothing.
func (l *VoiceLine) Close() {
	_ = l.Send(contract.VoiceCommand{Type: contract.VoiceClose}) // without success it is lost already
	l.wire.board.end(l.wire, "")
}
