package dispatch

import (
	"context"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/telemetry/tracing"
)

// deliverWaiting is how many deliveries may wait to be accepted before new ones are refused. Each has its body in memory.
const deliverWaiting = 1024

// Deliver logs a delivery to a hook, accepts the run that it brings and rings for it, or gives the run that the delivery has already: once
// it returns without an error both are on disk. While too many runs wait, one that was not seen before and brings a run is refused.
// Nobody waits here for the run's end.
func (d *Dispatcher) Deliver(ctx context.Context, delivery store.NewDelivery) (store.AcceptedDelivery, error) {
	if d.full.Load() && delivery.Run != nil {
		return d.delivered(ctx, &delivery)
	}
	ctx, span := tracing.Child(ctx, tracing.Producer, "hook.deliver", "")
	defer span.End()
	if span.On() && delivery.Run != nil {
		run := *delivery.Run
		run.Traceparent = tracing.Traceparent(ctx)
		delivery.Run = &run
	}
	accepted, err := d.arrived.Do(ctx, tracing.For(ctx, delivery))
	if err == nil {
		err = accepted.Err
	}
	if err != nil {
		span.Fail("refused")
		return store.AcceptedDelivery{}, refusal(err)
	}
	return accepted, nil
}

// delivered gives a delivery that was seen before and has a run; any other is refused.
func (d *Dispatcher) delivered(ctx context.Context, delivery *store.NewDelivery) (store.AcceptedDelivery, error) {
	seen, err := d.store.Delivery(ctx, delivery.OrganizationID, delivery.HookID, delivery.ID)
	switch {
	case apierr.CodeOf(err) == apierr.NotFound:
		return store.AcceptedDelivery{}, overloaded(nil)
	case err != nil:
		return store.AcceptedDelivery{}, refusal(err)
	case seen.RunID == nil:
		return store.AcceptedDelivery{}, overloaded(nil)
	}
	return store.AcceptedDelivery{Delivery: seen, Existing: true}, nil
}

// deliver logs a batch and rings for what may start, as accept does. A delivery without a run is a change, too: of its hook's log.
func (d *Dispatcher) deliver(ctx context.Context, rows []store.NewDelivery) ([]store.AcceptedDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	accepted, err := d.store.AcceptDeliveries(ctx, rows, d.cfg.Window)
	if err != nil {
		return nil, err
	}
	for i, a := range accepted {
		if a.Job != nil {
			d.bus.Ring(*a.Job)
		}
		if a.Err == nil && !a.Existing {
			d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
		}
	}
	return accepted, nil
}
