package toolserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/contract"
	"parley/shared/telemetry"
)

// metrics are the Prometheus metrics of a worker's tool calls.
type metrics struct {
	// Calls by kind and outcome.
	calls *prometheus.CounterVec
	// Duration of calls by kind, without the time in the queue.
	seconds *prometheus.HistogramVec
	running *prometheus.GaugeVec
	waiting *prometheus.GaugeVec
}

// newMetrics registers the metrics of a process's tool calls.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: telemetry.CounterVec("parley_tool_calls_total", "Tool calls of this process, by kind and outcome.", "tool", "outcome"),
		seconds: telemetry.HistogramVec("parley_tool_call_seconds", "Duration of tool calls, by kind.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, "tool"),
		running: telemetry.GaugeVec("parley_tool_calls_running", "Tool calls that this process is executing, by kind.", "tool"),
		waiting: telemetry.GaugeVec("parley_tool_calls_waiting", "Tool calls of this process that wait for a slot, by kind.", "tool"),
	}
	return m, telemetry.Register(registry, m.calls, m.seconds, m.running, m.waiting)
}

// inHand returns a function that sets the gauges of running and waiting calls for one kind.
func (m *metrics) inHand(kind string) func(running, waiting int) {
	runs, waits := m.running.WithLabelValues(kind), m.waiting.WithLabelValues(kind)
	return func(running, waiting int) {
		runs.Set(float64(running))
		waits.Set(float64(waiting))
	}
}

// refused counts a call that was refused.
func (m *metrics) refused(kind string) { m.calls.WithLabelValues(kind, "refused").Inc() }

// ended counts a call that was executed and records its duration.
func (m *metrics) ended(kind string, f *contract.ToolFailure, took time.Duration) {
	m.calls.WithLabelValues(kind, outcome(f)).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}

// outcome returns the value of the label "outcome" for a call.
func outcome(f *contract.ToolFailure) string {
	switch {
	case f == nil:
		return "completed"
	// The side effect may have happened. A person or the ledger's recovery resolves this.
	case f.Unknown:
		return "unknown"
	// Another worker has taken over the run. This is normal if the first worker was slow.
	case f.Stale:
		return "stale"
	default:
		return "failed"
	}
}
