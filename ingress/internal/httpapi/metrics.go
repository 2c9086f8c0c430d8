package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/telemetry"
)

// metrics counts requests by route, method and status. The values of labels do not come from
// callers, so the number of series is small. The methods are safe for concurrent use.
type metrics struct {
	// Requests in progress, including streams.
	inFlight prometheus.Gauge
	// Finished requests by route, method and status.
	requests *prometheus.CounterVec
	// Durations by route and method.
	seconds *prometheus.HistogramVec
	arrived *prometheus.CounterVec // webhook deliveries by source and outcome
	cut     *prometheus.CounterVec // uploads aborted to make room for others, by route and sender
	show    gin.HandlerFunc        // responds with all metrics of the registry
}

// newMetrics registers the metrics of the HTTP API. If registry is nil, it uses a new one. The
// error reports that a metric of the same name is already registered.
func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}

	m := &metrics{
		requests: telemetry.CounterVec("parley_http_requests_total", "Requests answered.", "route", "method", "status"),
		seconds: telemetry.HistogramVec("parley_http_request_seconds", "Time from a request's headers to the end of its response.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "route", "method"),
	}

	m.arrived = telemetry.CounterVec("parley_hook_deliveries_total", "Webhook deliveries, by source and outcome.", "source", "outcome")
	m.cut = telemetry.CounterVec("parley_uploads_cut_total",
		"Uploads aborted to make room for others, by route and by whether the sender was verified.", "route", "sender")
	m.inFlight = telemetry.Gauge("parley_http_requests_in_flight", "Requests in progress, including those that wait for runs.")

	if err := telemetry.Register(registry, m.requests, m.seconds, m.arrived, m.cut, m.inFlight); err != nil {
		return nil, err
	}

	for _, source := range domain.HookSources {
		m.arrived.WithLabelValues(string(source), string(domain.DeliveryAccepted)) // initializes the counter with zero
	}

	m.show = gin.WrapH(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return m, nil
}

// count counts a finished request. took is the time since its headers arrived. A stream counts when
// it has ended.
func (m *metrics) count(c *gin.Context, status int, took time.Duration) {
	route, method := c.FullPath(), c.Request.Method
	if route == "" { // there is no route, and callers can send any number of different paths and methods
		route, method = "none", "any"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route, method).Observe(took.Seconds())
}

// countCut counts the request's upload if it was aborted to make room for another upload. It is
// called once for each request. Downloads are not counted.
func (m *metrics) countCut(c *gin.Context, st *httpx.State) {
	if !errors.Is(st.Err, transfer.ErrCut) || c.Request.Method == http.MethodGet {
		return
	}
	sender := "verified"
	if st.Unverified {
		sender = "unverified"
	}
	m.cut.WithLabelValues(c.FullPath(), sender).Inc()
}

// showMetrics returns the handler of GET /metrics. Only programs on this machine and clients that
// send METRICS_TOKEN may read the metrics. The token is compared in constant time. Requests that a
// proxy forwards are not local.
func (a *api) showMetrics(m *metrics) gin.HandlerFunc {
	return func(c *gin.Context) {
		sent, expected := sha256.Sum256([]byte(c.GetHeader("Authorization"))), sha256.Sum256([]byte("Bearer "+a.MetricsToken))

		// Compare hashes, which have equal lengths, so that the time does not reveal the token's
		// length.
		authorized := a.MetricsToken != "" && subtle.ConstantTimeCompare(sent[:], expected[:]) == 1
		if !authorized && !a.Proxies.OnThisMachine(c.Request) {
			httpx.Fail(c, apierr.New(apierr.PermissionDenied,
				"metrics need a direct local connection, or METRICS_TOKEN as a bearer token"))
			return
		}
		m.show(c)
	}
}

// countDelivery counts a request that is a webhook delivery. It ignores other requests. The outcome
// is that of the delivery or, if the delivery has none, is derived from the status.
func (m *metrics) countDelivery(st *httpx.State, status int) {
	if st.Source == "" {
		return
	}

	outcome := string(st.Delivery)
	switch {
	case outcome != "":
	case status == http.StatusUnauthorized, status == http.StatusTooManyRequests: // 429 is the status after too many responses with 401
		outcome = "unauthenticated"
	case status >= http.StatusInternalServerError:
		outcome = "unavailable"
	default:
		outcome = "invalid"
	}

	m.arrived.WithLabelValues(string(st.Source), outcome).Inc()
}
