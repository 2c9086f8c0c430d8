package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/store/notificationdb"
	"parley/shared/store/sealdb"
)

const (
	pollInterval   = 500 * time.Millisecond // time between two polls; the end of an attempt causes an additional poll
	maxInFlight    = 64                     // maximum number of notifications in flight in this process
	maxPerEndpoint = 4                      // maximum number of notifications in flight per endpoint, in all processes together
	lease          = 30 * time.Second       // duration of a lease, which is longer than an attempt
	sendTime       = 10 * time.Second       // time limit of an attempt
	maxRecorders   = 2                      // maximum number of concurrent writes of results; other code also needs database connections
)

// delays contains the delay after each failed attempt. After the last of these delays, there is one
// final attempt.
var delays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Store stores notifications.
type Store interface {
	// ClaimNotifications leases due notifications to this worker, at most limit of them. At most
	// maxPerEndpoint notifications of an endpoint are leased at a time.
	ClaimNotifications(ctx context.Context, limit, maxPerEndpoint int, lease time.Duration) ([]notificationdb.ClaimedNotification, error)
	// Render reads the current state of the notification's subject. It returns a not_found error if
	// the subject no longer exists.
	Render(ctx context.Context, n *notificationdb.ClaimedNotification) error
	// RecordAttempt records the result of an attempt. It writes nothing if another worker has
	// claimed the notification. disabled reports that this attempt has disabled the endpoint.
	RecordAttempt(ctx context.Context, held notificationdb.LeasedNotification, a notificationdb.Attempt) (disabled bool, err error)
	// DropNotification deletes a notification if this worker still holds its lease.
	DropNotification(ctx context.Context, held notificationdb.LeasedNotification) error
}

// Secrets decrypts the stored secrets of endpoints. If no key can decrypt a secret, it logs the id
// of the endpoint.
type Secrets interface {
	OpenText(kind sealdb.Kind, org, id, sealed string) (string, error)
}

// Changes reports to watchers that an organization's notifications have changed.
type Changes interface {
	Changed(kind domain.ChangeKind, org string)
}

// Notifier sends the notifications that are due.
type Notifier struct {
	store   Store
	changes Changes
	client  *outbound.Client
	secrets Secrets
	metrics *metrics
	log     zerolog.Logger

	// Number of notifications in flight.
	held atomic.Int64
	// A semaphore that contains one element for each result that is being written.
	recorders chan struct{}
	wake      chan struct{} // signals that an attempt has finished
	failing   bool          // the last claim has failed
}

// New returns a Notifier that sends its requests with the given HTTP client.
func New(
	st Store, changes Changes, outside *outbound.Client, secrets Secrets, registry prometheus.Registerer, log zerolog.Logger,
) (*Notifier, error) {
	n := &Notifier{
		store: st, changes: changes, client: outside, secrets: secrets, log: log,
		recorders: make(chan struct{}, maxRecorders), wake: make(chan struct{}, 1),
	}
	var err error
	n.metrics, err = newMetrics(registry, n.held.Load)
	return n, err
}

// Run sends notifications until ctx ends. It then waits for the notifications in flight.
func (n *Notifier) Run(ctx context.Context) error {
	n.log.Info().Msg("notify worker ready")

	var sends sync.WaitGroup
	defer sends.Wait()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-n.wake:
		}

		// A finished attempt also wakes the loop, so that the next notification need not wait for
		// the next poll.
		for _, c := range n.claim(ctx) {
			n.held.Add(1)
			sends.Go(func() {
				// A shutdown does not interrupt an attempt. Otherwise, the endpoint could receive
				// only a part of the request.
				n.deliver(context.WithoutCancel(ctx), &c)
				n.held.Add(-1)
				n.ready()
			})
		}
	}
}

// ready wakes the loop in Run, after an attempt has finished.
func (n *Notifier) ready() {
	select {
	case n.wake <- struct{}{}:
	// A signal is already pending.
	default:
	}
}

// claim claims and returns due notifications, up to the limit of notifications in flight. It logs
// only the first of several consecutive failures.
func (n *Notifier) claim(ctx context.Context) []notificationdb.ClaimedNotification {
	free := maxInFlight - int(n.held.Load())
	if free <= 0 {
		return nil
	}
	claimed, err := n.store.ClaimNotifications(ctx, free, maxPerEndpoint, lease)
	if ctx.Err() != nil {
		return claimed // send the claimed notifications despite the error
	}
	if err != nil && !n.failing {
		n.log.Warn().Err(err).Msg("cannot read due notifications, retrying")
	}

	if err == nil && n.failing {
		n.log.Info().Msg("due notifications can be read again")
	}
	n.failing = err != nil
	return claimed
}

// deliver makes one attempt and records its result. If the result cannot be recorded, the attempt
// is repeated after the lease has expired.
func (n *Notifier) deliver(ctx context.Context, c *notificationdb.ClaimedNotification) {
	log := n.log.With().Str("org_id", c.OrganizationID).Str("endpoint_id", c.EndpointID).Str("notification_id", c.ID).Logger()

	err := n.store.Render(ctx, c)
	// If the subject was deleted after the event, there is nothing to send.
	if err != nil && apierr.CodeFor(err) == apierr.NotFound {
		n.drop(ctx, c, &log)
		return
	}
	// If the content of the run was erased at the end of its retention, the notification fails.
	if apierr.CodeFor(err) == apierr.Erased {
		n.metrics.attempts.WithLabelValues(endDropped).Inc()
		n.finalize(ctx, c, notificationdb.Attempt{Status: domain.NotificationFailed, Error: notificationdb.RunExpiredError, Unsent: true}, &log)
		return
	}
	if err != nil {
		log.Warn().Err(err).Msg("cannot read notification, retrying")
		return
	}

	began := time.Now()
	a := n.attempt(ctx, c)
	n.metrics.sent(a, time.Since(began))
	n.finalize(ctx, c, a, &log)
}

// finalize records the result of an attempt, even if the attempt sent no request.
func (n *Notifier) finalize(ctx context.Context, c *notificationdb.ClaimedNotification, a notificationdb.Attempt, log *zerolog.Logger) {
	// Wait until fewer than maxRecorders results are being written.
	n.recorders <- struct{}{}
	disabled, err := n.store.RecordAttempt(ctx, c.LeasedNotification, a)
	<-n.recorders
	if err != nil {
		log.Warn().Err(err).Msg("cannot store the outcome of a notification; it will be sent again")
		return
	}
	if disabled {
		n.metrics.disabled.Inc()
		log.Warn().Str("reason", a.Error).Msg("endpoint disabled")
	}
	n.changes.Changed(domain.ChangedNotifications, c.OrganizationID)
}

// drop deletes a notification whose subject no longer exists. It does nothing if another worker has
// claimed the notification in the meantime.
func (n *Notifier) drop(ctx context.Context, c *notificationdb.ClaimedNotification, log *zerolog.Logger) {
	if err := n.store.DropNotification(ctx, c.LeasedNotification); err != nil {
		log.Warn().Err(err).Msg("cannot remove notification, retrying")
		return
	}
	n.metrics.attempts.WithLabelValues(endDropped).Inc()
	n.changes.Changed(domain.ChangedNotifications, c.OrganizationID)
}

// attempt sends a notification. It returns the result of the attempt with the time of the next
// attempt.
func (n *Notifier) attempt(ctx context.Context, c *notificationdb.ClaimedNotification) notificationdb.Attempt {
	resp, err := n.send(ctx, c)
	if errors.Is(err, sealdb.ErrUnopened) { // the endpoint is not at fault
		return scheduleNext(c, notificationdb.Attempt{
			Error: "The endpoint's secret cannot be decrypted: rotate the secret, or have the operator restore its key.", Unsent: true,
		}, 0)
	}

	if err != nil {
		return scheduleNext(c, notificationdb.Attempt{Error: err.Error()}, 0)
	}
	a := notificationdb.Attempt{ResponseStatus: resp.status, Error: "The endpoint responded with status " + strconv.Itoa(resp.status) + "."}
	switch {
	case resp.status >= 200 && resp.status < 300:
		return notificationdb.Attempt{Status: domain.NotificationDelivered, ResponseStatus: resp.status}
	case resp.status == http.StatusGone:
		a.Gone, a.Error = true, "The endpoint returned 410 Gone: it accepts no more notifications."
	case resp.status >= 300 && resp.status < 400:
		a.Error = "The endpoint responded with status " + strconv.Itoa(resp.status) + ": redirects are not followed."
	}
	return scheduleNext(c, a, resp.retryAfter)
}

// scheduleNext returns the attempt with its status and the time of the next attempt. The delay
// increases with each attempt. If the endpoint demands a longer delay with Retry-After, that delay
// applies, but at most the last one in delays. A ping is not retried.
func scheduleNext(c *notificationdb.ClaimedNotification, a notificationdb.Attempt, retryAfter time.Duration) notificationdb.Attempt {
	// A ping is sent to test the endpoint, and the person who sends it needs the result
	// immediately.
	if c.Event == domain.NotifyPing || c.Attempts > len(delays) {
		a.Status = domain.NotificationFailed
		return a
	}
	a.Status = domain.NotificationPending

	// A random part of the delay spreads the attempts of many notifications after an outage.
	delay := delays[max(c.Attempts, 1)-1]
	a.Next = max(delay*9/10+rand.N(delay/5), min(retryAfter, delays[len(delays)-1])) //nolint:gosec // G404: jitter is not security-relevant
	return a
}
