package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/testkit/modelstub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/breaker"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/remote"
)

func say(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

func ignore(llm.Delta) {}

func TestConformance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		echoing := func(t *testing.T) llm.Model {
			t.Helper()
			return p.against(t, p.stub())
		}
		stalling := func(t *testing.T) llm.Model {
			t.Helper()
			server := p.stub()
			server.Script(modelstub.Reply{Text: "one two three", Fault: "stall"})
			return p.against(t, server)
		}
		llmtest.Run(t, llmtest.Subject{Deterministic: true, New: echoing, NewSlow: stalling}) // the stub is deterministic
	})
}

func TestModelNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		provider, _, err := p.make(openai.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "two words", "line\nbreak"} {
			var e *llm.Error
			if _, err := provider.Model(name); !errors.As(err, &e) || e.Kind != llm.KindUnknownModel {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

func TestBadRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		server := p.stub()
		m := p.against(t, server)
		bad := []llm.Request{
			{Messages: []llm.Message{{Role: "narrator", Text: "x"}}},
			{Messages: []llm.Message{{Role: llm.RoleTool}}},
		}
		for _, schema := range p.schemas {
			bad = append(bad, llm.Request{Tools: []llm.ToolSpec{{Name: "x", Schema: json.RawMessage(schema)}}})
		}
		for _, req := range bad {
			var e *llm.Error
			if _, err := m.Stream(t.Context(), req, ignore); !errors.As(err, &e) || e.Kind != llm.KindInvalid || e.Retryable {
				t.Errorf("got %v", err)
			}
		}
		if server.Total() != 0 {
			t.Errorf("%d requests", server.Total())
		}
	})
}

// TestNothingFromTheEnvironment sets the environment variables that the SDKs' own clients read.
// They must have no effect.
func TestNothingFromTheEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	for _, p := range protocols() {
		for name, value := range p.environment {
			t.Setenv(name, value)
		}
		handler := p.stub()
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		res, err := p.new(t, openai.Config{BaseURL: server.URL + p.base}, "m").Stream(t.Context(), say("hi"), ignore)
		if err != nil || res.Text != "echo: hi" {
			t.Fatalf("%s: got %+v, %v", p.name, res, err)
		}
		header := handler.Requests()[0].Header
		for _, name := range p.headers {
			if header[name] != "" {
				t.Errorf("%s: %s: %q was sent", p.name, name, header[name])
			}
		}

		// If the model used the proxy from HTTP_PROXY, it would dial the proxy instead of
		// model.test.
		dialled := make(chan string, 1)
		m := p.new(t, openai.Config{BaseURL: "http://model.test" + p.base, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled <- address
			return nil, net.ErrClosed
		}}, "m")
		if _, err := m.Stream(t.Context(), say("hi"), ignore); err == nil {
			t.Errorf("%s: a refused connection gave an answer", p.name)
		}
		if got := <-dialled; got != "model.test:80" {
			t.Errorf("%s: dialled %s", p.name, got)
		}
	}
}

// TestStubFaults checks the errors for failures of a server. The models must not retry calls
// themselves.
func TestStubFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for prompt, want := range p.faults {
			t.Run(prompt, func(t *testing.T) {
				t.Parallel()
				server := p.stub()
				_, err := p.against(t, server).Stream(t.Context(), say(prompt), ignore)
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != want.kind || e.Retryable != want.retryable || e.Unused != want.unused || server.Count(prompt) != 1 {
					t.Errorf("got %#v after %d requests", e, server.Count(prompt))
				}
			})
		}
	})
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		var e *llm.Error
		_, err := p.new(t, openai.Config{BaseURL: server.URL}, "m").Stream(t.Context(), say("hi"), ignore)
		if !errors.As(err, &e) || e.Kind != llm.KindUnavailable || !e.Retryable || !e.Unused {
			t.Errorf("got %v", err)
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		handler := p.stub()
		other := httptest.NewServer(handler)
		t.Cleanup(other.Close)
		var e *llm.Error
		m := p.against(t, http.RedirectHandler(other.URL+p.endpoint, http.StatusTemporaryRedirect))
		if _, err := m.Stream(t.Context(), say("hi"), ignore); !errors.As(err, &e) || e.Kind != llm.KindBadResponse || e.Retryable {
			t.Errorf("got %v", err)
		}
		if handler.Total() != 0 {
			t.Error("the redirect was followed, key and prompt with it")
		}
	})
}

func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(p.first))
			line := []byte(strings.Replace(p.piece, `"x"`, `"`+strings.Repeat("x", 1000)+`"`, 1))
			for r.Context().Err() == nil {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}))
		t.Cleanup(server.Close)
		got := 0
		m := p.new(t, openai.Config{BaseURL: server.URL, ResponseBytes: 100_000}, "m")
		_, err := m.Stream(t.Context(), say("hi"), func(d llm.Delta) { got += len(d.Text) })
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != llm.KindTooLarge || e.Retryable || got == 0 || got > 100_000 {
			t.Errorf("got %v after %d bytes", err, got)
		}
	})
}

// piped returns a model whose server runs inside the synctest bubble of the test.
func (p *protocol) piped(t *testing.T, handler http.Handler, limits remote.Limits) llm.Model {
	t.Helper()
	return p.new(t, openai.Config{BaseURL: "http://model.test" + p.base, Dial: llmtest.Serve(t, handler), Limits: limits}, "m")
}

// trickle sends the first event, and then the given line at intervals until the client disconnects.
func trickle(first, line string, every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(first))
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			_, _ = w.Write([]byte(line))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// TestLimits checks the default duration of each time limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for _, tt := range []struct {
			name   string
			prompt string
			serve  http.HandlerFunc // replaces the stub
			took   time.Duration
			kind   llm.Kind // expected kind of the error; "" if the call succeeds
		}{
			{name: "slow but in time", prompt: "sleep 29s: hi", took: 29 * time.Second},
			{name: "first token", prompt: "sleep 31s: hi", took: 30 * time.Second, kind: llm.KindTimeout},
			{name: "stalled for 60 s", prompt: "sleep 60s: hi", took: 30 * time.Second, kind: llm.KindTimeout},
			{name: "never answers", prompt: "fault hang: hi", took: 30 * time.Second, kind: llm.KindTimeout},
			{name: "idle", prompt: "fault stall: a b c", took: 30 * time.Second, kind: llm.KindTimeout},
			{name: "keep-alives are no chunks", serve: trickle("", p.alive, time.Second), took: 30 * time.Second, kind: llm.KindTimeout},
			{name: "total", serve: trickle(p.first, p.piece, 25*time.Second), took: 120 * time.Second, kind: llm.KindTimeout},
			{name: "complete, and then nothing", serve: trickle(p.first+p.piece, p.last, time.Hour), took: 2 * time.Second},
			{name: "many chunks", prompt: strings.TrimSpace(strings.Repeat("w ", 500)), took: 0},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					handler := http.Handler(p.stub())
					if tt.serve != nil {
						handler = tt.serve
					}
					m := p.piped(t, handler, remote.Limits{})
					began := time.Now()
					_, err := m.Stream(t.Context(), say(tt.prompt), ignore)
					took := time.Since(began)
					var e *llm.Error
					if errors.As(err, &e) != (tt.kind != "") || took != tt.took ||
						(e != nil && (e.Kind != tt.kind || !e.Retryable || e.MidAnswer != (tt.name == "total"))) {
						t.Errorf("got %v after %v", err, took)
					}
				})
			})
		}
	})
}

func TestConnectLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m := p.new(t, openai.Config{BaseURL: "http://model.test" + p.base, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}, "m")
			began := time.Now()
			_, err := m.Stream(t.Context(), say("hi"), ignore)
			var e *llm.Error
			if took := time.Since(began); !errors.As(err, &e) || e.Kind != llm.KindTimeout || took != 5*time.Second {
				t.Errorf("got %v after %v", err, took)
			}
		})
	})
}

// TestSlowReader sleeps in the function emit. The time of this sleep must not count towards the
// time limits.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m := p.piped(t, p.stub(), remote.Limits{Total: time.Hour})
			res, err := m.Stream(t.Context(), say("a b c"), func(llm.Delta) { <-time.After(40 * time.Second) })
			if err != nil || res.Text != "echo: a b c" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	})
}

// one is a provider that returns the same model for every name.
type one struct{ model llm.Model }

func (o one) Model(string) (llm.Model, error) { return o.model, nil }

// TestLongAnswersOpenNoBreaker checks that the breaker stays closed if an answer takes long because
// of the prompt, or because the caller reads it slowly.
func TestLongAnswersOpenNoBreaker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for name, tt := range map[string]struct {
			serve http.Handler
			read  time.Duration // time that the caller takes to process each piece
		}{
			"written without end": {trickle(p.first, p.piece, 10*time.Second), 0},
			"read slowly":         {p.stub(), 50 * time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m, err := breaker.New(one{p.piped(t, tt.serve, remote.Limits{})}).Model("m")
					if err != nil {
						t.Fatal(err)
					}
					for n := range 6 {
						began := time.Now()
						_, err := m.Stream(t.Context(), say("a b c d e f g h"), func(llm.Delta) { <-time.After(tt.read) })
						var e *llm.Error
						if !errors.As(err, &e) || e.Kind != llm.KindTimeout || !e.MidAnswer || time.Since(began) < 2*time.Minute {
							t.Errorf("call %d: got %+v after %v", n+1, e, time.Since(began))
						}
					}
				})
			})
		}
	})
}
