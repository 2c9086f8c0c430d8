package voice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/internal/realtimeclient"
)

const (
	sampleEvery = 2 * time.Second
	settled     = 0.25 // of the time, until memory counts
	between     = 3 * time.Second
)

// silence ends a turn: the service's default, and some for the frame in which that ends.
var silence = realtimeclient.Silence(600 * time.Millisecond)

// sessions holds many conversations at the pace of speech, each beginning a little after the one before.
func (b *bench) sessions(ctx context.Context, p *parley.Parley, out *report.Voice) error {
	end := time.Now().Add(b.Duration)
	until, cancel := context.WithDeadline(ctx, end.Add(patience))
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for n := range b.Sessions {
		wg.Go(func() {
			heard, err := b.session(until, p, time.Duration(n)*between/time.Duration(b.Sessions), end)
			mu.Lock()
			defer mu.Unlock()
			out.Answers += heard.answers
			out.Underruns += heard.underruns
			if err != nil && first == nil {
				first = fmt.Errorf("session %d: %w", n+1, err)
				cancel()
			}
		})
	}
	samples, err := watch(until, p, end)
	wg.Wait()
	if first != nil {
		return first
	}
	if err != nil {
		return err
	}
	out.Memory = growth(samples)
	b.Progress("%d sessions for %s: %d answers, %d underruns", b.Sessions, b.Duration, out.Answers, out.Underruns)
	return nil
}

// listened is what the player of a session has met.
type listened struct{ answers, underruns int }

// session speaks and listens in turn until the end: never both at a time, for that would interrupt.
func (b *bench) session(ctx context.Context, p *parley.Parley, after time.Duration, end time.Time) (heard listened, err error) {
	if !wait(ctx, after) {
		return heard, ctx.Err()
	}
	client, err := realtimeclient.Dial(ctx, p.Realtime())
	if err != nil {
		return heard, err
	}
	defer client.Leave()
	for time.Now().Before(end) {
		if err := client.Speak(ctx, slices.Concat(b.speech, silence)); err != nil {
			return heard, err
		}
		answer, err := client.Answer(ctx)
		if err != nil {
			return heard, err
		}
		if answer.Response.Status != "completed" || len(answer.PCM) == 0 {
			return heard, fmt.Errorf("an answer is %q with %d bytes of sound", answer.Response.Status, len(answer.PCM))
		}
		heard.answers++
		if answer.Starved() > 0 {
			heard.underruns++
		}
		// A microphone goes on while its owner listens.
		over := answer.Frames[0].At.Add(realtimeclient.Lasts(len(answer.PCM)))
		if err := client.Speak(ctx, realtimeclient.Silence(time.Until(over))); err != nil {
			return heard, err
		}
	}
	return heard, nil
}

// watch takes the memory of the processes until the end.
func watch(ctx context.Context, p *parley.Parley, end time.Time) (map[string][]int64, error) {
	out := map[string][]int64{}
	for time.Now().Before(end) && wait(ctx, sampleEvery) {
		for _, process := range p.Processes() {
			bytes, err := machine.Memory(process.PID())
			if err != nil {
				return nil, err
			}
			out[process.Name] = append(out[process.Name], bytes)
		}
	}
	return out, nil
}

// growth compares the last quarter of the samples with the one behind the first: once everybody speaks, memory is to stay.
func growth(samples map[string][]int64) []report.VoiceMemory {
	var out []report.VoiceMemory
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		all := samples[name]
		quarter := max(int(float64(len(all))*settled), 1)
		if len(all) < 3*quarter {
			continue
		}
		early, late := slices.Max(all[quarter:2*quarter]), slices.Max(all[len(all)-quarter:])
		out = append(out, report.VoiceMemory{Process: name, Early: early, Late: late})
	}
	return out
}
