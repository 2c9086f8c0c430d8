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

// deliverWaiting is how many deliveries may wait to be accepted before new ones are refused. Each has its body in memory.
const deliverWaiting = 1024

// Runs by the hooks of one organization that may wait for a place are a part of the backlog: however many deliveries one has, the others'
// runs have room.
const (
	hookRunsPart    = 10 // 10,000, where nothing else is set
	hookRunsLeast   = 1000
	hookRunsCounted = time.Second
	hookRunsTime    = 3 * time.Second
	hookRunsWait    = 10 * time.Second // that a source is told to
)

// hookRuns remembers for a moment by which organizations' hooks too many runs wait.
type hookRuns struct {
	count   func(ctx context.Context, org string, maximum int) (int, error)
	maximum int

	mu    sync.Mutex
	known map[string]hookRunsOf
	swept time.Time
}

type hookRunsOf struct {
	full  bool
	until time.Time
}

func newHookRuns(count func(context.Context, string, int) (int, error), backlogMax int) *hookRuns {
	return &hookRuns{count: count, maximum: max(backlogMax/hookRunsPart, hookRunsLeast), known: map[string]hookRunsOf{}}
}

// full reports whether an organization's hooks may begin no more runs. While one request counts, others go by what was known before, as
// all do when it cannot be counted.
func (h *hookRuns) full(ctx context.Context, org string) bool {
	full, fresh := h.recall(org)
	if fresh {
		return full
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookRunsTime) // it counts for all
	defer cancel()
	n, err := h.count(ctx, org, h.maximum)
	if err != nil {
		return full
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[org] = hookRunsOf{n >= h.maximum, time.Now().Add(hookRunsCounted)}
	return n >= h.maximum
}

// recall gives what is known of an organization. When that is not fresh, it is by now for whoever asks next.
func (h *hookRuns) recall(org string) (full, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.swept) > time.Minute {
		h.swept = now
		maps.DeleteFunc(h.known, func(_ string, of hookRunsOf) bool { return now.After(of.until) })
	}
	of := h.known[org]
	if now.Before(of.until) {
		return of.full, true
	}
	h.known[org] = hookRunsOf{of.full, now.Add(hookRunsTime)}
	return of.full, false
}

// Deliver logs a delivery to a hook, accepts the run that it brings and rings for it, or gives the run that the delivery has already: once
// it returns without an error both are on disk. While too many runs wait, one that was not seen before and brings a run is refused.
// Nobody waits here for the run's end.
func (d *Dispatcher) Deliver(ctx context.Context, delivery queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	if delivery.Run != nil {
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
		run := *delivery.Run
		run.Traceparent = tracing.Traceparent(ctx)
		delivery.Run = &run
	}
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

// delivered gives a delivery that was seen before and has a run; any other is refused.
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

func tooManyByHooks() error {
	e := apierr.New(apierr.Overloaded, "too many runs by hooks of this organization are waiting; try again shortly")
	e.RetryAfter = hookRunsWait
	return e
}

// deliver logs a batch and rings for what may start, as accept does. A delivery without a run is a change, too: of its hook's log.
func (d *Dispatcher) deliver(ctx context.Context, rows []queuedb.NewDelivery) ([]queuedb.AcceptedDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	accepted, err := d.store.Queue.AcceptDeliveries(ctx, rows, d.cfg.Window)
	if err != nil {
		return nil, err
	}
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Run != nil && rows[i].Collect == nil {
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Run.Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.Ring(next...)
	return accepted, nil
}
