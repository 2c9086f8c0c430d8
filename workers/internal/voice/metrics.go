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
		sessions: telemetry.Gauge("parley_voice_lines", "Voice sessions that this process is serving."),
		refused:  telemetry.Counter("parley_voice_lines_refused_total", "Voice sessions rejected because their signed request is invalid."),
		speech: telemetry.CounterVec("parley_voice_speech_seconds_total", "Seconds of speech transcribed (in) and synthesized (out).",
			"direction"),
		transcription: telemetry.HistogramVec("parley_voice_transcription_seconds", "Duration of transcriptions of utterances, by outcome.",
			buckets, "outcome"),
		synthesis: telemetry.HistogramVec("parley_voice_synthesis_seconds", "Duration of syntheses of segments, by outcome.",
			buckets, "outcome"),
		first: telemetry.Histogram("parley_voice_synthesis_first_seconds", "Time until the first audio of a synthesized segment.", buckets),
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
