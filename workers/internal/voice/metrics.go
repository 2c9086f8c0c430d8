package voice

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/telemetry"
)

// metrics contains the Prometheus metrics of a worker's voice sessions.
type metrics struct {
	// Number of open voice sessions. In the names of metrics, a voice session is called a line.
	sessions      prometheus.Gauge
	refused       prometheus.Counter
	speech        *prometheus.CounterVec
	transcription *prometheus.HistogramVec
	synthesis     *prometheus.HistogramVec
	first         prometheus.Histogram
}

// newMetrics registers the metrics of a process's voice sessions.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	// A call of an offline backend may take only a few milliseconds, and a call of an overloaded
	// backend up to a minute.
	buckets := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	m := &metrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_voice_lines", Help: "Voice sessions that this process is serving.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_voice_lines_refused_total", Help: "Voice sessions rejected because their signed request is invalid.",
		}),
		speech: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_voice_speech_seconds_total", Help: "Seconds of speech transcribed (in) and synthesized (out).",
		}, []string{"direction"}),
		transcription: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_voice_transcription_seconds", Help: "Duration of transcriptions of utterances, by outcome.", Buckets: buckets,
		}, []string{"outcome"}),
		synthesis: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_voice_synthesis_seconds", Help: "Duration of syntheses of segments, by outcome.", Buckets: buckets,
		}, []string{"outcome"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_voice_synthesis_first_seconds", Help: "Time until the first audio of a synthesized segment.", Buckets: buckets,
		}),
	}
	return m, telemetry.Register(registry, m.sessions, m.refused, m.speech, m.transcription, m.synthesis, m.first)
}

// countHeard counts the samples of received speech.
func (m *metrics) countHeard(samples int64) {
	m.speech.WithLabelValues("in").Add(float64(max(0, samples)) / rate)
}

// countSpoken counts the samples of synthesized speech.
func (m *metrics) countSpoken(samples int64) {
	m.speech.WithLabelValues("out").Add(float64(samples) / rate)
}

// observe records the outcome of a backend call, and its duration since began.
func observe(seconds *prometheus.HistogramVec, began time.Time, err error) {
	outcome := "completed"
	switch {
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	case err != nil:
		outcome = "failed"
	}
	seconds.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
}
