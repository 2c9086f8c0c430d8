package observed

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/llm"
)

// Observer records the model calls of a process in metrics and traces. A registry of metrics can
// have only one Observer. It is safe for concurrent use.
type Observer struct {
	content bool
	// The metrics of calls: their number, their duration, the time until the first piece of text,
	// and their tokens.
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	first   *prometheus.HistogramVec
	tokens  *prometheus.CounterVec
}

// New returns an Observer and registers its metrics. If content is true, its spans include prompts
// and answers. It fails if the registry already has metrics with these names.
func New(registry prometheus.Registerer, content bool) (*Observer, error) {
	seconds := []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120}
	o := &Observer{
		content: content,
		calls: telemetry.CounterVec("parley_model_calls_total",
			"Model calls, by provider and outcome: completed, stopped or the kind of failure.", "provider", "outcome"),
		seconds: telemetry.HistogramVec("parley_model_call_seconds", "Duration of answered model calls, by provider.", seconds, "provider"),
		first: telemetry.HistogramVec("parley_model_first_token_seconds", "Time from a model call to the first piece of its text, by provider.",
			seconds, "provider"),
		tokens: telemetry.CounterVec("parley_model_tokens_total", "Tokens of answered model calls, by provider and direction.",
			"provider", "direction"),
	}

	return o, telemetry.Register(registry, o.calls, o.seconds, o.first, o.tokens)
}

// Provider returns a provider that records the calls of its models. name is the value of the label
// "provider", so it must come from a small set of names.
func (o *Observer) Provider(name string, p llm.Provider) llm.Provider {
	o.calls.WithLabelValues(name, "completed") // creates the time series, so that they begin at 0
	o.seconds.WithLabelValues(name)
	o.first.WithLabelValues(name)
	o.tokens.WithLabelValues(name, "input")
	o.tokens.WithLabelValues(name, "output")
	return &provider{Provider: p, observer: o, name: name}
}

// provider wraps another provider and observes the calls of its models.
type provider struct {
	llm.Provider
	observer *Observer
	name     string
}

// Model returns a model whose calls are observed.
func (p *provider) Model(name string) (llm.Model, error) {
	m, err := p.Provider.Model(name)
	if err != nil {
		return nil, err
	}
	return &model{Model: m, observer: p.observer, provider: p.name, name: cmp.Or(name, p.name)}, nil
}

// model wraps another model and records each of its calls.
type model struct {
	llm.Model
	observer *Observer
	provider string
	name     string // name of the model at the provider
}

// Stream makes a call and records it. Without named results, an additional copy of the response
// would stay on the stack during the call.
func (m *model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (res llm.Response, err error) {
	began, first := time.Now(), time.Duration(0)
	ctx, span := tracing.Child(ctx, tracing.Client, "chat", m.name)
	defer span.End()
	m.begin(span, &req)
	res, err = m.Model.Stream(ctx, req, func(d llm.Delta) {
		if first == 0 {
			first = time.Since(began)
		}
		emit(d)
	})

	m.record(ctx, span, time.Since(began), first, &res, err)
	return res, err
}

// record records the outcome of a call in the metrics and in its span. It is a separate function,
// so that its variables do not occupy the stack during the call.
func (m *model) record(ctx context.Context, span tracing.Span, took, first time.Duration, res *llm.Response, err error) {
	// Count failed calls, but record the duration only of answered calls.
	outcome := outcomeFor(ctx, err)
	m.observer.calls.WithLabelValues(m.provider, outcome).Inc()
	if err != nil {
		span.Fail(outcome)
		return
	}

	m.observer.answered(m.provider, took, first, res.Usage)
	m.end(span, res)
}

// outcomeFor returns the value of the label "outcome" for a call that returned err: "completed",
// "stopped" if ctx has ended, the kind of an *llm.Error, or "failed" for any other error.
func outcomeFor(ctx context.Context, err error) string {
	var failed *llm.Error
	switch {
	case err == nil:
		return "completed"
	case ctx.Err() != nil:
		return "stopped"
	case errors.As(err, &failed):
		return string(failed.Kind)
	default:
		return "failed"
	}
}

// answered records the metrics of an answered call. first is the time until the first piece of
// text, or 0 if the answer has no text.
func (o *Observer) answered(provider string, took, first time.Duration, used llm.Usage) {
	o.seconds.WithLabelValues(provider).Observe(took.Seconds())
	if first > 0 {
		o.first.WithLabelValues(provider).Observe(first.Seconds())
	}
	o.tokens.WithLabelValues(provider, "input").Add(float64(used.InputTokens))
	o.tokens.WithLabelValues(provider, "output").Add(float64(used.OutputTokens))
}
