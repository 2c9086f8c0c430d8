package voice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/internal/realtimeclient"
)

// quiet is how long no sound must come for an answer to have ended: three times what lies between two pieces of it.
const quiet = 300 * time.Millisecond

// interruptions has answers interrupted, each in a conversation of its own.
func (b *bench) interruptions(ctx context.Context, p *parley.Parley, out *report.Voice) error {
	for n := range b.Interruptions {
		last, err := b.interrupt(ctx, p)
		if err != nil {
			return fmt.Errorf("interruption %d: %w", n+1, err)
		}
		out.Stopped.Each = append(out.Stopped.Each, last)
	}
	b.Progress("%d answers were interrupted", b.Interruptions)
	return nil
}

// interrupt gives how long behind the word that speech was heard the last sound of the answer came; 0 when it came before.
func (b *bench) interrupt(ctx context.Context, p *parley.Parley) (last time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := realtimeclient.Dial(ctx, p.Realtime())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Ask(ctx, "Tell me something long."); err != nil {
		return 0, err
	}
	const ahead = 4 * realtimeclient.BytesPerSecond // from then on sound comes at the pace of speech
	if _, err := client.Part(ctx, ahead); err != nil {
		return 0, err
	}
	if err := client.Append(ctx, b.speech); err != nil {
		return 0, err
	}
	heard, _, err := client.Until(ctx, "input_audio_buffer.speech_started")
	if err != nil {
		return 0, err
	}
	return soundBehind(ctx, client, heard.At)
}

// soundBehind gives how long after a moment the last piece of sound came.
func soundBehind(ctx context.Context, client *realtimeclient.Client, moment time.Time) (last time.Duration, err error) {
	listen, stop := context.WithTimeout(ctx, quiet)
	defer stop()
	cancelled := false
	for {
		e, err := client.Next(listen)
		switch {
		case err != nil && listen.Err() != nil && ctx.Err() == nil:
			if !cancelled {
				err = errors.New("the answer was not cancelled")
				return 0, err
			}
			return last, nil
		case err != nil:
			return 0, err
		case e.Type == "response.done":
			cancelled = e.Response.Status == "cancelled"
		case e.Type == "response.output_audio.delta":
			last = e.At.Sub(moment)
		}
	}
}
