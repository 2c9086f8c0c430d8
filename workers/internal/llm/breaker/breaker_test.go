package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/breaker"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/scripted"
)

// provider contains models by their names.
type provider map[string]llm.Model

func (p provider) Model(name string) (llm.Model, error) {
	if m, ok := p[name]; ok {
		return m, nil
	}
	return nil, llm.UnknownModel(name)
}

// failingModel is a model that counts its calls. Each call returns the model's error or, if that is
// nil, succeeds.
type failingModel struct {
	err   error
	calls int
}

func (f *failingModel) Info() llm.Info { return llm.Info{Name: "p/m", ContextTokens: 1} }

func (f *failingModel) Stream(_ context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	f.calls++
	if f.err != nil {
		return llm.Response{}, f.err
	}
	emit(llm.Delta{Text: "hi"})
	return llm.Response{Text: "hi"}, nil
}

func call(t *testing.T, p llm.Provider, name string) *llm.Error {
	t.Helper()
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Stream(t.Context(), llm.Request{}, func(llm.Delta) {})
	var e *llm.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return e
}

// fail calls the model "m" the given number of times, and checks that each call fails.
func fail(t *testing.T, p llm.Provider, calls int) {
	t.Helper()
	for range calls {
		if call(t, p, "m") == nil {
			t.Error("got an answer")
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	behind := func(t *testing.T, m llm.Model) llm.Model {
		t.Helper()
		m, err := breaker.New(provider{"m": m}).Model("m")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	llmtest.Run(t, llmtest.Subject{
		New: func(t *testing.T) llm.Model { t.Helper(); return behind(t, offline.Model{}) },
		NewSlow: func(t *testing.T) llm.Model {
			t.Helper()
			return behind(t, scripted.New("s", scripted.Call{Deltas: []string{"a"}, Hang: true}))
		},
	})
}

func TestOpensAfterFaultsAndProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down, other := &failingModel{err: llm.NewError(llm.KindUnavailable, nil)}, &failingModel{}
		p := breaker.New(provider{"m": down, "other": other})
		fail(t, p, 5)
		<-time.After(4 * time.Second)
		e := call(t, p, "m")
		if down.calls != 5 || e == nil || e.Kind != llm.KindUnavailable || !e.Retryable || !e.Unused || e.RetryAfter != 6*time.Second {
			t.Fatalf("%d calls, %+v", down.calls, e)
		}
		if call(t, p, "other") != nil {
			t.Error("another model is kept away too")
		}

		<-time.After(e.RetryAfter + time.Millisecond)
		if fail(t, p, 1); down.calls != 6 {
			t.Errorf("no call was let through: %d", down.calls)
		}
		if fail(t, p, 1); down.calls != 6 {
			t.Error("a failed probe did not open the breaker again")
		}
		<-time.After(11 * time.Second)
		down.err = nil
		for range 2 {
			if e := call(t, p, "m"); e != nil {
				t.Errorf("an answer did not close the breaker: %v", e)
			}
		}
	})
}

// TestRejectedCallsSayIfAnswersBrokeOff checks that the error of an open breaker has the kind that
// corresponds to the last fault.
func TestRejectedCallsSayIfAnswersBrokeOff(t *testing.T) {
	t.Parallel()
	for fault, want := range map[llm.Kind]llm.Kind{
		llm.KindTruncated: llm.KindTruncated, llm.KindTimeout: llm.KindUnavailable, llm.KindBadResponse: llm.KindUnavailable,
	} {
		p := breaker.New(provider{"m": &failingModel{err: llm.NewError(fault, nil)}})
		fail(t, p, 5)
		if e := call(t, p, "m"); e == nil || e.Kind != want || !e.Unused || !e.Retryable || e.Provider != nil {
			t.Errorf("%s: %+v", fault, e)
		}
	}
}

func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fault := scripted.Call{Err: llm.NewError(llm.KindTimeout, nil)}
		m := scripted.New("m", fault, fault, fault, fault, fault, scripted.Call{Hang: true}, scripted.Call{Deltas: []string{"a"}, Hang: true}, scripted.Call{Deltas: []string{"b"}})
		p := breaker.New(provider{"m": m})
		fail(t, p, 5)
		<-time.After(11 * time.Second)
		probe := func(ctx context.Context) {
			guarded, err := p.Model("m")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = guarded.Stream(ctx, llm.Request{}, func(llm.Delta) {}) // ends when the caller cancels it
		}
		silent, giveUp := context.WithCancel(t.Context())
		go probe(silent)
		synctest.Wait()
		if e := call(t, p, "m"); e == nil || e.RetryAfter != 2*time.Second || len(m.Requests()) != 6 {
			t.Errorf("during a probe: %+v after %d calls", e, len(m.Requests()))
		}
		giveUp() // a cancelled call does not show whether the provider works, so the breaker also lets the next call through
		synctest.Wait()
		begun, stop := context.WithCancel(t.Context())
		go probe(begun)
		synctest.Wait()
		if e := call(t, p, "m"); e != nil {
			t.Errorf("during the answer to a probe: %+v", e)
		}
		stop()
		synctest.Wait()
	})
}

// TestFaultsOfOneOrganization opens a breaker with the timeouts of one organization, at a provider
// that answers the requests of another. The other organization's calls go on, also during the test
// calls of the first one.
func TestFaultsOfOneOrganization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &organizations{failing: map[string]bool{"a": true}}
		p := breaker.New(provider{"m": m})
		ask := func(organization string) error {
			guarded, err := p.Model("m")
			if err != nil {
				t.Fatal(err)
			}
			_, err = guarded.Stream(t.Context(), llm.Request{Organization: organization}, func(llm.Delta) {})
			return err
		}
		for range 20 {
			_ = ask("a")
		}
		for range 6 {
			<-time.After(11 * time.Second)
			_ = ask("a") // the breaker's test call
			for range 3 {
				if err := ask("b"); err != nil {
					t.Errorf("another organization's call: %v", err)
				}
			}
		}
		if m.calls["a"] != 5+6 || m.calls["b"] != 18 {
			t.Errorf("calls %v", m.calls)
		}

		m.failing["b"], m.failing["c"] = true, true // now the provider is down
		for range 20 {
			_, _ = ask("b"), ask("c")
		}
		if m.calls["b"] != 19 || m.calls["c"] != 1 {
			t.Errorf("calls to a provider that is down: %v", m.calls)
		}

		<-time.After(time.Minute) // the faults no longer count, so each organization may make one test call
		calls := maps.Clone(m.calls)
		for range 20 {
			_, _ = ask("b"), ask("c")
		}
		if m.calls["b"]+m.calls["c"] > calls["b"]+calls["c"]+3 { // the breaker's own test call, too
			t.Errorf("calls after a minute: %v, before: %v", m.calls, calls)
		}

		clear(m.failing)
		<-time.After(11 * time.Second)
		for _, organization := range []string{"a", "b", "c"} {
			if err := ask(organization); err != nil {
				t.Errorf("%s, after the outage: %v", organization, err)
			}
		}
	})
}

// organizations is a model whose calls time out for some organizations. It counts the calls.
type organizations struct {
	failing map[string]bool
	calls   map[string]int
}

func (o *organizations) Info() llm.Info { return llm.Info{Name: "p/m", ContextTokens: 1} }

func (o *organizations) Stream(_ context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if o.calls == nil {
		o.calls = map[string]int{}
	}
	o.calls[req.Organization]++
	if o.failing[req.Organization] {
		return llm.Response{}, llm.NewError(llm.KindTimeout, nil)
	}
	emit(llm.Delta{Text: "hi"})
	return llm.Response{Text: "hi"}, nil
}

func TestWhatIsNoFault(t *testing.T) {
	t.Parallel()
	lasting := llm.NewError(llm.KindBadResponse, nil)
	lasting.Retryable = false
	long := llm.NewError(llm.KindTimeout, nil)
	long.MidAnswer = true
	for i, err := range []error{
		llm.NewError(llm.KindRateLimited, nil), llm.NewError(llm.KindInvalid, nil), llm.NewError(llm.KindAuth, nil),
		llm.NewError(llm.KindQuota, nil), llm.NewError(llm.KindContextLength, nil), llm.NewError(llm.KindFiltered, nil),
		llm.NewError(llm.KindUnknownModel, nil), llm.NewError(llm.KindTooLarge, nil), lasting, long,
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			m := &failingModel{err: err}
			p := breaker.New(provider{"m": m})
			for range 20 {
				if e := call(t, p, "m"); !errors.Is(e, err) {
					t.Fatalf("got %v", e)
				}
			}
		})
	}
}

func TestAnswersBetweenFaults(t *testing.T) {
	t.Parallel()
	m := &failingModel{}
	p := breaker.New(provider{"m": m})
	for i := range 40 {
		if m.err = nil; i%5 != 0 {
			m.err = llm.NewError(llm.KindTruncated, nil)
		}
		if e := call(t, p, "m"); (e == nil) != (m.err == nil) {
			t.Errorf("call %d: %v", i, e)
		}
	}
	if m.calls != 40 {
		t.Errorf("%d calls", m.calls)
	}
}

func TestCallersWhoGiveUp(t *testing.T) {
	t.Parallel()
	m := &failingModel{err: fmt.Errorf("streaming: %w", context.Canceled)}
	p := breaker.New(provider{"m": m})
	guarded, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := guarded.Stream(t.Context(), llm.Request{}, func(llm.Delta) {}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func TestAPanicCounts(t *testing.T) {
	t.Parallel()
	p := breaker.New(provider{"m": offline.Echo{}})
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		func() {
			defer func() { _ = recover() }()
			_, _ = m.Stream(t.Context(), llm.Request{}, func(llm.Delta) { panic("emit") })
		}()
	}
	if e := call(t, p, "m"); e == nil || e.Kind != llm.KindUnavailable {
		t.Errorf("got %v", e)
	}
}

// every is a provider that returns the same model for every name.
type every struct{}

func (every) Model(string) (llm.Model, error) { return offline.Echo{}, nil }

func TestNamesWithoutEnd(t *testing.T) {
	t.Parallel()
	p := breaker.New(every{})
	for i := range 3000 {
		if e := call(t, p, strconv.Itoa(i)); e != nil {
			t.Fatal(e)
		}
	}
	if n := breaker.Circuits(p); n > 1024 {
		t.Errorf("%d breakers are kept", n)
	}
}
