package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/domain"
	"parley/shared/store/notificationdb"
	"parley/shared/telemetry"
)

// These are the values of the label "end", the outcomes of attempts.
const (
	// The endpoint responded with a 2xx status.
	endDelivered = "delivered"
	endPostponed = "postponed" // the attempt failed, and another one will follow
	// The last attempt failed.
	endFailed  = "failed"
	endDropped = "dropped" // the subject of the notification was deleted, or its content was erased
)

// metrics contains a worker's metrics of notifications.
type metrics struct {
	// Number of attempts by outcome.
	attempts *prometheus.CounterVec
	// Duration of attempts, including the response.
	seconds prometheus.Histogram
	// Number of endpoints that were disabled.
	disabled prometheus.Counter
}

// newMetrics registers the metrics. The function inHand returns the number of notifications in
// flight.
func newMetrics(registry prometheus.Registerer, inHand func() int64) (*metrics, error) {
	m := &metrics{
		attempts: telemetry.CounterVec("parley_notification_attempts_total", "Attempts to send notifications in this process, by outcome.",
			"end"),
		seconds: telemetry.Histogram("parley_notification_seconds", "Duration of notification attempts.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		disabled: telemetry.Counter("parley_notification_endpoints_disabled_total", "Endpoints that this process has disabled."),
	}

	held := telemetry.GaugeFunc("parley_notifications_in_hand",
		"Notifications that this process is sending now.", func() float64 { return float64(inHand()) })
	if err := telemetry.Register(registry, m.attempts, m.seconds, m.disabled, held); err != nil {
		return nil, err
	}

	for _, end := range []string{endDelivered, endPostponed, endFailed, endDropped} {
		m.attempts.WithLabelValues(end) // creates the time series, so that they begin at 0
	}
	return m, nil
}

// sent records an attempt and its duration.
func (m *metrics) sent(a notificationdb.Attempt, took time.Duration) {
	ends := map[domain.NotificationStatus]string{
		domain.NotificationDelivered: endDelivered, domain.NotificationPending: endPostponed, domain.NotificationFailed: endFailed,
	}
	m.attempts.WithLabelValues(ends[a.Status]).Inc()
	m.seconds.Observe(took.Seconds())
}
