package voicegate

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/telemetry"
)

// metrics are the metrics of the gate. They also work if they are not registered. The only label is
// the reason why a connection ended, so the number of time series is constant.
type metrics struct {
	// Open connections.
	open prometheus.Gauge
	// Closed connections, by reason.
	closed *prometheus.CounterVec
	// Voice sessions that were lost.
	lost prometheus.Counter
	// Seconds from the end of speech to the first audio.
	turn prometheus.Histogram
}

// newMetrics creates the metrics and registers them. It does not register them if registry is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		open:   telemetry.Gauge("parley_voice_connections", "Open voice connections."),
		closed: telemetry.CounterVec("parley_voice_closed_total", "Closed voice connections, by reason.", "reason"),
		lost:   telemetry.Counter("parley_voice_lines_lost_total", "Voice sessions that lost their worker and were reopened on another."),
		turn: telemetry.Histogram("parley_voice_turn_seconds", "Time from the end of speech to the first audio of the answer.",
			[]float64{.025, .05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 10, 30}),
	}
	if registry == nil {
		return m, nil
	}
	return m, telemetry.Register(registry, m.open, m.closed, m.lost, m.turn)
}
