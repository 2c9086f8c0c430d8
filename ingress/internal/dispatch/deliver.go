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

// deliverWaiting is the maximum number of deliveries that wait to be accepted. The limit is low,
// because each delivery keeps its body in memory.
const deliverWaiting = 1024

// These constants limit the part of the backlog that the runs of one organization's hooks may use,
// so that room remains for the runs of other organizations.
const (
	// The limit for one organization is BacklogMax/hookRunsPart queued runs, but at least
	// hookRunsLeast.
	hookRunsPart  = 10 // 10,000 by default
	hookRunsLeast = 1000
	// A count is valid for hookRunsCounted. The query may take up to hookRunsTime.
	hookRunsCounted = time.Second
	hookRunsTime    = 3 * time.Second
	hookRunsWait    = 10 * time.Second // Retry-After of the response to the sender of the delivery
)

// hookRuns caches which organizations have too many queued runs from hooks.
type hookRuns struct {
	count   func(ctx context.Context, org string, maximum int) (int, error)
	maximum int // limit on the queued runs that hooks of one organization have started

	mu sync.Mutex
	// known is keyed by organization.
	known map[string]hookRunsOf
	swept time.Time // when expired entries were last removed from known
}

// hookRunsOf is the cached result for one organization. It is valid until the given time.
type hookRunsOf struct {
	full  bool
	until time.Time
}

// newHookRuns returns an empty cache. backlogMax is the maximum number of queued runs of all
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookRunsTime) // other requests use this query's result
	defer cancel()

	// After an error, the previous value stays valid for hookRunsTime. Otherwise each delivery
	// would repeat the failing query.
	n, err := h.count(ctx, org, h.maximum)
	if err != nil {
		return full
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[org] = hookRunsOf{n >= h.maximum, time.Now().Add(hookRunsCounted)}
	return n >= h.maximum
}

// recall returns the cached value of an organization. If the value has expired, recall returns
// fresh as false and extends the value's validity. Therefore only one caller counts, and others use
// the old value meanwhile.
func (h *hookRuns) recall(org string) (full, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()

	// Without this cleanup, the map would keep an entry for each organization that ever received a
	// delivery.
	if now.Sub(h.swept) > time.Minute {
		h.swept = now
		maps.DeleteFunc(h.known, func(_ string, of hookRunsOf) bool { return now.After(of.until) })
	}
	of := h.known[org]
	if now.Before(of.until) {
		return of.full, true
	}

	// The old value remains valid for as long as the new count may take.
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
		// The backlog's count includes the runs of hooks. While it is below their limit, the runs of
		// hooks need not be counted separately.
		//
		// A delivery may be a repetition whose run exists. It is answered with that run even if the
		// queue is full. Otherwise the sender would repeat it again and again.
		org := delivery.OrganizationID
		if d.backlog.mayHave(org, d.byHooks.maximum) && d.byHooks.full(ctx, org) {
			return d.delivered(ctx, &delivery, tooManyByHooks())
		}
		if err := d.backlog.admit(org); err != nil {
			return d.delivered(ctx, &delivery, err)
		}
	}
	ctx, span := tracing.Child(ctx, tracing.Producer, "hook.deliver", "")
	defer span.End()
	if span.On() && delivery.Run != nil {
		// The run is copied, because the caller may still use its own copy.
		run := *delivery.Run
		run.Traceparent = tracing.Traceparent(ctx)
		delivery.Run = &run
	}

	// An error of the batch and an error of the delivery are handled alike. In both cases nothing
	// was stored for this delivery.
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

// delivered returns the existing run of a repeated delivery. If the delivery is new, it returns the
// error for an organization with too many queued runs.
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

// deliver stores a batch of deliveries and publishes the jobs of their runs, as accept does. For a
// delivery without a run, it publishes a change of the hook's log.
func (d *Dispatcher) deliver(ctx context.Context, rows []queuedb.NewDelivery) ([]queuedb.AcceptedDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	accepted, err := d.store.Queue.AcceptDeliveries(ctx, rows)
	if err != nil {
		return nil, err
	}

	// Only new deliveries are published. A repetition was published when the delivery arrived
	// first.
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Run != nil && rows[i].Collect == nil {
			// The run waits for a slot. A delivery that is coalesced with others waits for a time
			// instead, and the sweeper dispatches its run.
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Run.Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.PublishJobs(next...)
	return accepted, nil
}
