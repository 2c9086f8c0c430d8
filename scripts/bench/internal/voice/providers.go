package voice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley/scripts/internal/realtimeclient"
	"parley/shared/testkit/openaistub"
)

const (
	modelName     = "openai/bench"
	hear          = "hear"
	headerTimeout = 5 * time.Second
	bodyMost      = 32 << 20
)

// said is what every speech is understood as, and so the echoed answer: two sentences.
const said = "This is the first sentence of an answer that somebody waits for. And this is the second one, which may come a little later."

// providers speak OpenAI's protocols on loopback: each answers after its time. What is synthesized is a tone of the given length.
type providers struct {
	each  time.Duration // that an answer takes
	sound []byte        // of a sentence

	mu    sync.Mutex
	spans map[string]span // that were taken before the first sound, by what for

	stub   *openaistub.Server
	server *http.Server
	url    string
	ended  chan error
}

func startProviders(ctx context.Context, each, sound time.Duration) (*providers, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for calls of providers: %w", err)
	}
	p := &providers{
		each: each, sound: tone(sound), spans: map[string]span{},
		stub: openaistub.New(), url: "http://" + listener.Addr().String() + "/v1", ended: make(chan error, 1),
	}
	p.stub.Respond(func(r openaistub.Request) (openaistub.Reply, bool) {
		p.take(context.WithoutCancel(ctx), "think")
		return openaistub.Reply{Text: "echo: " + r.Prompt()}, true
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/audio/transcriptions", p.transcribe)
	mux.HandleFunc("POST /v1/audio/speech", p.synthesize)
	mux.Handle("/", p.stub)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	go func() { p.ended <- p.server.Serve(listener) }()
	return p, nil
}

// settings are the worker's, so that it asks these.
func (p *providers) settings() map[string]string {
	return map[string]string{
		"OPENAI_BASE_URL": p.url, "OPENAI_API_KEY": "bench", "TRANSCRIPTION_MODEL": modelName, "SPEECH_MODEL": modelName,
	}
}

func (p *providers) stop() error {
	err := p.server.Close()
	if ended := <-p.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving calls of providers: %w", ended))
	}
	return err
}

// span is a time that a provider took: timers are late by some.
type span struct{ from, to time.Time }

// take lets the time of an answer pass. Speech may be heard more than once, when it goes on: the last time counts.
func (p *providers) take(ctx context.Context, what string) bool {
	s := span{from: time.Now()}
	passed := wait(ctx, p.each)
	s.to = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, had := p.spans[what]; !had || what == hear {
		p.spans[what] = s
	}
	return passed
}

// restart forgets what was taken.
func (p *providers) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.spans)
}

// took is what the three took before the first sound: of all, and of what lies behind a moment.
func (p *providers) took(since time.Time) (all, behind time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.spans {
		all += s.to.Sub(s.from)
		if s.from.Before(since) {
			s.from = since
		}
		behind += max(0, s.to.Sub(s.from))
	}
	return all, behind
}

func (p *providers) transcribe(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, bodyMost)); err != nil || !p.take(r.Context(), hear) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"text":`+strconv.Quote(said)+`}`) // whoever hung up does not read it
}

func (p *providers) synthesize(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, bodyMost)); err != nil || !p.take(r.Context(), "speak") {
		return
	}
	w.Header().Set("Content-Type", "audio/pcm")
	_, _ = w.Write(p.sound) // as above
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tone is a sound.
func tone(d time.Duration) []byte {
	pcm := make([]byte, 0, 2*int(d.Seconds()*realtimeclient.Rate))
	for n := range cap(pcm) / 2 {
		sample := int16(8000 * math.Sin(2*math.Pi*220*float64(n)/realtimeclient.Rate))
		pcm = append(pcm, byte(sample), byte(sample>>8))
	}
	return pcm
}
