package queuedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
)

// acceptDeliveriesQuery accepts simple deliveries; see NewDelivery.simple. Most deliveries are
// simple. The statement is a whole transaction and takes one round trip.
const acceptDeliveriesQuery = `SELECT place, received_at, created_at, dispatched, version FROM accept_deliveries($1, $2, $3, $4, $5, $6, $7, $8,
	$9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)`

// deliveryConnections is the number of batches of simple deliveries that are executed at a time.
// While PostgreSQL executes one batch, the process handles the requests of another batch.
const deliveryConnections = 2

// createdDelivery is a row of the result of acceptDeliveriesQuery. A delivery that was not written
// has no row.
type createdDelivery struct {
	Place      int64       `db:"place"` // in the arguments, counted from 1
	ReceivedAt domain.Time `db:"received_at"`
	CreatedAt  time.Time   `db:"created_at"`
	Dispatched bool        `db:"dispatched"`
	Version    int         `db:"version"` // of the run's agent
}

// simple reports whether the delivery is independent of other deliveries: it begins no run, or a
// run that is independent of other runs.
func (d *NewDelivery) simple() bool {
	r := d.Run
	return r == nil || d.Collect == nil && r.single() && r.IdempotencyKey == d.ID && r.Fingerprint == nil && r.ReplyTo == ""
}

// acceptSimple accepts the simple deliveries with one statement. acceptDeliveries accepts all other
// deliveries, and the simple deliveries that the statement left out.
func (s *Store) acceptSimple(ctx context.Context, rows []NewDelivery, call deliverCall) ([]AcceptedDelivery, error) {
	// Most batches consist of simple deliveries only, so one statement is enough.
	simple := simpleDeliveries(rows)
	if len(simple) == 0 {
		return s.acceptDeliveries(ctx, rows, call)
	}

	out, written, err := s.deliverSimple(ctx, rows, simple, call)
	if _, rejected := errors.AsType[*pq.Error](err); rejected && !pg.IsDisconnect(err) {
		return s.acceptDeliveries(ctx, rows, call) // acceptDeliveries finds the row that PostgreSQL rejects or that is locked
	}
	if err != nil {
		return nil, err
	}

	// The statement skips, for example, repetitions of older deliveries and runs that an agent
	// refuses.
	var rest []int
	for i := range rows {
		if !written[i] {
			rest = append(rest, i)
		}
	}
	if len(rest) == 0 {
		return out, nil
	}

	others, err := s.acceptDeliveries(ctx, pick(rows, rest), call)
	for j, i := range rest {
		if err != nil { // the simple deliveries are accepted
			out[i] = AcceptedDelivery{Err: err}
			continue
		}
		out[i] = others[j]
	}
	return out, nil
}

// simpleDeliveries returns the indexes of the simple deliveries. If a delivery occurs several
// times, only its first index is returned.
func simpleDeliveries(rows []NewDelivery) []int {
	simple, seen := make([]int, 0, len(rows)), make(map[deliveryKey]struct{}, len(rows))
	for i := range rows {
		if _, again := seen[rows[i].key()]; again {
			continue
		}
		seen[rows[i].key()] = struct{}{}
		if rows[i].simple() {
			simple = append(simple, i)
		}
	}
	return simple
}

// pick returns the rows with the given indexes.
func pick(rows []NewDelivery, indexes []int) []NewDelivery {
	if len(indexes) == len(rows) {
		return rows
	}
	out := make([]NewDelivery, len(indexes))
	for j, i := range indexes {
		out[j] = rows[i]
	}
	return out
}

// deliverSimple accepts the deliveries with the given indexes. written reports, for each row,
// whether it has a result.
func (s *Store) deliverSimple(
	ctx context.Context, rows []NewDelivery, indexes []int, call deliverCall,
) (out []AcceptedDelivery, written []bool, err error) {
	out, written = make([]AcceptedDelivery, len(rows)), make([]bool, len(rows))
	simple := pick(rows, indexes)
	runs := runsOfDeliveries(simple)
	taken := s.slots.takeFor(ctx, runs)
	created, err := s.insertDeliveries(ctx, simple, taken)

	// The slots that were taken for deliveries without a row, and for runs that were not
	// dispatched, are returned below.
	made := make(map[string]createdRow, len(created))
	for _, c := range created {
		i := indexes[c.Place-1]
		d := &rows[i]
		out[i], written[i] = AcceptedDelivery{Delivery: d.logged(c.ReceivedAt)}, true
		if d.Run == nil {
			continue
		}
		made[d.Run.ID] = createdRow{ID: d.Run.ID, Dispatched: c.Dispatched}
		out[i].Run = d.Run.asStored(c.CreatedAt, c.Version)
		if c.Dispatched {
			out[i].Job = d.Run.job()
		}
	}
	s.slots.returnUnused(runs, taken, made)

	// If the reply was lost, the delivery log shows which of the deliveries were written.
	if !pg.IsDisconnect(err) {
		return out, written, err
	}
	recovered, err := s.recoverDelivered(ctx, simple, call, err)
	if err != nil {
		return nil, nil, err
	}
	for j, i := range indexes {
		out[i], written[i] = recovered[j], true
	}
	return out, written, nil
}

// logged returns a new delivery in the form of its entry in the delivery log.
func (d *NewDelivery) logged(received domain.Time) domain.Delivery {
	return domain.Delivery{
		ID: d.ID, HookID: d.HookID, Status: d.Status, Event: d.Event, RunID: pg.Optional(d.candidate()), Bytes: d.Bytes,
		Kept: len(d.Body) > 0 && len(d.Body) <= hookdb.DeliveryBodyMax, Error: d.Error, ReceivedAt: received,
	}
}

// deliveryOrigin contains the values that all deliveries to a hook share.
type deliveryOrigin struct {
	hook, organization, agent, callerKind, principal, trigger, automation, key, lane string

	retention, deadline time.Duration
}

// origin returns the values that are the same for all deliveries to the delivery's hook.
func (d *NewDelivery) origin() deliveryOrigin {
	r := d.Run
	if r == nil {
		return deliveryOrigin{hook: d.HookID, organization: d.OrganizationID}
	}
	return deliveryOrigin{
		hook: d.HookID, organization: d.OrganizationID, agent: r.AgentID, callerKind: string(r.CallerKind), principal: r.Principal,
		trigger: r.TriggerType, automation: r.AutomationID, key: r.KeyID, lane: string(r.Lane), retention: r.Retention, deadline: r.Deadline,
	}
}

// distinctOrigins returns the different origins of deliveries, and for each delivery the position
// of its origin, counted from 1. Most deliveries of a batch are to a few hooks, so each origin is
// sent to the database only once.
func distinctOrigins(rows []NewDelivery) (origins []deliveryOrigin, places []int64) {
	known := map[deliveryOrigin]int64{}
	places = make([]int64, len(rows))
	for i := range rows {
		origin := rows[i].origin()
		if known[origin] == 0 {
			origins = append(origins, origin)
			known[origin] = int64(len(origins))
		}
		places[i] = known[origin]
	}
	return origins, places
}

// insertDeliveries executes acceptDeliveriesQuery.
func (s *Store) insertDeliveries(ctx context.Context, rows []NewDelivery, taken map[Lane]int) (created []createdDelivery, err error) {
	// The first arguments are arrays with one element for each origin. The remaining arguments have
	// one element for each delivery.
	origins, ofOrigins := distinctOrigins(rows)
	origin := func(f func(*deliveryOrigin) string) any { return pq.Array(pg.Column(origins, f)) }
	optional := func(f func(*deliveryOrigin) string) any {
		return pq.Array(pg.Column(origins, func(o *deliveryOrigin) *string { return pg.Optional(f(o)) }))
	}
	seconds := func(f func(*deliveryOrigin) time.Duration) any {
		return pq.Array(pg.Column(origins, func(o *deliveryOrigin) int64 { return int64(f(o) / time.Second) }))
	}
	text := func(f func(*NewDelivery) string) any { return pq.Array(pg.Column(rows, f)) }
	bytes := func(f func(*NewDelivery) []byte) any { return pq.ByteaArray(pg.Column(rows, f)) }
	none := &NewRun{}
	run := func(d *NewDelivery) *NewRun {
		if d.Run == nil {
			return none
		}
		return d.Run
	}

	// Each batch gets its own connection, so that two batches are executed in parallel. A third
	// batch waits until a connection is free.
	p := <-s.idleDeliveries
	defer func() { s.idleDeliveries <- p }()
	err = p.SelectInto(ctx, &created, acceptDeliveriesQuery,
		origin(func(o *deliveryOrigin) string { return o.hook }),
		origin(func(o *deliveryOrigin) string { return o.organization }),
		origin(func(o *deliveryOrigin) string { return o.agent }),
		origin(func(o *deliveryOrigin) string { return o.callerKind }),
		origin(func(o *deliveryOrigin) string { return o.principal }),
		origin(func(o *deliveryOrigin) string { return o.trigger }),
		optional(func(o *deliveryOrigin) string { return o.automation }),
		optional(func(o *deliveryOrigin) string { return o.key }),
		origin(func(o *deliveryOrigin) string { return o.lane }),
		seconds(func(o *deliveryOrigin) time.Duration { return o.retention }),
		seconds(func(o *deliveryOrigin) time.Duration { return o.deadline }),
		pq.Array(ofOrigins),
		text(func(d *NewDelivery) string { return d.ID }),
		text(func(d *NewDelivery) string { return string(d.Status) }),
		text(func(d *NewDelivery) string { return d.Event }),
		text(func(d *NewDelivery) string { return d.ContentType }),
		pq.Array(pg.Column(rows, func(d *NewDelivery) int64 { return d.Bytes })),
		bytes(s.sealDelivery),
		text(func(d *NewDelivery) string { return derefError(d.Error).Code }),
		text(func(d *NewDelivery) string { return derefError(d.Error).Message }),
		text((*NewDelivery).candidate),
		text(func(d *NewDelivery) string { return string(run(d).Input) }),
		text(func(d *NewDelivery) string { return run(d).SessionID }),
		bytes(func(d *NewDelivery) []byte { return run(d).SessionKey }),
		bytes(func(d *NewDelivery) []byte { return run(d).KeyHash }),
		text(func(d *NewDelivery) string { return run(d).Dedupe }),
		text(func(d *NewDelivery) string { return run(d).Traceparent }),
		pq.Array(pg.Column(rows, func(d *NewDelivery) int64 { return int64(taken[run(d).lane()]) })),
		s.seals.Overhead() > 0, FirstRepublish)
	if err != nil {
		return nil, fmt.Errorf("accepting deliveries: %w", err)
	}
	return created, nil
}
