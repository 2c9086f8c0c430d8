package voice

import (
	"context"
	"encoding/binary"
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
	provider = 50 * time.Millisecond  // what each provider takes
	short    = 200 * time.Millisecond // of sound of a sentence, where turns follow each other
	sentence = 2 * time.Second        // the same, where many speak
	long     = 30 * time.Second       // and where answers are interrupted
	patience = 30 * time.Second       // for one turn
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
	b.speech = withoutTail(b.speech)
	out := &report.Voice{
		Turns: c.Turns, ProviderMillis: provider.Seconds() * 1e3, Interruptions: c.Interruptions,
		Sessions: c.Sessions, Seconds: c.Duration.Seconds(),
	}
	err = b.on(ctx, "turns", short, func(p *parley.Parley, at *providers) error { return b.turns(ctx, p, at, out) })
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

// withoutTail drops the silence behind speech.
func withoutTail(pcm []byte) []byte {
	const audible = 16
	for len(pcm) >= 2 {
		if sample := int16(binary.LittleEndian.Uint16(pcm[len(pcm)-2:])); sample > audible || sample < -audible {
			break
		}
		pcm = pcm[:len(pcm)-2]
	}
	return pcm
}
