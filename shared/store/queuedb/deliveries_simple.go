package queuedb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
)

// acceptDeliveriesQuery accepts simple deliveries; see NewDelivery.simple. Most deliveries are
// simple. The statement is a whole transaction and takes one round trip.
const acceptDeliveriesQuery = `SELECT accepted_at, written, dispatched FROM accept_deliveries($1, $2, $3, $4, $5, $6, $7, $8,
	$9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)`

// deliveryConnections is the number of batches of simple deliveries that are executed at a time.
// While PostgreSQL executes one batch, the process handles the requests of another batch.
const deliveryConnections = 2

// writtenDeliveries is the row that acceptDeliveriesQuery returns. One row with arrays is read faster
// than a row for each delivery.
type writtenDeliveries struct {
	AcceptedAt time.Time     `db:"accepted_at"`
	Written    pq.Int64Array `db:"written"`    // positions of the written deliveries in the arguments, counted from 1
	Dispatched pq.Int64Array `db:"dispatched"` // positions of the deliveries whose runs were dispatched
}

// simple reports whether the delivery is independent of other deliveries: it begins no run, or a
// run that is independent of other runs. The statement has no arguments for the values that simple
// requires to be empty.
func (d *NewDelivery) simple() bool {
	r := d.Run
	return r == nil || d.Collect == nil && r.single() && r.IdempotencyKey == d.ID && r.Fingerprint == nil && r.ReplyTo == "" &&
		len(r.SessionKey) == sha256.Size && len(r.KeyHash) == sha256.Size
}

// acceptSimple accepts the simple deliveries with one statement. acceptDeliveries accepts all other
// deliveries, and the simple deliveries that the statement left out. The results are in the order
// of rows.
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

	// The statement skips some deliveries, for example repetitions of older deliveries and
	// deliveries whose run the agent does not accept.
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
	for _, position := range created.Written {
		i := indexes[position-1]
		out[i], written[i] = AcceptedDelivery{Delivery: rows[i].logged(domain.At(created.AcceptedAt))}, true
	}

	// returnUnused frees the slots that no dispatched run uses.
	made := make(map[string]createdRow, len(created.Dispatched))
	for _, position := range created.Dispatched {
		i := indexes[position-1]
		made[rows[i].Run.ID] = createdRow{ID: rows[i].Run.ID, Dispatched: true}
		out[i].Job = rows[i].Run.job()
	}
	s.slots.returnUnused(runs, taken, made)

	// If the database's reply was lost, the delivery log shows which of the deliveries were
	// written.
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

// logged returns a new delivery in the form of its entry in the delivery log. The argument received
// is the time at which the database logged the delivery.
func (d *NewDelivery) logged(received domain.Time) domain.Delivery {
	return domain.Delivery{
		ID: d.ID, HookID: d.HookID, Status: d.Status, Event: d.Event, RunID: pg.Optional(d.candidate()), Bytes: d.Bytes,
		Kept: len(d.Body) > 0 && len(d.Body) <= hookdb.MaxDeliveryBody, Error: d.Error, ReceivedAt: received,
	}
}

// deliveryOrigin contains the values that many deliveries to a hook share. It is comparable, so
// that equal origins can be found with a map.
type deliveryOrigin struct {
	hook, organization, agent, callerKind, principal, trigger, automation, key, lane string

	retention, deadline time.Duration

	status, event, contentType, errorCode, errorMessage string
}

// origin returns the values that are the same for most deliveries to the delivery's hook.
func (d *NewDelivery) origin() deliveryOrigin {
	o := deliveryOrigin{
		hook: d.HookID, organization: d.OrganizationID, status: string(d.Status), event: d.Event, contentType: d.ContentType,
		errorCode: derefError(d.Error).Code, errorMessage: derefError(d.Error).Message,
	}
	if r := d.Run; r != nil {
		o.agent, o.callerKind, o.principal, o.trigger, o.automation = r.AgentID, string(r.CallerKind), r.Principal, r.TriggerType, r.AutomationID
		o.key, o.lane, o.retention, o.deadline = r.KeyID, string(r.Lane), r.Retention, r.Deadline
	}
	return o
}

// distinctOrigins returns the different origins of deliveries, and for each delivery the position
// of its origin, counted from 1. Most deliveries of a batch are to a few hooks, so each origin is
// sent to the database only once.
func distinctOrigins(rows []NewDelivery) (origins []deliveryOrigin, positions []int64) {
	known := map[deliveryOrigin]int64{}
	positions = make([]int64, len(rows))
	for i := range rows {
		origin := rows[i].origin()

		// A comparison with the previous delivery's origin is cheaper than a lookup in the map.
		if i > 0 && origin == origins[positions[i-1]-1] {
			positions[i] = positions[i-1]
			continue
		}
		position := known[origin]
		if position == 0 {
			origins = append(origins, origin)
			position = int64(len(origins))
			known[origin] = position
		}
		positions[i] = position
	}
	return origins, positions
}

// hashBytes is the total size of a run's two hashes, SessionKey and KeyHash.
const hashBytes = 2 * sha256.Size

// concatenated contains the long values of deliveries. The database parses the elements of an array
// character by character, so these values are sent as one value with the offsets of its parts.
type concatenated struct {
	bodies []byte
	inputs []byte // of the runs
	hashes []byte // hashBytes for each delivery

	// The offset of each delivery's body and input, in bytes and counted from 1, and as the last
	// element the offset of the end.
	bodyAt, inputAt []int64
}

// concatenate returns the long values of deliveries.
func concatenate(s *Store, rows []NewDelivery) *concatenated {
	// Each buffer is allocated with its final size, because a batch may contain several megabytes.
	bodyBytes, inputBytes := 0, 0
	for i := range rows {
		bodyBytes += len(rows[i].Body) + s.seals.Overhead()
		inputBytes += len(rows[i].run().Input)
	}
	c := &concatenated{
		bodies: make([]byte, 0, bodyBytes), inputs: make([]byte, 0, inputBytes), hashes: make([]byte, len(rows)*hashBytes),
	}
	offsets := make([]int64, 2*(len(rows)+1))
	c.bodyAt, c.inputAt = offsets[:len(rows)+1], offsets[len(rows)+1:]
	c.bodyAt[0], c.inputAt[0] = 1, 1

	for i := range rows {
		body, run := s.sealDelivery(&rows[i]), rows[i].run()
		c.bodies = append(c.bodies, body...)
		c.inputs = append(c.inputs, run.Input...)
		c.bodyAt[i+1], c.inputAt[i+1] = int64(len(c.bodies)+1), int64(len(c.inputs)+1)

		// A delivery without a run has no hashes. Its bytes stay zero.
		hashes := c.hashes[i*hashBytes:]
		copy(hashes[:sha256.Size], run.SessionKey)
		copy(hashes[sha256.Size:hashBytes], run.KeyHash)
	}
	return c
}

// noRun stands for the run of a delivery that starts no run.
var noRun NewRun

// run returns the delivery's run, or noRun. The caller must not change it.
func (d *NewDelivery) run() *NewRun {
	if d.Run == nil {
		return &noRun
	}
	return d.Run
}

// assignSlots assigns the taken slots to the first runs of each lane, and reports for each delivery
// whether its run has a slot. If such a delivery is not written, its slot is returned, and another
// run of the batch may wait although this slot is free. The process then dispatches that run with
// the leftovers.
func assignSlots(rows []NewDelivery, taken map[Lane]int) []bool {
	out := make([]bool, len(rows))
	left := maps.Clone(taken)
	for i := range rows {
		if run := rows[i].Run; run != nil && left[run.lane()] > 0 {
			left[run.lane()]--
			out[i] = true
		}
	}
	return out
}

// insertDeliveries executes acceptDeliveriesQuery. It waits while all reserved connections are in
// use.
func (s *Store) insertDeliveries(ctx context.Context, rows []NewDelivery, taken map[Lane]int) (writtenDeliveries, error) {
	// The first arguments are arrays with one element for each origin. The remaining arguments are
	// arrays with one element for each delivery, or contain the values of all deliveries.
	origins, ofOrigins := distinctOrigins(rows)
	origin := func(f func(*deliveryOrigin) string) any { return pq.Array(pg.Column(origins, f)) }
	optional := func(f func(*deliveryOrigin) string) any {
		return pq.Array(pg.Column(origins, func(o *deliveryOrigin) *string { return pg.Optional(f(o)) }))
	}
	number := func(f func(*deliveryOrigin) int64) any { return pq.Array(pg.Column(origins, f)) }
	text := func(f func(*NewDelivery) string) any { return pq.Array(pg.Column(rows, f)) }
	long := concatenate(s, rows)

	// Each batch gets its own connection, so that two batches are executed in parallel. A third
	// batch waits until a connection is free.
	p := <-s.idleDeliveries
	defer func() { s.idleDeliveries <- p }()
	var result []writtenDeliveries
	err := p.SelectInto(ctx, &result, acceptDeliveriesQuery,
		origin(func(o *deliveryOrigin) string { return o.hook }),
		origin(func(o *deliveryOrigin) string { return o.organization }),
		origin(func(o *deliveryOrigin) string { return o.agent }),
		origin(func(o *deliveryOrigin) string { return o.callerKind }),
		origin(func(o *deliveryOrigin) string { return o.principal }),
		origin(func(o *deliveryOrigin) string { return o.trigger }),
		optional(func(o *deliveryOrigin) string { return o.automation }),
		optional(func(o *deliveryOrigin) string { return o.key }),
		origin(func(o *deliveryOrigin) string { return o.lane }),
		number(func(o *deliveryOrigin) int64 { return int64(o.retention / time.Second) }),
		number(func(o *deliveryOrigin) int64 { return int64(o.deadline / time.Second) }),
		origin(func(o *deliveryOrigin) string { return o.status }),
		origin(func(o *deliveryOrigin) string { return o.event }),
		origin(func(o *deliveryOrigin) string { return o.contentType }),
		origin(func(o *deliveryOrigin) string { return o.errorCode }),
		origin(func(o *deliveryOrigin) string { return o.errorMessage }),
		pq.Array(ofOrigins),
		text(func(d *NewDelivery) string { return d.ID }),
		pq.Array(pg.Column(rows, func(d *NewDelivery) int64 { return d.Bytes })),
		text((*NewDelivery).candidate),
		text(func(d *NewDelivery) string { return d.run().SessionID }),
		text(func(d *NewDelivery) string { return d.run().Dedupe }),
		text(func(d *NewDelivery) string { return d.run().Traceparent }),
		pq.Array(assignSlots(rows, taken)), pq.Array(long.bodyAt), pq.Array(long.inputAt), long.bodies, long.inputs, long.hashes,
		s.seals.Overhead() > 0, FirstRepublish)
	if err != nil {
		return writtenDeliveries{}, fmt.Errorf("accepting deliveries: %w", err)
	}
	return result[0], nil
}
