package voice_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
	"parley/workers/internal/signed/signedtest"
	"parley/workers/internal/speech"
	"parley/workers/internal/voice"
)

const (
	rate = contract.VoiceRate
	ms   = rate / 1000
	wait = 20 * time.Second // time limit for events that certainly arrive
)

// script is a Transcriber and a Synthesizer whose methods call functions of the test.
type script struct {
	hear func(ctx context.Context, u speech.Utterance) (string, error)
	say  func(ctx context.Context, segment speech.Line, out func([]byte) error) error
}

func (s script) Transcribe(ctx context.Context, u speech.Utterance) (string, error) {
	return s.hear(ctx, u)
}

func (s script) Synthesize(ctx context.Context, segment speech.Line, out func([]byte) error) error {
	return s.say(ctx, segment, out)
}

// defaultScript transcribes each utterance as "said" and its language. It speaks each character as
// 10 ms of samples with increasing values.
func defaultScript() script {
	return script{
		hear: func(_ context.Context, u speech.Utterance) (string, error) { return "said " + u.Language, nil },
		say: func(_ context.Context, segment speech.Line, out func([]byte) error) error {
			if segment.Organization != "org_1" || segment.Begun == nil {
				return fmt.Errorf("a line of %q", segment.Organization)
			}
			return out(countingAudio(len(segment.Text) * 10 * ms))
		},
	}
}

// countingAudio returns audio in which all samples are different.
func countingAudio(samples int) []byte {
	pcm := make([]byte, 0, 2*samples)
	for i := range samples {
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(i%50_000))
	}
	return pcm
}

// service is a voice server on a real bus.
type service struct {
	*testing.T

	caller  *bus.VoiceCaller
	log     *lockedBuffer
	metrics *prometheus.Registry
	stop    func() // stops the server and waits for Run
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, s script) *service {
	t.Helper()
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	caller, err := b.NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	log, registry := &lockedBuffer{}, prometheus.NewRegistry()
	served := &ready{Bus: b, ready: make(chan struct{})}
	server, err := voice.New(voice.Config{MaxSessions: 10}, voice.Deps{
		Bus: served, Transcriber: s, Synthesizer: s, Verifier: signedtest.Signer(t), Metrics: registry, Log: zerolog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := running.Start(t, server.Run)
	<-served.ready
	return &service{T: t, caller: caller, log: log, metrics: registry, stop: stop}
}

// ready is a bus that signals when the server has subscribed.
type ready struct {
	*bus.Bus

	ready chan struct{}
}

func (r *ready) ServeVoice(cfg bus.VoiceOptions) (func(context.Context), error) {
	defer close(r.ready)
	return r.Bus.ServeVoice(cfg)
}

func claims(session string) contract.VoiceClaims {
	return contract.VoiceClaims{OrganizationID: "org_1", Kind: contract.KindVoice, Line: session, Expires: time.Now().Add(time.Minute).UTC()}
}

// open opens a session, which is closed at the end of the test.
func (s *service) open(open contract.VoiceOpen) *session {
	s.Helper()
	if open.Line == "" {
		open.Line = "line_" + s.Name()
	}
	open.OrganizationID = "org_1"
	opened, err := s.try(claims(open.Line), open)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(opened.Close)
	return &session{T: s.T, VoiceSession: opened, at: open.Position}
}

func (s *service) try(claims any, open contract.VoiceOpen) (*bus.VoiceSession, error) {
	s.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		s.Fatal(err)
	}
	body, err := json.Marshal(open)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), wait)
	defer cancel()
	return s.caller.Open(ctx, signedtest.Signer(s.T).Sign(raw, body), body)
}

// session is the ingress's end of a session. It stores the data that it receives.
type session struct {
	*testing.T
	*bus.VoiceSession

	at    int64 // position of the next input sample
	heard int64
	needs int64
	audio map[string][]contract.VoiceAudio // audio by answer
	order []string                         // for each frame of audio, the id of its answer
}

func (l *session) send(c contract.VoiceCommand) {
	l.Helper()
	if err := l.Send(c); err != nil {
		l.Fatal(err)
	}
}

// sendAudio sends audio in frames of 100 ms.
func (l *session) sendAudio(pcm []byte) {
	l.Helper()
	for part := range slices.Chunk(pcm, rate/10*2) {
		if err := l.Audio(l.at, part); err != nil {
			l.Fatal(err)
		}
		l.at += int64(len(part) / 2)
	}
}

// next returns the next report. It skips alive reports and audio.
func (l *session) next() contract.VoiceReport {
	l.Helper()
	r, ok := l.report(wait)
	if !ok {
		l.Fatal("no report")
	}
	return r
}

// want returns the next report, which must have the given type.
func (l *session) want(kind string) contract.VoiceReport {
	l.Helper()
	r := l.next()
	if r.Type != kind {
		l.Fatalf("%+v %+v, not %s", r, r.Failure, kind)
	}
	return r
}

// report waits for a report for at most the given duration. It returns false if no report arrives
// or the session has ended.
func (l *session) report(in time.Duration) (contract.VoiceReport, bool) {
	l.Helper()
	late := time.After(in)
	for {
		select {
		case f, ok := <-l.Frames():
			switch {
			case !ok:
				return contract.VoiceReport{}, false
			case f.Audio != nil:
				if l.audio == nil {
					l.audio = map[string][]contract.VoiceAudio{}
				}
				l.order = append(l.order, f.Audio.Answer)
				l.audio[f.Audio.Answer] = append(l.audio[f.Audio.Answer], *f.Audio)
			case f.Control.Type == contract.VoiceAlive:
				l.heard, l.needs = f.Control.Heard, f.Control.Needs
			default:
				return *f.Control, true
			}
		case <-late:
			return contract.VoiceReport{}, false
		}
	}
}

// until reads reports until the function done returns true. It calls done after each report.
func (l *session) until(what string, done func() bool) {
	l.Helper()
	late := time.Now().Add(wait)
	for !done() {
		if time.Now().After(late) {
			l.Fatalf("%s does not come", what)
		}
		if r, ok := l.report(50 * time.Millisecond); ok {
			l.Fatalf("unexpected: %+v", r)
		}
	}
}

// pcm returns the audio of the first answer. The frames must be contiguous.
func (l *session) pcm(from int64) []byte {
	l.Helper()
	var all []byte
	at := from
	for _, a := range l.audio["a1"] {
		if a.At != at || len(a.PCM) > rate/10*2 || len(a.PCM) == 0 {
			l.Errorf("a frame of %d bytes at %d, not at %d", len(a.PCM), a.At, at)
		}
		at += int64(len(a.PCM) / 2)
		all = append(all, a.PCM...)
	}
	return all
}

func (l *session) say(answer, text string, start int, last bool) {
	l.Helper()
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: answer, Text: text, Start: start, Last: last})
}

var detection = &contract.VoiceDetection{Threshold: 0.5, PrefixMS: 300, SilenceMS: 500}

// spoken is a phrase that espeak-ng has synthesized at 24 kHz, without silence at the beginning and
// the end.
var spoken = sync.OnceValues(func() ([]byte, error) {
	out, err := exec.Command("espeak-ng", "-v", "en", "--stdout", "What is the weather like in Paris today?").Output()
	if err != nil {
		return nil, err
	}
	in := out[44:]
	var pcm []byte
	first, last := 0, 0
	for i := 0; ; i++ {
		n := 2 * (i * 22_050 / rate)
		if n+2 > len(in) {
			return pcm[first:last], nil
		}
		sample := int16(binary.LittleEndian.Uint16(in[n:]))
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(sample))
		if sample > 300 || sample < -300 {
			if last == 0 {
				first = len(pcm) - 2
			}
			last = len(pcm)
		}
	}
})

func speechFor(t *testing.T) []byte {
	t.Helper()
	pcm, err := spoken()
	if err != nil {
		t.Fatalf("espeak-ng (package espeak-ng): %v", err)
	}
	return pcm
}

func quiet(milliseconds int) []byte { return make([]byte, 2*ms*milliseconds) }

func secret(t *testing.T, s *service, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(s.log.String(), w) {
			t.Errorf("the log has %q: %s", w, s.log)
		}
	}
}
