package queuedb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
)

// deliveryBatch is the state of one transaction that accepts deliveries. The methods log, collect,
// accept and writeResults are called in this order; the method answers reads their results.
type deliveryBatch struct {
	rows   []NewDelivery                                   // as passed by the caller
	unique []NewDelivery                                   // without duplicates
	again  map[deliveryKey]int                             // for each delivery, the number of further rows that repeat it
	taken  map[Lane]int                                    // the slots taken for the batch's runs
	made   map[string]createdRow                           // the accepted runs
	run    func(dest any, query string, args ...any) error // executes a statement of the transaction

	// logged has no entry for a delivery whose hook does not exist.
	logged map[deliveryKey]*loggedRow
	jobs   map[string]*domain.Job // jobs of the created runs, which the caller publishes
}

// loggedRow is the log entry of a delivery during the transaction. The method log creates it, and
// the method writeResults writes its result.
type loggedRow struct {
	hookdb.DeliveryRow

	Inserted bool `db:"inserted"`

	fresh   bool // the delivery is new, or had no run before: it must begin or join a run
	changed bool // the result differs from the logged one, so writeResults must write it
}

// newDeliveryBatch keeps the first of several rows with the same delivery and counts its
// repetitions. Deliveries to be coalesced get the status coalesced.
func newDeliveryBatch(rows []NewDelivery) *deliveryBatch {
	b := &deliveryBatch{
		rows: rows, again: map[deliveryKey]int{}, logged: map[deliveryKey]*loggedRow{}, jobs: map[string]*domain.Job{},
	}
	for _, r := range rows {
		if _, seen := b.again[r.key()]; seen {
			b.again[r.key()]++
			continue
		}
		b.again[r.key()] = 0

		if r.Collect != nil && r.Run != nil && r.Status == domain.DeliveryAccepted {
			r.Status = domain.DeliveryCoalesced
		}
		b.unique = append(b.unique, r)
	}

	return b
}

// log inserts the deliveries into the delivery log. At first, every delivery that should have a run
// counts as the beginning of a new run.
func (b *deliveryBatch) log(s *Store) error {
	text := func(f func(*NewDelivery) string) any { return pq.Array(pg.Column(b.unique, f)) }
	var logged []loggedRow
	err := b.run(&logged, logQuery,
		text(func(d *NewDelivery) string { return d.HookID }),
		text(func(d *NewDelivery) string { return d.ID }),
		text(func(d *NewDelivery) string { return d.OrganizationID }),
		text(func(d *NewDelivery) string { return string(d.Status) }),
		text(func(d *NewDelivery) string { return d.Event }),
		text((*NewDelivery).candidate),
		pq.Array(pg.Column(b.unique, func(d *NewDelivery) int64 { return d.Bytes })),
		pq.ByteaArray(pg.Column(b.unique, s.sealDelivery)), s.seals.Overhead() > 0,
		text(func(d *NewDelivery) string { return d.ContentType }),
		text(func(d *NewDelivery) string { return derefError(d.Error).Code }),
		text(func(d *NewDelivery) string { return derefError(d.Error).Message }),
		pq.Array(pg.Column(b.unique, func(d *NewDelivery) int64 { return int64(b.again[d.key()]) })))

	// If the result has no row for a delivery, its hook does not exist. Later, the method answers
	// returns a not_found error for the delivery.
	for i := range logged {
		l := &logged[i]
		b.logged[deliveryKey{l.HookID, l.ID}] = l
	}

	if err != nil {
		return err
	}

	// A delivery that was logged earlier without a run is now assigned to the run of this try. It
	// is treated as new.
	var again []*loggedRow // deliveries that were logged earlier without a run, and are now assigned to a run of this try
	for i := range b.unique {
		l := b.logged[b.unique[i].key()]
		if l == nil {
			continue
		}
		l.fresh = l.Inserted || l.RunID != nil && *l.RunID == b.unique[i].candidate()
		if l.fresh && !l.Inserted {
			again = append(again, l)
		}
	}

	return b.skipLanded(again)
}

// skipLanded skips deliveries whose runs already exist. An earlier try, whose reply was lost, has
// committed these runs. The statement that logs the deliveries waited for that transaction, but
// does not see its runs. A new statement therefore reads them.
func (b *deliveryBatch) skipLanded(rows []*loggedRow) error {
	if len(rows) == 0 {
		return nil
	}
	var landed []string
	if err := b.run(&landed, landedQuery, pq.Array(pg.Column(rows, func(l **loggedRow) string { return *(*l).RunID }))); err != nil {
		return err
	}
	for _, l := range rows {
		l.fresh = !slices.Contains(landed, *l.RunID)
	}
	return nil
}

// derefError returns the zero RunError for nil.
func derefError(e *domain.RunError) domain.RunError {
	if e == nil {
		return domain.RunError{}
	}
	return *e
}

// newRunDeliveries returns those new deliveries that should have a run, in the order of the rows.
func (b *deliveryBatch) newRunDeliveries() []*NewDelivery {
	var out []*NewDelivery
	for i := range b.unique {
		d := &b.unique[i]
		if l := b.logged[d.key()]; d.Run != nil && l != nil && l.fresh {
			out = append(out, d)
		}
	}
	return out
}

// coalescingKey identifies the deliveries that may become one run: deliveries of one hook with the
// same key.
type coalescingKey struct{ hook, hash string }

// keyGroup contains the deliveries of the batch that have the same coalescing key. n is their
// number.
type keyGroup struct {
	first, last *NewDelivery
	n           int64
}

// collect assigns each delivery that is to be coalesced to the run that is coalescing deliveries
// with its key.
func (b *deliveryBatch) collect() error {
	// The statement needs only one row per key: the deliveries of a group join the same run, which
	// gets the input of the last delivery.
	byKey := map[coalescingKey]*keyGroup{}
	var groups []*keyGroup
	for _, d := range b.newRunDeliveries() {
		if d.Collect == nil {
			continue
		}
		key := coalescingKey{d.HookID, string(d.Collect.KeyHash)}
		if byKey[key] == nil {
			byKey[key] = &keyGroup{first: d}
			groups = append(groups, byKey[key])
		}
		byKey[key].last = d
		byKey[key].n++
	}

	if len(groups) == 0 {
		return nil
	}

	// The statement locks each key and returns the key's run: an older run that is still
	// coalescing, or the run of the group's first delivery.
	runs, err := b.collectors(groups)
	if err != nil {
		return err
	}

	for _, d := range b.newRunDeliveries() {
		if d.Collect == nil {
			continue
		}

		// The delivery joins the run that an earlier delivery has begun.
		if run := runs[coalescingKey{d.HookID, string(d.Collect.KeyHash)}]; run != d.Run.ID {
			b.logged[d.key()].setResult(d.Status, run, nil)
		}
	}

	return nil
}

// collectors returns the runs that are coalescing deliveries, by key. It locks the rows of the keys
// until the end of the transaction.
func (b *deliveryBatch) collectors(groups []*keyGroup) (map[coalescingKey]string, error) {
	text := func(f func(*keyGroup) string) any {
		return pq.Array(pg.Column(groups, func(g **keyGroup) string { return f(*g) }))
	}
	number := func(f func(*keyGroup) int64) any {
		return pq.Array(pg.Column(groups, func(g **keyGroup) int64 { return f(*g) }))
	}
	var found []struct {
		HookID  string `db:"hook_id"`
		KeyHash []byte `db:"key_hash"`
		RunID   string `db:"run_id"`
	}

	err := b.run(&found, collectQuery,
		text(func(g *keyGroup) string { return g.first.HookID }),
		pq.ByteaArray(pg.Column(groups, func(g **keyGroup) []byte { return (*g).first.Collect.KeyHash })),
		text(func(g *keyGroup) string { return g.first.OrganizationID }),
		text(func(g *keyGroup) string { return g.first.Run.ID }),
		number(func(g *keyGroup) int64 { return g.n }),
		text(func(g *keyGroup) string { return string(g.last.Run.Input) }),
		number(func(g *keyGroup) int64 { return g.last.Collect.Window.Milliseconds() }),
		number(func(g *keyGroup) int64 { return g.last.Collect.MaxWait.Milliseconds() }),
		maxCollected)

	out := make(map[coalescingKey]string, len(found))
	for _, f := range found {
		out[coalescingKey{f.HookID, string(f.KeyHash)}] = f.RunID
	}

	return out, err
}

// setResult sets the result of a delivery and marks it as changed, so that writeResults writes it.
func (l *loggedRow) setResult(status domain.DeliveryStatus, runID string, cause *domain.RunError) {
	l.Status, l.RunID, l.changed = string(status), pg.Optional(runID), true
	l.ErrorCode.String, l.ErrorMessage.String = derefError(cause).Code, derefError(cause).Message
	l.ErrorCode.Valid, l.ErrorMessage.Valid = cause != nil, cause != nil
}

// accept creates the runs that deliveries begin. If a run cannot be created, all deliveries
// assigned to it are rejected.
func (b *deliveryBatch) accept(ctx context.Context, tx *sqlx.Tx) error {
	var begun []NewRun
	for _, d := range b.newRunDeliveries() {
		// A delivery that joined an existing run begins no run.
		if *b.logged[d.key()].RunID != d.Run.ID {
			continue
		}
		begun = append(begun, d.begun())
	}

	if len(begun) == 0 {
		return nil
	}

	var rows []createdRow
	query, args := acceptance(begun, b.taken)
	if err := b.run(&rows, query, args...); err != nil {
		return err
	}

	// The statement returns no row for a run whose agent is missing or refuses the caller, or whose
	// idempotency key is taken.
	b.made = createdByID(rows)
	var refused []NewRun
	for _, run := range begun {
		c, made := b.made[run.ID]
		if !made {
			refused = append(refused, run)
			continue
		}
		if c.Dispatched {
			b.jobs[run.ID] = run.job()
		}
	}

	return b.refuse(ctx, tx, refused)
}

// HookWithoutAgent is the reason for rejecting deliveries to a hook whose agent is deleted.
const HookWithoutAgent = "the hook's agent no longer exists"

// CallerNotAllowedMessage is the reason for rejecting a run if its agent does not allow its kind of
// caller. The argument name is empty for callers who may not read the agent.
func CallerNotAllowedMessage(agentID, name string, kind domain.CallerKind) string {
	agent := agentID
	if name != "" {
		agent = fmt.Sprintf("%q (%s)", name, agentID)
	}
	return fmt.Sprintf("the agent %s does not allow callers of the kind %q; add %q to its allowedCallers with PUT /api/agents",
		agent, kind, kind)
}

// refuse records why the runs of deliveries could not be created. A delivery whose idempotency key
// belongs to an existing run is assigned to that run. This happens if an earlier log entry of the
// delivery was removed, or if another client has used the key.
func (b *deliveryBatch) refuse(ctx context.Context, tx *sqlx.Tx, refused []NewRun) error {
	if len(refused) == 0 {
		return nil
	}

	callers, err := allowedCallersIn(ctx, tx, refused)
	if err != nil {
		return err
	}

	holders, err := holdersIn(ctx, tx, refused)
	if err != nil {
		return err
	}

	for _, run := range refused {
		// Unless the checks below find another reason, the agent is missing.
		cause := &domain.RunError{Code: string(apierr.NotFound), Message: HookWithoutAgent}
		agent, exists := callers[agentRef{run.OrganizationID, run.AgentID}]
		if exists && !slices.Contains(agent.allowed, string(run.CallerKind)) {
			cause.Code = string(apierr.CallerNotAllowed)
			cause.Message = CallerNotAllowedMessage(run.AgentID, agent.name, run.CallerKind)
		}

		// Several deliveries may be assigned to one run, because they are coalesced.
		for _, l := range b.logged {
			if l.RunID == nil || *l.RunID != run.ID {
				continue
			}

			if holder := holders[keyName(run.OrganizationID, run.KeyHash)]; holder != "" {
				l.setResult(domain.DeliveryStatus(l.Status), holder, nil)
				l.fresh = false
				continue
			}
			l.setResult(domain.DeliveryRefused, "", cause)
		}
	}

	return nil
}

// keyName returns the text that identifies an idempotency key in a map.
func keyName(org string, hash []byte) string { return org + "," + string(hash) }

// holdersIn returns the ids of the runs that already have the idempotency keys of the given runs.
// It includes expired runs.
func holdersIn(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[string]string, error) {
	var found []struct {
		ID             string `db:"id"`
		OrganizationID string `db:"org_id"`
		Hash           []byte `db:"idempotency_hash"`
	}
	err := tx.SelectContext(ctx, &found, `SELECT id, org_id, idempotency_hash FROM runs WHERE idempotency_hash = ANY ($1)`,
		pq.ByteaArray(pg.Column(rows, func(r *NewRun) []byte { return r.KeyHash })))
	out := make(map[string]string, len(found))
	for _, f := range found {
		out[keyName(f.OrganizationID, f.Hash)] = f.ID
	}
	return out, err
}

// writeResults writes the changed results of deliveries, and removes the coalescing keys of runs
// that could not be created.
func (b *deliveryBatch) writeResults() error {
	var changed []*loggedRow
	var orgs, gone []string
	for i := range b.unique {
		d := &b.unique[i]
		l := b.logged[d.key()]
		if l == nil || !l.changed {
			continue
		}
		changed, orgs = append(changed, l), append(orgs, d.OrganizationID)

		// No coalescing key may stay assigned to a run that could not be created.
		if _, made := b.made[d.Run.ID]; !made {
			gone = append(gone, d.Run.ID)
		}
	}

	if len(changed) == 0 {
		return nil
	}

	text := func(f func(*loggedRow) string) any {
		return pq.Array(pg.Column(changed, func(l **loggedRow) string { return f(*l) }))
	}
	var none []string
	return b.run(&none, resultsQuery,
		text(func(l *loggedRow) string { return l.HookID }), text(func(l *loggedRow) string { return l.ID }), pq.Array(orgs),
		text(func(l *loggedRow) string { return l.Status }), text(func(l *loggedRow) string { return pg.Deref(l.RunID) }),
		text(func(l *loggedRow) string { return l.ErrorCode.String }), text(func(l *loggedRow) string { return l.ErrorMessage.String }),
		pq.Array(gone))
}

// answers returns the results in the order of the rows. If a delivery occurs repeatedly, Existing
// is set in all of its results except the first.
func (b *deliveryBatch) answers() []AcceptedDelivery {
	out := make([]AcceptedDelivery, len(b.rows))
	answered := map[deliveryKey]bool{}
	for i := range b.rows {
		d := &b.rows[i]
		l := b.logged[d.key()]
		if l == nil {
			out[i] = AcceptedDelivery{Err: pg.NotFound()}
			continue
		}

		// Only the first result of a repeated delivery contains the job, so that it is published
		// once.
		again := answered[d.key()]
		answered[d.key()] = true
		out[i] = AcceptedDelivery{Delivery: l.Delivery(), Existing: again || !l.fresh}
		if l.RunID != nil && *l.RunID == d.candidate() && !out[i].Existing {
			out[i].Job = b.jobs[*l.RunID]
		}
	}

	return out
}
