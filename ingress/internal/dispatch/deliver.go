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

// deliverWaiting is the maximum number of deliveries to hooks that wait to be accepted. It is low,
// because each waiting delivery keeps its body in memory.
const deliverWaiting = 1024

// These constants limit the part of the backlog that the runs of one organization's hooks may use,
// so that room remains for the runs of other organizations.
const (
	// The limit for one organization is BacklogMax/hookRunsPart queued runs, but at least
	// hookRunsLeast.
	hookRunsPart  = 10 // 10,000 by default
	hookRunsLeast = 1000
	// The result of a count is used for hookRunsCounted. A count may take up to hookRunsTime.
	hookRunsCounted = time.Second
	hookRunsTime    = 3 * time.Second
	hookRunsWait    = 10 * time.Second // Retry-After for a rejected delivery
)

// hookRuns caches whether organizations have reached the limit on queued runs from hooks. It is
// safe for concurrent use.
type hookRuns struct {
	count   func(ctx context.Context, org string, maximum int) (int, error)
	maximum int // maximum number of queued runs that the hooks of one organization have started

	mu sync.Mutex
	// known is keyed by organization.
	known map[string]orgHookRuns
	swept time.Time // when expired entries were last removed from known
}

// orgHookRuns is the cached result for one organization. It is valid until the time in the field
// until.
type orgHookRuns struct {
	full  bool
	until time.Time
}

// newHookRuns returns an empty cache. backlogMax is the maximum number of queued runs of all
// organizations.
func newHookRuns(count func(context.Context, string, int) (int, error), backlogMax int) *hookRuns {
	return &hookRuns{count: count, maximum: max(backlogMax/hookRunsPart, hookRunsLeast), known: map[string]orgHookRuns{}}
}

// full reports whether an organization's hooks may start no more runs. At most one request counts
// the runs at a time. Meanwhile, and if the count fails, other requests use the cached value. The
// cached value is at most hookRunsCounted old, or older after a failure.
func (h *hookRuns) full(ctx context.Context, org string) bool {
	full, fresh := h.recall(org)
	if fresh {
		return full
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookRunsTime) // other requests use this query's result
	defer cancel()

	// If the count has failed, the old value stays valid for hookRunsTime, so that not every
	// delivery repeats the failing query.
	n, err := h.count(ctx, org, h.maximum)
	if err != nil {
		return full
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[org] = orgHookRuns{n >= h.maximum, time.Now().Add(hookRunsCounted)}
	return n >= h.maximum
}

// recall returns the cached value of an organization. If the value has expired, fresh is false, and
// the caller must count. recall then extends the validity of the old value, so that other callers
// use it during the count.
func (h *hookRuns) recall(org string) (full, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()

	// Without this cleanup, the map would keep an entry for each organization that ever received a
	// delivery.
	if now.Sub(h.swept) > time.Minute {
		h.swept = now
		maps.DeleteFunc(h.known, func(_ string, of orgHookRuns) bool { return now.After(of.until) })
	}
	of := h.known[org]
	if now.Before(of.until) {
		return of.full, true
	}

	// The old value stays valid for the maximum duration of a count.
	h.known[org] = orgHookRuns{of.full, now.Add(hookRunsTime)}
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
		// The backlog's count includes the runs of hooks. While this count is below the limit for
		// hooks, the runs of hooks need not be counted separately.
		//
		// If the delivery is a repetition and its run exists, respond with this run even if a limit
		// is reached. Otherwise the sender would repeat the delivery again and again.
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
		// Copy the run, because the caller may still use it.
		run := *delivery.Run
		run.Traceparent = tracing.Traceparent(ctx)
		delivery.Run = &run
	}

	// Treat an error of the whole batch like an error of this delivery: in both cases the delivery
	// was not stored.
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

// delivered returns the existing run of a repeated delivery. If there is no such run, it returns
// the argument full. The method delivered is used for a delivery that a limit refuses.
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

// deliver stores a batch of deliveries and publishes the jobs of those runs that may start. For
// every new delivery, it publishes a change. The results have the order of rows.
func (d *Dispatcher) deliver(ctx context.Context, rows []queuedb.NewDelivery) ([]queuedb.AcceptedDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	accepted, err := d.store.Queue.AcceptDeliveries(ctx, rows)
	if err != nil {
		return nil, err
	}

	// Skip repetitions, which were published when the delivery first arrived.
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Run != nil && rows[i].Collect == nil {
			// The run waits for a slot. The run of a coalesced delivery (Collect is set) waits for
			// its time instead; the sweeper dispatches it.
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Run.Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.PublishJobs(next...)
	return accepted, nil
}
