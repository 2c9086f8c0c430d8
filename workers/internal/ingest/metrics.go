package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/telemetry"
)

// These are the values of the label "end", the outcome of an attempt.
const (
	// All passages were written.
	endReady = "ready"
	// The failure is permanent, or all attempts are used up.
	endFailed = "failed"
	// The attempt failed, and another attempt will follow.
	endPostponed = "postponed"
	// The worker stopped, or the document had to leave its slot.
	endReleased = "released"
	// Another worker has taken over the document, or the outcome could not be stored.
	endLost = "lost"
)

// metrics contains a worker's metrics about documents.
type metrics struct {
	// Attempts by outcome.
	ended *prometheus.CounterVec
	// Failures by error code.
	failed *prometheus.CounterVec
	// The number of pages and of passages of the documents that became ready.
	pages  prometheus.Counter
	chunks prometheus.Counter
	// The time from the claim until the document is ready.
	total prometheus.Histogram
}

// newMetrics registers the metrics. The function inHand returns the number of documents in
// progress.
func newMetrics(registry prometheus.Registerer, inHand func() int) (*metrics, error) {
	m := &metrics{
		ended: telemetry.CounterVec("parley_document_attempts_total", "Attempts to process documents in this process, by outcome.", "end"),
		failed: telemetry.CounterVec("parley_document_failures_total", "Failed attempts to process documents, final or temporary, by error code.",
			"code"),
		pages:  telemetry.Counter("parley_document_pages_total", "Pages of documents that were indexed."),
		chunks: telemetry.Counter("parley_document_chunks_total", "Passages of documents that were indexed."),
		total: telemetry.Histogram("parley_document_seconds", "Time from the start of processing a document until it was ready.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 150, 300, 900}),
	}

	held := telemetry.GaugeFunc("parley_documents_in_hand",
		"Documents that this process is processing now.", func() float64 { return float64(inHand()) })
	if err := telemetry.Register(registry, m.ended, m.failed, m.pages, m.chunks, m.total, held); err != nil {
		return nil, err
	}

	for _, end := range []string{endReady, endFailed, endPostponed, endReleased, endLost} {
		m.ended.WithLabelValues(end) // creates the series, so that each of them begins at 0
	}
	return m, nil
}

// end counts an attempt. The argument how is the outcome of the attempt.
func (m *metrics) end(how string) { m.ended.WithLabelValues(how).Inc() }

// ready counts a document that has become ready, and its pages and passages.
func (m *metrics) ready(w *work, pages int, took time.Duration) {
	m.end(endReady)
	m.pages.Add(float64(pages))
	m.chunks.Add(float64(w.chunks))
	m.total.Observe(took.Seconds())
}
