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
		ended:  telemetry.CounterVec("parley_runs_ended_total", "Runs finished by this process, by status.", "status"),
		failed: telemetry.CounterVec("parley_attempts_failed_total", "Attempts that failed, by error code.", "code"),
		parked: telemetry.CounterVec("parley_runs_parked_total", "Runs that started to wait for a person, by kind.", "kind"),
		removedCitations: telemetry.Counter("parley_citations_removed_total",
			"Citations removed because their source does not support them."),
		wait:  telemetry.Histogram("parley_run_wait_seconds", "Time from a run's acceptance to its first start.", seconds),
		total: telemetry.Histogram("parley_run_seconds", "Time from a run's acceptance to its finish.", seconds),
	}

	held := telemetry.GaugeFunc("parley_runs_in_hand", "Runs that this process is executing.", func() float64 { return float64(inHand()) })
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
