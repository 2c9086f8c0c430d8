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
	maxFaults = 5                // number of consecutive faults that open a breaker
	openTime  = 10 * time.Second // time for which an open breaker rejects calls
	// probeTime is the retry delay of calls that are rejected while the breaker tests the provider
	// with one call. It is longer than the agent loop's own retry delays, so runs whose calls are
	// rejected are requeued.
	probeTime = 2 * time.Second
	// maxCircuits is the maximum number of breakers. Callers choose the names of models, so without
	// this limit they could create any number of breakers.
	maxCircuits = 1024
)

// errUnfinished is the outcome that the breaker records for a call that panicked.
var errUnfinished = llm.NewError(llm.KindUnavailable, errors.New("the call panicked"))

// Provider wraps the models of another provider with breakers. It is safe for concurrent use.
type Provider struct {
	next     llm.Provider
	mu       sync.Mutex
	circuits map[string]*circuit
}

// New returns a Provider that wraps next.
func New(next llm.Provider) *Provider {
	return &Provider{next: next, circuits: make(map[string]*circuit)}
}

// Model returns a model of the wrapped provider. All models with the same name share one breaker.
func (p *Provider) Model(name string) (llm.Model, error) {
	m, err := p.next.Model(name)
	if err != nil {
		return nil, err
	}
	return &model{Model: m, circuit: p.circuit(name)}, nil
}

// circuit returns the breaker for the model with the given name.
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

// forget deletes the breakers of models that had no recent faults. If all models had recent faults,
// forget deletes an arbitrary breaker.
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
	opened atomic.Pointer[time.Time] // time at which the breaker last opened
	broken atomic.Bool               // the last fault was a truncated answer
	others separation                // lets calls of organizations without faults through
}

// newCircuit returns a closed breaker. Only transient failures of the provider count as faults.
func newCircuit(name string) *circuit {
	c := &circuit{}
	c.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Timeout: openTime,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= maxFaults },
		IsSuccessful: func(err error) bool { return !isFault(err) },
		IsExcluded:   isExcluded,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				now := time.Now()
				c.opened.Store(&now)
			}
		},
	})
	return c
}

// isFault reports whether err is a transient failure of the provider.
func isFault(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable || e.MidAnswer {
		return false
	}
	switch e.Kind {
	case llm.KindUnavailable, llm.KindTimeout, llm.KindTruncated, llm.KindBadResponse:
		return true
	default:
		return false
	}
}

// isExcluded reports whether a call counts neither as a success nor as a fault, because the caller
// cancelled it.
func isExcluded(err error) bool {
	var e *llm.Error
	return err != nil && !errors.As(err, &e)
}

// refusal returns the error of a call that the breaker rejects. Its kind depends on the last fault,
// because runs are retried less often after truncated answers than while a provider is down.
func (c *circuit) refusal(cause error) *llm.Error {
	kind := llm.KindUnavailable
	if c.broken.Load() {
		kind = llm.KindTruncated
	}
	e := llm.NewUnused(kind, cause)
	e.RetryAfter = probeTime
	if opened := c.opened.Load(); errors.Is(cause, gobreaker.ErrOpenState) && opened != nil {
		e.RetryAfter = max(openTime-time.Since(*opened), probeTime)
	}
	return e
}

// model is a model with its breaker.
type model struct {
	llm.Model
	circuit *circuit
}

// Stream makes a call if the breaker allows it; see [llm.Model]. Without named results, an
// additional copy of the response would stay on the stack during the call.
func (m *model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (res llm.Response, err error) {
	if ctx.Err() != nil {
		return m.Model.Stream(ctx, req, emit) // returns the context's error
	}
	report, err := m.allow(req.Organization)
	if err != nil {
		return llm.Response{}, err
	}

	// Report each call to the breaker exactly once, even if the call panics.
	var once sync.Once
	outcome := error(errUnfinished)
	defer func() { once.Do(func() { report(outcome) }) }()

	if m.circuit.State() != gobreaker.StateClosed {
		// An answer may take two minutes. Its first piece already proves that the provider works,
		// so it lets other calls through.
		next := emit
		emit = func(d llm.Delta) {
			once.Do(func() { report(nil) })
			next(d)
		}
	}

	res, err = m.Model.Stream(ctx, req, emit)
	outcome = err
	if fault, failed := errors.AsType[*llm.Error](err); failed && isFault(err) {
		m.circuit.broken.Store(fault.Kind == llm.KindTruncated)
	}
	return res, err
}

// allow returns the function that reports the outcome of a call, or the error of a rejected call.
// An open breaker still lets calls of organizations through that caused no fault; see separation.
func (m *model) allow(organization string) (report func(error), err error) {
	count, err := m.circuit.Allow()
	if err == nil {
		return func(outcome error) {
			m.circuit.others.record(organization, outcome)
			count(outcome)
		}, nil
	}
	if !m.circuit.others.admit(organization) {
		return nil, m.circuit.refusal(err)
	}
	return func(outcome error) { m.circuit.others.finish(organization, outcome) }, nil
}
