package breaker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"parley/workers/internal/llm"
)

const (
	faults   = 5                // in a row open a breaker
	openTime = 10 * time.Second // before a call is let through again
	// probeTime is when to come back while that call is under way: longer than any retry in place waits.
	probeTime = 2 * time.Second
	// maxCircuits bounds how many models are watched; their names are the callers' choice.
	maxCircuits = 1024
)

// errUnsettled is the outcome of a call that panicked.
var errUnsettled = llm.NewError(llm.KindUnavailable, errors.New("the call did not return"))

// Provider makes models behind breakers; safe for concurrent use.
type Provider struct {
	next     llm.Provider
	mu       sync.Mutex
	circuits map[string]*circuit
}

// New puts breakers before a provider's models.
func New(next llm.Provider) *Provider {
	return &Provider{next: next, circuits: make(map[string]*circuit)}
}

// Model gives a model of the provider; all models of a name share one breaker.
func (p *Provider) Model(name string) (llm.Model, error) {
	m, err := p.next.Model(name)
	if err != nil {
		return nil, err
	}
	return &model{Model: m, circuit: p.circuit(name)}, nil
}

func (p *Provider) circuit(name string) *circuit {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.circuits[name]
	if ok {
		return c
	}
	if len(p.circuits) >= maxCircuits {
		p.forget()
	}
	c = newCircuit(name)
	p.circuits[name] = c
	return c
}

// forget drops the breakers that know of no fault; when all do, any one.
func (p *Provider) forget() {
	for name, c := range p.circuits {
		if c.State() == gobreaker.StateClosed && c.Counts().ConsecutiveFailures == 0 {
			delete(p.circuits, name)
		}
	}
	for name := range p.circuits {
		if len(p.circuits) < maxCircuits {
			return
		}
		delete(p.circuits, name)
	}
}

// circuit is the breaker of one model.
type circuit struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	opened atomic.Pointer[time.Time]
}

func newCircuit(name string) *circuit {
	c := &circuit{}
	c.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Timeout: openTime,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= faults },
		IsSuccessful: func(err error) bool { return !isFault(err) },
		IsExcluded:   isSilent,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				now := time.Now()
				c.opened.Store(&now)
			}
		},
	})
	return c
}

// isFault reports whether the provider is to blame, and time may cure it.
func isFault(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable || e.Answering {
		return false
	}
	switch e.Kind {
	case llm.KindUnavailable, llm.KindTimeout, llm.KindTruncated, llm.KindBadResponse:
		return true
	default:
		return false
	}
}

// isSilent reports whether an outcome says nothing of the provider: the caller gave up.
func isSilent(err error) bool {
	var e *llm.Error
	return err != nil && !errors.As(err, &e)
}

// refusal is the error of a call that was kept away.
func (c *circuit) refusal(cause error) *llm.Error {
	e := llm.NewUnused(llm.KindUnavailable, cause)
	e.RetryAfter = probeTime
	if opened := c.opened.Load(); errors.Is(cause, gobreaker.ErrOpenState) && opened != nil {
		e.RetryAfter = max(openTime-time.Since(*opened), probeTime)
	}
	return e
}

// model is a model behind its breaker.
type model struct {
	llm.Model
	circuit *circuit
}

// Stream makes a call if the breaker lets it; see [llm.Model].
func (m *model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if ctx.Err() != nil {
		return m.Model.Stream(ctx, req, emit) // which says so in its own way
	}
	settle, err := m.circuit.Allow()
	if err != nil {
		return llm.Response{}, m.circuit.refusal(err)
	}
	var once sync.Once
	outcome := error(errUnsettled)
	defer func() { once.Do(func() { settle(outcome) }) }()
	if m.circuit.State() == gobreaker.StateHalfOpen {
		// An answer may take two minutes; that it has begun is enough to let the others through.
		next := emit
		emit = func(d llm.Delta) {
			once.Do(func() { settle(nil) })
			next(d)
		}
	}
	res, err := m.Model.Stream(ctx, req, emit)
	outcome = err
	return res, err
}
