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
	every    = 500 * time.Millisecond // between two looks for what is due, when nothing is under way
	places   = 64                     // notifications that a process has in hand
	atOnce   = 4                      // notifications of one endpoint that all processes have in hand
	lease    = 30 * time.Second       // longer than an attempt takes
	sendTime = 10 * time.Second       // of an attempt
	settlers = 2                      // attempts that are written down at a time: the database's connections are others', too
)

// delays are the times between attempts; behind the last one no further is made.
var delays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Store is where notifications are noted.
type Store interface {
	ClaimNotifications(ctx context.Context, limit, atOnce int, lease time.Duration) ([]notificationdb.ClaimedNotification, error)
	Render(ctx context.Context, n *notificationdb.ClaimedNotification) error
	SettleNotification(ctx context.Context, held notificationdb.HeldNotification, a notificationdb.Attempt) (disabled bool, err error)
	DropNotification(ctx context.Context, held notificationdb.HeldNotification) error
}

// Secrets opens the stored secrets of endpoints, and reports those that no key opens.
type Secrets interface {
	OpenText(kind sealdb.Kind, org, id, sealed string) (string, error)
}

// Changes is told that an organization's notifications have changed.
type Changes interface {
	Changed(kind domain.ChangeKind, org string)
}

// Notifier sends what is due.
type Notifier struct {
	store   Store
	changes Changes
	outside *outbound.Client
	secrets Secrets
	metrics *metrics
	log     zerolog.Logger

	held     atomic.Int64
	settling chan struct{}
	wake     chan struct{} // a place is free
	failing  bool          // the last claim failed
}

// New makes a notifier that sends by the one client for what lies outside.
func New(
	st Store, changes Changes, outside *outbound.Client, secrets Secrets, registry prometheus.Registerer, log zerolog.Logger,
) (*Notifier, error) {
	n := &Notifier{
		store: st, changes: changes, outside: outside, secrets: secrets, log: log,
		settling: make(chan struct{}, settlers), wake: make(chan struct{}, 1),
	}
	var err error
	n.metrics, err = newMetrics(registry, n.held.Load)
	return n, err
}

// Run sends until ctx ends and what is in hand was sent.
func (n *Notifier) Run(ctx context.Context) error {
	n.log.Info().Msg("notify worker ready")
	var sends sync.WaitGroup
	defer sends.Wait()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-n.wake:
		}
		for _, c := range n.claim(ctx) {
			n.held.Add(1)
			sends.Go(func() {
				n.deliver(context.WithoutCancel(ctx), &c)
				n.held.Add(-1)
				n.ready()
			})
		}
	}
}

// ready has the loop look for what is due.
func (n *Notifier) ready() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// claim takes as many notifications in hand as there are places. That it fails is said once, not each time.
func (n *Notifier) claim(ctx context.Context) []notificationdb.ClaimedNotification {
	free := places - int(n.held.Load())
	if free <= 0 {
		return nil
	}
	claimed, err := n.store.ClaimNotifications(ctx, free, atOnce, lease)
	if ctx.Err() != nil {
		return claimed // what was claimed all the same is sent
	}
	if err != nil && !n.failing {
		n.log.Warn().Err(err).Msg("cannot read due notifications, retrying")
	}
	if err == nil && n.failing {
		n.log.Info().Msg("reading due notifications works again")
	}
	n.failing = err != nil
	return claimed
}

// deliver makes one attempt and writes down how it ended. When that cannot be written, the lease runs out and it is made again.
func (n *Notifier) deliver(ctx context.Context, c *notificationdb.ClaimedNotification) {
	log := n.log.With().Str("org_id", c.OrganizationID).Str("endpoint_id", c.EndpointID).Str("notification_id", c.ID).Logger()
	err := n.store.Render(ctx, c)
	if err != nil && apierr.CodeFor(err) == apierr.NotFound {
		n.drop(ctx, c, &log)
		return
	}
	if apierr.CodeFor(err) == apierr.Erased {
		n.metrics.attempts.WithLabelValues(endDropped).Inc()
		n.settle(ctx, c, notificationdb.Attempt{Status: domain.NotificationFailed, Error: notificationdb.Untold, Unsent: true}, &log)
		return
	}
	if err != nil {
		log.Warn().Err(err).Msg("cannot read notification, retrying")
		return
	}
	began := time.Now()
	a := n.attempt(ctx, c)
	n.metrics.sent(a, time.Since(began))
	n.settle(ctx, c, a, &log)
}

// settle writes down how an attempt ended, or that none was made.
func (n *Notifier) settle(ctx context.Context, c *notificationdb.ClaimedNotification, a notificationdb.Attempt, log *zerolog.Logger) {
	n.settling <- struct{}{}
	disabled, err := n.store.SettleNotification(ctx, c.HeldNotification, a)
	<-n.settling
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

// drop removes a notification that there is nothing any more to tell of; one that is in another worker's hand by now stays.
func (n *Notifier) drop(ctx context.Context, c *notificationdb.ClaimedNotification, log *zerolog.Logger) {
	if err := n.store.DropNotification(ctx, c.HeldNotification); err != nil {
		log.Warn().Err(err).Msg("cannot remove notification, retrying")
		return
	}
	n.metrics.attempts.WithLabelValues(endDropped).Inc()
	n.changes.Changed(domain.ChangedNotifications, c.OrganizationID)
}

// attempt sends a notification and judges what comes back.
func (n *Notifier) attempt(ctx context.Context, c *notificationdb.ClaimedNotification) notificationdb.Attempt {
	resp, err := n.send(ctx, c)
	if errors.Is(err, sealdb.ErrUnopened) { // which is no fault of the endpoint's
		return failed(c, notificationdb.Attempt{
			Error: "The endpoint's secret cannot be decrypted: rotate the secret, or have the operator restore its key.", Unsent: true,
		}, 0)
	}
	if err != nil {
		return failed(c, notificationdb.Attempt{Error: err.Error()}, 0)
	}
	a := notificationdb.Attempt{ResponseStatus: resp.status, Error: "The endpoint answered " + strconv.Itoa(resp.status) + "."}
	switch {
	case resp.status >= 200 && resp.status < 300:
		return notificationdb.Attempt{Status: domain.NotificationDelivered, ResponseStatus: resp.status}
	case resp.status == http.StatusGone:
		a.Gone, a.Error = true, "The endpoint answered 410 Gone: it accepts no more notifications."
	case resp.status >= 300 && resp.status < 400:
		a.Error = "The endpoint answered " + strconv.Itoa(resp.status) + ": redirects are not followed."
	}
	return failed(c, a, resp.retryAfter)
}

// failed says when the next attempt is made: after a time that grows, and no sooner than the endpoint asks for. Tests are not repeated.
func failed(c *notificationdb.ClaimedNotification, a notificationdb.Attempt, retryAfter time.Duration) notificationdb.Attempt {
	if c.Event == domain.NotifyPing || c.Attempts > len(delays) {
		a.Status = domain.NotificationFailed
		return a
	}
	a.Status = domain.NotificationPending
	delay := delays[max(c.Attempts, 1)-1]
	a.Next = max(delay*9/10+rand.N(delay/5), min(retryAfter, delays[len(delays)-1])) //nolint:gosec // G404: so that not all come back at once
	return a
}
