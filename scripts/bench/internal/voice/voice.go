package voice

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/internal/realtimeclient"
)

// ErrNoSpeech says that this machine cannot be measured.
var ErrNoSpeech = errors.New("espeak-ng, which makes the speech that is sent, is not installed")

const (
	provider = 50 * time.Millisecond // what each provider takes
	sentence = 2 * time.Second       // of sound
	long     = 30 * time.Second      // the same, where answers are interrupted
	patience = 30 * time.Second      // for one turn
)

// Config says what to measure.
type Config struct {
	Turns         int // one after the other
	Interruptions int
	Sessions      int // at a time
	Duration      time.Duration
	// Start starts Parley, with an agent that can be spoken with, on a database of that name.
	Start    func(ctx context.Context, name string, settings map[string]string) (*parley.Parley, error)
	Progress func(format string, args ...any)
}

type bench struct {
	Config

	speech []byte // and nothing behind it
}

// Run measures turns, interruptions and sessions.
func Run(ctx context.Context, c Config) (*report.Voice, error) {
	b := &bench{Config: c}
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		return nil, ErrNoSpeech
	}
	var err error
	if b.speech, err = realtimeclient.Speech(ctx, "en-us+f3", "Good morning, how are you today?"); err != nil {
		return nil, err
	}
	out := &report.Voice{
		Turns: c.Turns, ProviderMillis: provider.Seconds() * 1e3, Interruptions: c.Interruptions,
		Sessions: c.Sessions, Seconds: c.Duration.Seconds(),
	}
	err = b.on(ctx, "turns", sentence, func(p *parley.Parley, at *providers) error { return b.turns(ctx, p, at, out) })
	if err == nil {
		err = b.on(ctx, "interruptions", long, func(p *parley.Parley, _ *providers) error { return b.interruptions(ctx, p, out) })
	}
	if err == nil {
		err = b.on(ctx, "sessions", sentence, func(p *parley.Parley, _ *providers) error { return b.sessions(ctx, p, out) })
	}
	if err != nil {
		return nil, err
	}
	out.Compare()
	return out, nil
}

// on measures on a Parley of its own, whose providers make so much sound of a sentence.
func (b *bench) on(ctx context.Context, name string, sound time.Duration, measure func(*parley.Parley, *providers) error) (err error) {
	at, err := startProviders(ctx, provider, sound)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.stop()) }()
	p, err := b.Start(ctx, "voice_"+name, at.settings())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := measure(p, at); err != nil {
		return fmt.Errorf("measuring %s of voice: %w", name, err)
	}
	return nil
}

// turns has one after the other answered, in conversations of some turns each, and takes the time to the first sound.
func (b *bench) turns(ctx context.Context, p *parley.Parley, at *providers, out *report.Voice) error {
	for len(out.Added.Each) < b.Turns {
		if err := b.conversation(ctx, p, at, out); err != nil {
			return fmt.Errorf("turn %d: %w", len(out.Added.Each)+1, err)
		}
	}
	b.Progress("%d turns: the first sound came after the providers' %s, and some", b.Turns, 3*provider)
	return nil
}

const perConversation = 20 // turns

// conversation is some turns, behind one that is not counted.
func (b *bench) conversation(ctx context.Context, p *parley.Parley, at *providers, out *report.Voice) (err error) {
	client, err := realtimeclient.Dial(ctx, p.Realtime())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	for n := range perConversation + 1 {
		at.restart()
		took, err := b.turn(ctx, client)
		if err != nil {
			return err
		}
		if n > 0 && len(out.Added.Each) < b.Turns {
			out.Added.Each = append(out.Added.Each, took-at.took())
		}
	}
	return nil
}

// listening is enough for the speech to be listened to, which comes faster here than it is spoken.
const listening = 100 * time.Millisecond

// silence ends a turn: the service's default, and some for the frame in which that ends.
var silence = realtimeclient.Silence(600 * time.Millisecond)

// turn speaks, and gives the time from the silence that ends the turn to the first sound of the answer. What is spoken is sent as fast as
// it goes, so that the silence is heard as soon as it is there.
func (b *bench) turn(ctx context.Context, client *realtimeclient.Client) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := client.Append(ctx, b.speech); err != nil {
		return 0, err
	}
	if _, _, err := client.Until(ctx, "input_audio_buffer.speech_started"); err != nil {
		return 0, err
	}
	if !wait(ctx, listening) {
		return 0, ctx.Err()
	}
	began := time.Now()
	if err := client.Append(ctx, silence); err != nil {
		return 0, err
	}
	answer, err := client.Answer(ctx)
	if err != nil {
		return 0, err
	}
	if answer.Response.Status != "completed" || len(answer.Frames) == 0 {
		return 0, fmt.Errorf("the answer is %q with %d pieces of sound", answer.Response.Status, len(answer.Frames))
	}
	return answer.Frames[0].At.Sub(began), nil
}
