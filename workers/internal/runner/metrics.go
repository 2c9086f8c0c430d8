package runner

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/domain"
	"parley/shared/telemetry"
)

// metrics contains the Prometheus metrics of a worker's runs. All runs of a process share one
// value.
type metrics struct {
	// The help texts in newMetrics describe the metrics.
	ended            *prometheus.CounterVec
	failed           *prometheus.CounterVec
	parked           *prometheus.CounterVec
	removedCitations prometheus.Counter
	wait             prometheus.Histogram
	total            prometheus.Histogram
}

// newMetrics registers the metrics. inHand returns the number of attempts that this worker
// executes.
func newMetrics(registry prometheus.Registerer, inHand func() int) (*metrics, error) {
	seconds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900}
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_runs_ended_total", Help: "Runs finished by this process, by status.",
		}, []string{"status"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_attempts_failed_total", Help: "Attempts that failed, by error code.",
		}, []string{"code"}),
		parked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_runs_parked_total", Help: "Runs that started to wait for a person, by kind.",
		}, []string{"kind"}),
		removedCitations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_citations_removed_total", Help: "Citations removed because their source does not support them.",
		}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_run_wait_seconds", Help: "Time from a run's acceptance to its first start.", Buckets: seconds,
		}),
		total: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_run_seconds", Help: "Time from a run's acceptance to its finish.", Buckets: seconds,
		}),
	}

	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_runs_in_hand", Help: "Runs that this process is executing.",
	}, func() float64 { return float64(inHand()) })
	if err := telemetry.Register(registry, m.ended, m.failed, m.parked, m.removedCitations, m.wait, m.total, held); err != nil {
		return nil, err
	}
	m.zero()
	return m, nil
}

// zero creates all counters with the value 0, because alerts compare later values with the first
// value.
func (m *metrics) zero() {
	for _, status := range []domain.RunStatus{domain.RunCompleted, domain.RunFailed, domain.RunTimedOut} {
		m.ended.WithLabelValues(string(status))
	}
	for _, kind := range []domain.ActionKind{domain.ActionApproval, domain.ActionUnknownOutcome} {
		m.parked.WithLabelValues(string(kind))
	}
	m.failed.WithLabelValues("internal")
}

// end counts a finished run whose result was saved.
func (m *metrics) end(run domain.Run) {
	m.ended.WithLabelValues(string(run.Status)).Inc()
	m.removedCitations.Add(float64(run.CitationsRemoved))

	// A later attempt follows a failure, so its start time does not show how long the run was
	// queued.
	if run.StartedAt != nil && run.Attempts == 1 {
		m.wait.Observe(run.StartedAt.Sub(run.CreatedAt.Time).Seconds())
	}
	m.total.Observe(run.FinishedAt.Sub(run.CreatedAt.Time).Seconds())
}
