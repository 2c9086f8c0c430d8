package dispatch

import (
	"context"
	"maps"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/queuedb"
	"parley/shared/telemetry/tracing"
)

// deliverWaiting bounds the deliveries that wait to be accepted. Each has its body in memory.
const deliverWaiting = 1024

// The runs of one organization's hooks may use this part of the backlog, so the deliveries of one
// organization leave room for the runs of all others.
const (
	// The limit for one organization is BacklogMax/hookRunsPart queued runs, but at least
	// hookRunsLeast.
	hookRunsPart  = 10 // 10,000 by default
	hookRunsLeast = 1000
	// A count is valid for hookRunsCounted and may take hookRunsTime.
	hookRunsCounted = time.Second
	hookRunsTime    = 3 * time.Second
	hookRunsWait    = 10 * time.Second // the Retry-After sent to the source
)

// hookRuns caches which organizations have too many queued runs from hooks.
type hookRuns struct {
	count   func(ctx context.Context, org string, maximum int) (int, error)
	maximum int // queued runs from the hooks of one organization

	mu sync.Mutex
	// known is keyed by organization.
	known map[string]hookRunsOf
	swept time.Time // when expired entries were last removed
}

// hookRunsOf is the cached value of one organization. It is valid until the given time.
type hookRunsOf struct {
	full  bool
	until time.Time
}

// newHookRuns returns an empty cache. backlogMax is the maximum of queued runs of all
// organizations.
func newHookRuns(count func(context.Context, string, int) (int, error), backlogMax int) *hookRuns {
	return &hookRuns{count: count, maximum: max(backlogMax/hookRunsPart, hookRunsLeast), known: map[string]hookRunsOf{}}
}

// full reports whether an organization's hooks may start no more runs. While one request counts,
// others use the cached value. They also use it if the count fails.
func (h *hookRuns) full(ctx context.Context, org string) bool {
	full, fresh := h.recall(org)
	if fresh {
		return full
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookRunsTime) // other requests share the count
	defer cancel()

	// After an error the old value stays valid for hookRunsTime. Otherwise each delivery would
	// repeat the failing query.
	n, err := h.count(ctx, org, h.maximum)
	if err != nil {
		return full
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[org] = hookRunsOf{n >= h.maximum, time.Now().Add(hookRunsCounted)}
	return n >= h.maximum
}

// recall returns the cached value of an organization. A stale value is marked fresh for the next
// caller, so only one caller counts.
func (h *hookRuns) recall(org string) (full, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()

	// Without this, the map would keep an entry for each organization that ever had a delivery.
	if now.Sub(h.swept) > time.Minute {
		h.swept = now
		maps.DeleteFunc(h.known, func(_ string, of hookRunsOf) bool { return now.After(of.until) })
	}
	of := h.known[org]
	if now.Before(of.until) {
		return of.full, true
	}

	// The new value is valid for as long as the count may take.
	h.known[org] = hookRunsOf{of.full, now.Add(hookRunsTime)}
	return of.full, false
}

// Deliver logs a delivery to a hook, accepts its run, and publishes the run's job. If the delivery
// is a repetition that has a run, Deliver returns that run. When it returns without an error, the
// delivery and the run are stored.
//
// While too many runs are queued, Deliver refuses new deliveries that start a run. It does not wait
// for the run to finish.
func (d *Dispatcher) Deliver(ctx context.Context, delivery queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	// A delivery that starts no run is not limited here: it adds nothing to the queue.
	if delivery.Run != nil {
		// A delivery may be a repetition whose run exists. It is answered with that run even if the
		// queue is full, because its source would otherwise send it again and again.
		if d.byHooks.full(ctx, delivery.OrganizationID) {
			return d.delivered(ctx, &delivery, tooManyByHooks())
		}
		if err := d.backlog.admit(delivery.OrganizationID); err != nil {
			return d.delivered(ctx, &delivery, err)
		}
	}
	ctx, span := tracing.Child(ctx, tracing.Producer, "hook.deliver", "")
	defer span.End()
	if span.On() && delivery.Run != nil {
		// The caller's run is copied, because the caller may still use it.
		run := *delivery.Run
		run.Traceparent = tracing.Traceparent(ctx)
		delivery.Run = &run
	}

	// The batch's error and the delivery's own error are handled alike: both mean that nothing was
	// stored for this delivery.
	accepted, err := whileLocked(ctx, func() (queuedb.AcceptedDelivery, error) {
		accepted, err := d.arrived.Do(ctx, tracing.For(ctx, delivery))
		if err == nil {
			err = accepted.Err
		}
		return accepted, err
	})
	if err != nil {
		span.Fail("refused")
		return queuedb.AcceptedDelivery{}, refusal(err)
	}
	return accepted, nil
}

// delivered returns the run of a repeated delivery. If there is none, it returns the error full.
func (d *Dispatcher) delivered(ctx context.Context, delivery *queuedb.NewDelivery, full error) (queuedb.AcceptedDelivery, error) {
	seen, err := d.store.Hooks.Delivery(ctx, delivery.OrganizationID, delivery.HookID, delivery.ID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return queuedb.AcceptedDelivery{}, full
	case err != nil:
		return queuedb.AcceptedDelivery{}, refusal(err)
	case seen.RunID == nil:
		return queuedb.AcceptedDelivery{}, full
	}
	return queuedb.AcceptedDelivery{Delivery: seen, Existing: true}, nil
}

// tooManyByHooks returns the error for an organization whose hooks have too many queued runs.
func tooManyByHooks() error {
	e := apierr.New(apierr.Overloaded, "too many webhook runs of this organization are queued; try again shortly")
	e.RetryAfter = hookRunsWait
	return e
}

// deliver logs a batch and publishes the jobs of its runs, as accept does. A delivery without a run
// is published as a change of the hook's log.
func (d *Dispatcher) deliver(ctx context.Context, rows []queuedb.NewDelivery) ([]queuedb.AcceptedDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	accepted, err := d.store.Queue.AcceptDeliveries(ctx, rows)
	if err != nil {
		return nil, err
	}

	// Only new deliveries are published. A repetition was published when it arrived first.
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Run != nil && rows[i].Collect == nil {
			// The run waits for a slot. A delivery that joins a collection waits for a time
			// instead, and the sweeper queues its run.
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Run.Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.PublishJobs(next...)
	return accepted, nil
}
