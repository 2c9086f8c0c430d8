package voice_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/secrets"
	"parley/workers/internal/speech"
)

func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	s := start(t, defaultScript())
	open := contract.VoiceOpen{Line: "line_1", OrganizationID: "org_1"}
	late, kind, nobody, other, others := claims("line_1"), claims("line_1"), claims("line_1"), claims("line_2"), claims("line_1")
	late.Expires = time.Now().Add(-6 * time.Second)
	var all sync.WaitGroup
	kind.Kind = contract.KindSearch
	nobody.OrganizationID = ""
	others.OrganizationID = "org_2"
	tooLate := late
	for name, c := range map[string]any{
		"too late": tooLate, "for another kind": kind, "for nobody": nobody, "for another voice session": other, "for no line": claims(""), "of another organization": others,
		"for a search": contract.SearchClaims{OrganizationID: "org_1", Kind: contract.KindVoice, Expires: time.Now().Add(time.Minute)},
		"with more":    map[string]any{"org": "org_1", "kind": "voice", "line": "line_1", "expires": time.Now().Add(time.Minute), "admin": true},
	} {
		all.Go(func() { // open the sessions in parallel, because a refused session is offered to workers for a while
			if l, err := s.try(c, open); !errors.Is(err, bus.ErrVoiceRefused) {
				t.Errorf("%s: %v, %v", name, l, err)
			}
		})
	}
	foreign, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"no claims": "x", "another key": foreign.Sign([]byte(`{}`), []byte(`{"line":"line_1"}`))} {
		all.Go(func() {
			if _, err := s.caller.Open(t.Context(), token, []byte(`{"line":"line_1"}`)); !errors.Is(err, bus.ErrVoiceRefused) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Go(func() {
		beyond := contract.VoiceOpen{Line: "line_1", OrganizationID: "org_1", Position: contract.MaxVoiceSample + 1}
		if _, err := s.try(claims("line_1"), beyond); !errors.Is(err, bus.ErrVoiceRefused) {
			t.Errorf("from a sample that there is not: %v", err)
		}
	})
	all.Wait()
	late.Expires = time.Now().Add(-2 * time.Second) // within the difference that is allowed between the clocks of two hosts
	l, err := s.try(late, open)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestStopping: when a worker stops, its sessions are notified, and no call blocks.
func TestStopping(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 2)
	s := script{
		hear: func(ctx context.Context, _ speech.Utterance) (string, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return "", ctx.Err()
		},
		say: func(ctx context.Context, _ speech.Line, out func([]byte) error) error {
			begun <- struct{}{}
			for {
				if err := out(countingAudio(1000)); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		},
	}
	svc := start(t, s)
	l := svc.open(contract.VoiceOpen{})
	l.say("a1", "An answer.", 0, true)
	l.sendAudio(quiet(200))
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_1", To: l.at})
	<-begun
	<-begun
	stopped := make(chan time.Duration)
	go func() {
		began := time.Now()
		svc.stop()
		stopped <- time.Since(began)
	}()
	l.want(contract.VoiceLeaving)
	l.Close()
	if took := <-stopped; took > 3*time.Second {
		t.Errorf("stopping took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := svc.caller.Open(ctx, "x", []byte("{}")); !errors.Is(err, bus.ErrNoVoiceWorker) {
		t.Errorf("a line of a worker that left: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	svc := start(t, defaultScript())
	l := svc.open(contract.VoiceOpen{})
	l.sendAudio(quiet(2000))
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_1", To: l.at})
	l.want(contract.VoiceTranscript)
	l.say("a1", "1234567890", 0, true)
	l.want(contract.VoiceSegment)
	l.want(contract.VoiceSaid)
	for name, want := range map[string]float64{
		"parley_voice_lines": 1, "parley_voice_speech_seconds_total in": 2, "parley_voice_speech_seconds_total out": 0.1,
		"parley_voice_transcription_seconds completed": 1, "parley_voice_synthesis_seconds completed": 1,
		"parley_voice_synthesis_first_seconds": 1,
	} {
		if got := svc.metric(name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
}

// metric returns the value or count of the metric with the given name and label.
func (s *service) metric(name string) float64 {
	s.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			full := f.GetName()
			for _, label := range m.GetLabel() {
				full += " " + label.GetValue()
			}
			if full == name {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}
