package voice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/internal/realtimeclient"
)

const (
	perConversation = 20                    // turns
	frame           = 20 * time.Millisecond // of sound, that a microphone sends at a time
	early           = 300 * time.Millisecond
)

// turns has one after the other answered, in conversations of some turns each. Beside each turn the three calls that it makes are made
// by a plain client. The first conversation is not counted: connections and plans of statements are made in it that then stay.
func (b *bench) turns(ctx context.Context, p *parley.Parley, at *providers, out *report.Voice) error {
	if err := b.conversation(ctx, p, at, &report.Voice{}); err != nil {
		return fmt.Errorf("before the first turn: %w", err)
	}
	for len(out.Added.Each) < b.Turns {
		if err := b.conversation(ctx, p, at, out); err != nil {
			return fmt.Errorf("turn %d: %w", len(out.Added.Each)+1, err)
		}
	}
	b.Progress("%d turns: the first sound came after the providers' %s, and some", b.Turns, 3*provider)
	return nil
}

// conversation is some turns, behind one that is not counted.
func (b *bench) conversation(ctx context.Context, p *parley.Parley, at *providers, out *report.Voice) (err error) {
	client, err := realtimeclient.Dial(ctx, p.Realtime())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	bare := newFloor(at.url, b.speech)
	defer bare.close()
	mic := &microphone{client: client}
	for n := range min(perConversation, b.Turns-len(out.Added.Each)) + 1 {
		took, err := b.turn(ctx, mic, at)
		if err != nil {
			return err
		}
		alone, err := bare.turn(ctx, at)
		if err != nil {
			return fmt.Errorf("the three calls alone: %w", err)
		}
		if n > 0 {
			out.Added.Each = append(out.Added.Each, took.added)
			out.Behind.Each = append(out.Behind.Each, took.behind)
			out.Floor.Each = append(out.Floor.Each, alone)
		}
		if !wait(ctx, time.Until(took.over)) {
			return ctx.Err()
		}
	}
	return nil
}

// taken is what a turn took from the end of the speech to the first sound: without the providers' times, and without only as much of these
// as came behind that end; and when the answer has been heard.
type taken struct {
	added, behind time.Duration
	over          time.Time
}

// turn speaks and has that answered.
//
// The end of the speech is the frame of the microphone in which the turn ends, as the service tells it: by then it has been silent for as
// long as is configured, which is no latency. The clock starts before that frame is sent. Speech and the first of the silence, in which
// no turn can end, are sent at once; the rest of the silence comes at its pace, and goes on until the answer has come.
func (b *bench) turn(ctx context.Context, mic *microphone, at *providers) (out taken, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at.restart()
	if err := mic.send(ctx, slices.Concat(b.speech, realtimeclient.Silence(early))); err != nil {
		return out, err
	}
	if _, _, err := mic.client.Until(ctx, "input_audio_buffer.speech_started"); err != nil {
		return out, err
	}
	stop := mic.leaveOn(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	stopped, _, err := mic.client.Until(ctx, "input_audio_buffer.speech_stopped")
	if err != nil {
		return out, err
	}
	answer, err := mic.client.Answer(ctx)
	if err != nil {
		return out, err
	}
	if answer.Response.Status != "completed" || len(answer.Frames) == 0 {
		return out, fmt.Errorf("the answer is %q with %d pieces of sound", answer.Response.Status, len(answer.Frames))
	}
	ended, ok := mic.sentAt(time.Duration(stopped.EndMS) * time.Millisecond)
	if !ok || stopped.At.Before(ended) {
		return out, fmt.Errorf("the turn ended at %d ms, which is before the silence that ends it", stopped.EndMS)
	}
	first := answer.Frames[0].At
	all, behind := at.took(ended)
	total := first.Sub(ended)
	return taken{added: total - all, behind: total - behind, over: first.Add(realtimeclient.Lasts(len(answer.PCM)))}, nil
}

// microphone sends sound, and knows when it has sent which.
type microphone struct {
	client *realtimeclient.Client

	mu   sync.Mutex
	sent time.Duration // of sound, in all
	on   []sentFrame   // since it was left on
}

// sentFrame is a frame of the microphone: the sound up to end.
type sentFrame struct {
	end time.Duration
	at  time.Time // before it was sent
}

func (m *microphone) send(ctx context.Context, pcm []byte) error {
	m.mu.Lock()
	m.sent += realtimeclient.Lasts(len(pcm))
	m.on = append(m.on, sentFrame{m.sent, time.Now()})
	m.mu.Unlock()
	return m.client.Append(ctx, pcm)
}

// leaveOn sends silence at its pace until it is stopped.
func (m *microphone) leaveOn(ctx context.Context) (stop func() error) {
	m.mu.Lock()
	m.on = nil
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(frame)
		defer tick.Stop()
		quiet := realtimeclient.Silence(frame)
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			// What is being sent is sent: a socket whose writing is broken off is closed.
			if err := m.send(context.WithoutCancel(ctx), quiet); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// sentAt tells when the sound before a moment was sent: false when that was before the microphone was left on.
func (m *microphone) sentAt(moment time.Duration) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.on {
		if f.end >= moment {
			return f.at, f.end-frame < moment
		}
	}
	return time.Time{}, false
}
