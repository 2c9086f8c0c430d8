package sweep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/domain"
	"parley/shared/store/queuedb"
	"parley/shared/telemetry"
)

// measureEvery is the time between two measurements of the queues by a sweeper.
const measureEvery = 10 * time.Second

// Values of the label "action" of the metric parley_sweeper_actions_total.
const (
	actionEnd       = "ended"             // runs that were ended: past their deadline, without a decision, or with too many lost workers
	actionRequeue   = "requeued"          // runs whose worker was lost
	actionDispatch  = "dispatched"        // queued runs
	actionNotify    = "rung_again"        // runs whose job message was lost
	actionDocuments = "documents_ended"   // documents that no worker could process
	actionCoalesce  = "deliveries_closed" // webhook deliveries whose time for coalescing has passed
	actionExpire    = "expired"           // rows past their retention
	actionIndex     = "indexed"           // finished runs whose words were added to the search index
	actionStream    = "streams_made"      // job streams that were created again
)

// metrics contains the Prometheus metrics of a sweeper and of the service's queues. All sweepers
// measure the same queues.
type metrics struct {
	// Number of the sweeper's actions by kind. The constants above are the kinds.
	actions *prometheus.CounterVec
	failed  *prometheus.CounterVec // failed rounds by loop; a loop's label is the name that the method repeat receives
	queues  *prometheus.GaugeVec   // number of unfinished runs by lane and state
	oldest  *prometheus.GaugeVec   // age of the oldest run in seconds, by lane and state
	pending *prometheus.GaugeVec   // number of undelivered job messages by lane
}

// newMetrics returns the metrics. The method Register registers them.
func newMetrics() *metrics {
	m := &metrics{
		actions: telemetry.CounterVec("parley_sweeper_actions_total", "Actions of the sweeper in this process, by kind.", "action"),
		failed:  telemetry.CounterVec("parley_sweeps_failed_total", "Failed rounds of the sweeper in this process, by task.", "sweep"),
		queues: telemetry.GaugeVec("parley_queue_runs",
			"Unfinished runs of the whole service, by lane and state; in the lane ingest, documents.", "lane", "state"),
		oldest: telemetry.GaugeVec("parley_queue_oldest_seconds",
			"Time since the oldest unfinished run or document was accepted, by lane and state.", "lane", "state"),
		pending: telemetry.GaugeVec("parley_doorbells_pending",
			"Job messages not yet delivered to a worker, by lane: the consumer's lag.", "lane"),
	}

	// Create the counters with the value 0, because functions such as rate need an earlier value to
	// detect the first increase.
	for _, action := range []string{
		actionEnd, actionRequeue, actionDispatch, actionNotify, actionDocuments, actionCoalesce, actionExpire, actionIndex, actionStream,
	} {
		m.actions.WithLabelValues(action)
	}
	for _, sweep := range []string{"sweep", "checking jobs", "expiry", "indexing runs", "measuring"} {
		m.failed.WithLabelValues(sweep)
	}
	for _, lane := range lanes() { // create all time series, because an alert never fires if its series is missing
		m.pending.WithLabelValues(string(lane))
	}
	return m
}

// Register registers the sweeper's metrics.
func (s *Sweeper) Register(registry prometheus.Registerer) error {
	m := s.metrics
	return telemetry.Register(registry, m.actions, m.failed, m.queues, m.oldest, m.pending)
}

// count adds n to the counter of an action.
func (m *metrics) count(action string, n int) { m.actions.WithLabelValues(action).Add(float64(n)) }

// measure sets the gauges of the queues, which come from the database and from the job stream.
func (s *Sweeper) measure(ctx context.Context) error {
	// The database and the job stream fail independently. If one of them fails, the gauges for the
	// other are still set.
	queues, err := s.store.Queue.Queues(ctx)
	if err == nil {
		s.metrics.showQueues(queues)
	}
	errs := []error{err}
	for _, lane := range lanes() {
		undelivered, err := s.bus.Pending(ctx, lane)
		errs = append(errs, err)
		if err == nil {
			s.metrics.pending.WithLabelValues(string(lane)).Set(float64(undelivered))
		}
	}
	return errors.Join(errs...)
}

// lanes returns the lanes of runs, and the lane of documents.
func lanes() []domain.Lane { return append(slices.Clone(domain.Lanes), domain.LaneIngest) }

// showQueues sets the gauges of all lanes and states. If queues lacks a combination, the gauges of
// that combination are set to 0.
func (m *metrics) showQueues(queues []queuedb.Queue) {
	for _, lane := range lanes() {
		for _, state := range queuedb.QueueStates {
			var found queuedb.Queue
			if i := slices.IndexFunc(queues, func(q queuedb.Queue) bool { return q.Lane == lane && q.State == state }); i >= 0 {
				found = queues[i]
			}
			m.queues.WithLabelValues(string(lane), state).Set(float64(found.Runs))
			m.oldest.WithLabelValues(string(lane), state).Set(found.Age)
		}
	}
}
