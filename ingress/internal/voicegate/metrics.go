package voicegate

import "github.com/prometheus/client_golang/prometheus"

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
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_voice_connections", Help: "Open voice connections.",
		}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_voice_closed_total", Help: "Closed voice connections, by reason.",
		}, []string{"reason"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_voice_lines_lost_total", Help: "Voice sessions that lost their worker and were reopened on another.",
		}),
		turn: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_voice_turn_seconds", Help: "Time from the end of speech to the first audio of the answer.",
			Buckets: []float64{.025, .05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 10, 30},
		}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.open, m.closed, m.lost, m.turn} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
