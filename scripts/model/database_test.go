package model

import (
	"errors"
	"fmt"
	"time"

	"parley/shared/store/queuedb"
)

// These durations are the same as in shared/store. The only exception is the time that a person has
// for a decision: 90 s instead of a day.
const (
	lease         = 30 * time.Second
	firstRing     = 5 * time.Second
	maxDeaths     = 5
	actionTimeout = 90 * time.Second
)

var (
	errDown = errors.New("the database is down")
	errLost = errors.New("the reply was lost")
)

// The states of a run. While a run is not finished, its row in open_runs contains its state.
const (
	queued    = "queued"
	running   = "running"
	parked    = "requires_action"
	completed = "completed"
	failed    = "failed"
	timedOut  = "timed_out"
	cancelled = "cancelled"
)

// run is a row of the table runs, with the steps and effects that reference it.
type run struct {
	id, org, session, seq int
	branch                bool   // whether the run waits only for the run with the sequence number waitsFor
	waitsFor              int    // if branch is set, the sequence number of the run that the run continues; 0: none
	key                   string // idempotency key; empty: none
	retention             time.Duration
	expires               time.Duration // after the run has finished: the time at which its key becomes free
	lockedUntil           time.Duration // time until which another transaction locks the run's open row
	work                  work          // the model requests that the run will make
	accepted              time.Duration
	deadline              time.Duration // deadline at the run's creation
	status                string        // final status; empty: the run is open
	result                string
	ended                 time.Duration
	open                  *openRow
	steps                 []step
	effects               map[int]*effect // effects of the run, by call
}

// openRow is a row of the table open_runs.
type openRow struct {
	status       string
	dispatched   bool
	dispatchNo   int
	dispatchedAt time.Duration
	nextDispatch time.Duration
	notBefore    time.Duration
	leaseUntil   time.Duration
	fence        int
	attempts     int
	deaths       int
	retryCause   bool // whether last_error is set
	deadline     time.Duration
	replyTo      *ingress
	action       int // ID of the call that the run waits for
	unknown      bool
	actionUntil  time.Duration
	parkedAt     time.Duration
	waitsSince   time.Duration // model time at which the run began to wait only for a slot; used by the invariants
}

// step is a row of the table steps: a model turn that requested a call, or the result of a call.
type step struct {
	turn, call int
	tool       bool
}

// job models domain.Job.
type job struct {
	id, org    int
	key        string // the run's key or ID, from which its message ID Dedupe is derived
	dispatchNo int
	replyTo    *ingress
}

// database models PostgreSQL with the statements of shared/store. Each statement is one event.
type database struct {
	sim       *sim
	downUntil time.Duration
	startedAt time.Duration // time that pg_postmaster_start_time returns
	stoppedAt time.Duration // time of the latest shutdown
	epoch     int           // number of starts of the server; a statement fails if a restart happens during the statement
	runs      []*run
	byKey     map[string]*run       // runs by key hash: the index runs_idempotency
	lastSeq   map[int]int           // the latest sequence number, by session
	locked    map[int]time.Duration // time until which another transaction locks the session, by session
	lost      int                   // number of lost replies

	lastAccepted time.Duration
}

// ask executes a statement of the database. A fault may strike before the statement is executed,
// and again before its reply arrives. An error does not show whether the statement was executed.
func ask[T any](t *task, what string, statement func() T) (answer T, err error) {
	s := t.sim
	t.step()
	db := s.db
	if s.now < db.downUntil {
		t.sleep(s.rng.between(5*time.Millisecond, time.Second))
		return answer, errDown
	}
	if s.faulty() && s.rng.in1000(s.faultRates.lost) {
		db.lost++
		switch s.rng.n(4) {
		case 0: // the statement does not arrive
			t.sleep(s.rng.between(0, 2*time.Second))
			return answer, errLost
		case 1: // the statement arrives after its caller has given up
			epoch := db.epoch
			s.after(s.rng.between(0, 20*time.Second), func() {
				if db.epoch == epoch {
					s.tracef("(late) %s", what)
					statement()
				}
			})
			t.sleep(s.upTo(15 * time.Second))
			return answer, errLost
		default:
			statement()
			s.tracef("%s: %s; the reply is lost", t.proc.name, what)
			t.sleep(s.rng.between(0, 2*time.Second))
			return answer, errLost
		}
	}

	answer = statement()
	if s.trace != nil {
		s.tracef("%s: %s: %v", t.proc.name, what, answer)
	}

	t.step()
	return answer, nil
}

// order is a run that a client asks an ingress to accept.
type order struct {
	id, org, session int
	key              string
	work             work
	retention        time.Duration
	allowed          time.Duration // time between acceptance and deadline
	branch           bool          // whether the run continues the run with the ID previous; 0 means no run
	previous         int
	replyTo          *ingress
}

// stored contains the columns of a run that a statement has read.
type stored struct {
	id             int
	status, result string
	ended          bool
	action         int
}

func (db *database) stored(r *run) stored {
	switch {
	case r == nil:
		return stored{}
	case r.status != "":
		return stored{id: r.id, status: r.status, result: r.result, ended: true}
	}
	return stored{id: r.id, status: r.open.status, action: r.open.action}
}

// hash models KeyHash: it combines organization, endpoint and key.
func (o *order) hash() string { return fmt.Sprintf("%d/%s", o.org, o.key) }

// view is the snapshot of the session and the lane that acceptance reads. It corresponds to the
// subquery named headed of the SQL function accept_runs, and to the number of used slots in
// slots.go. The model has only one lane.
type view struct {
	head bool
	used [orgs]int // number of dispatched runs, by organization
}

// mayDispatch reports whether an organization may dispatch one more run. It models slots.fill and
// mayUseReserve.
func (db *database) mayDispatch(used [orgs]int, org int) bool {
	total, competitors := 0, 0
	for o, n := range used {
		total += n
		if n > 0 || o == org {
			competitors++
		}
	}
	slots := db.sim.slots
	return total < slots || total < slots+queuedb.Reserve(slots) && used[org] < slots/competitors
}

func (db *database) look(o *order) view {
	v := view{head: true}
	for _, r := range db.runs {
		if r.open == nil {
			continue
		}
		if r.open.dispatched {
			v.used[r.org]++
		}
		if r.session == o.session && (!o.branch || r.id == o.previous) {
			v.head = false
		}
	}
	return v
}

// accepted is the result of Store.Accept in the package queuedb.
type accepted struct {
	run      *run
	existing bool
	holder   stored // the run that holds the key
	job      *job
	conflict bool // whether the primary key runs_pkey already exists
	lost     bool // whether another run holds or held the key
	locked   bool // whether another transaction locks the session or the key
	missing  bool // whether the response is 404
}

func (a accepted) String() string {
	if a.run == nil {
		return fmt.Sprintf("not accepted: lost=%v locked=%v", a.lost, a.locked)
	}
	return fmt.Sprintf("run %d existing=%v dispatched=%v", a.run.id, a.existing, a.job != nil)
}

// holder returns the run that holds a key, or nil. A run holds its key until its retention period
// ends.
func (db *database) holder(hash string) *run {
	if r := db.byKey[hash]; r != nil && (r.status == "" || r.expires > db.sim.now || db.sim.mutant.expiredRunAnswers) {
		return r
	}
	return nil
}

// freeExpired takes a key from its run if the run's retention period has ended.
func (db *database) freeExpired(hash string) bool {
	held := db.byKey[hash] != nil
	if held && (db.holder(hash) == nil || db.sim.mutant.freesLivingKeys) {
		delete(db.byKey, hash)
		return true
	}
	return false
}

// deleteExpired models DeleteExpired: it takes the keys from expired runs.
func (db *database) deleteExpired(found []*run) {
	for _, r := range found {
		if hash := r.hash(); db.byKey[hash] == r {
			db.freeExpired(hash)
		}
	}
}

func (r *run) hash() string { return fmt.Sprintf("%d/%s", r.org, r.key) }

// accept models accept_runs for one row. It does not accept the row if another run has the key,
// even if that run's retention period has ended.
func (db *database) accept(o *order, seen view) accepted {
	if o.key != "" && db.byKey[o.hash()] != nil && !db.sim.mutant.acceptWithoutIndex {
		return accepted{lost: true}
	}
	if db.byID(o.id) != nil {
		return accepted{conflict: true}
	}

	db.lastSeq[o.session]++
	r := &run{
		id: o.id, org: o.org, session: o.session, seq: db.lastSeq[o.session], key: o.key, work: o.work, retention: o.retention, accepted: db.sim.now,
		deadline: db.sim.now + o.allowed, effects: map[int]*effect{}, branch: o.branch,
	}
	if p := db.byID(o.previous); p != nil && p.session == o.session {
		r.waitsFor = p.seq
	}

	r.open = &openRow{status: queued, replyTo: o.replyTo, deadline: r.deadline, waitsSince: db.sim.now}
	out := accepted{run: r}
	if seen.head && db.mayDispatch(seen.used, o.org) {
		db.dispatch(r)
		out.job = r.job()
	}

	db.runs = append(db.runs, r)
	db.lastAccepted = db.sim.now
	if other := db.oneOf(o); other != nil {
		db.sim.brokenf("one run per key", "runs %d and %d have the key %s", other.id, r.id, o.key)
	}
	if o.key != "" {
		db.byKey[o.hash()] = r
	}
	return out
}

// oneOf returns an earlier run with the same organization and key that is open, or whose retention
// period has not ended. It searches all runs instead of the map byKey, so it also finds a run whose
// key was taken too early.
func (db *database) oneOf(o *order) *run {
	for _, r := range db.runs[:len(db.runs)-1] {
		if o.key != "" && r.key == o.key && r.org == o.org && (r.status == "" || r.expires > db.sim.now) {
			return r
		}
	}
	return nil
}

func (db *database) byID(id int) *run {
	for _, r := range db.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (j *job) String() string { return fmt.Sprintf("run %d, dispatch %d", j.id, j.dispatchNo) }

func (r *run) job() *job {
	return &job{id: r.id, org: r.org, key: r.key, dispatchNo: r.open.dispatchNo, replyTo: r.open.replyTo}
}

func (db *database) dispatch(r *run) {
	o := r.open
	o.dispatched, o.dispatchedAt = true, db.sim.now
	o.dispatchNo++
	o.nextDispatch = db.sim.now + firstRing
}

// isHead reports whether no open run precedes r in its session, so that r need not wait. It models
// the condition NOT EXISTS (… p.session_ref = o.session_ref AND p.seq BETWEEN …). An older snapshot
// gives the same result: acceptance numbers runs in commit order, so a snapshot that contains a run
// contains all earlier runs, and finished runs are never reopened.
func (db *database) isHead(r *run) bool {
	first, last := 0, r.seq-1
	switch {
	case r.branch && db.sim.mutant.branchWaitsForNone:
		return true
	case r.branch && !db.sim.mutant.branchWaitsForAll:
		first, last = r.waitsFor, r.waitsFor
	}
	for _, p := range db.runs {
		if p.session == r.session && p.open != nil && first <= p.seq && p.seq <= last {
			return false
		}
	}
	return true
}

// claim is the result of claim_runs for one run. If fence is above zero, the worker holds the run.
type claim struct {
	run      *run
	fence    int
	attempts int
	deaths   int
	deadline time.Duration
	locked   bool
}

func (c claim) String() string {
	return fmt.Sprintf("run %d fence=%d attempt=%d", c.run.id, c.fence, c.attempts)
}

// claim models claim_runs for a single run.
func (db *database) claim(id int) claim {
	s, r := db.sim, db.byID(id)
	switch {
	case r == nil:
		return claim{}
	case r.isLocked(s):
		return claim{run: r, locked: true}
	case !db.claimable(r):
		return claim{run: r}
	}

	o := r.open
	s.claimed(r)
	if o.status == running {
		s.taken(r, "a claim")
		o.deaths++
	}

	o.status, o.dispatched, o.leaseUntil, o.notBefore = running, true, s.now+lease, 0
	o.attempts++
	if !s.mutant.claimKeepsFence || o.fence == 0 {
		o.fence++
	}

	s.fenced(r, o.fence)
	return claim{run: r, fence: o.fence, attempts: o.attempts, deaths: o.deaths, deadline: o.deadline}
}

// claimable is the condition under which claim_runs claims a run.
func (db *database) claimable(r *run) bool {
	s, o := db.sim, r.open
	if o == nil || r.isLocked(s) || s.now >= o.deadline || !db.isHead(r) && !s.mutant.claimOutOfOrder {
		return false
	}
	expired := o.status == running && o.leaseUntil < s.now && db.startedAt < s.now-lease
	if s.mutant.claimLiveLease {
		expired = o.status == running
	}
	return o.status == queued && o.notBefore <= s.now || expired
}

// isLocked reports whether another transaction locks the run's open row.
func (r *run) isLocked(s *sim) bool { return r.open != nil && r.lockedUntil > s.now }

// voided is the result of void_claims, which explains why a run could not be claimed.
type voided struct {
	ended  bool
	result string
}

func (db *database) voidClaim(id int) voided {
	r := db.byID(id)
	if r == nil {
		return voided{ended: true}
	}
	if o := r.open; o != nil && o.status == queued && o.dispatched && !r.isLocked(db.sim) && !db.sim.mutant.voidKeepsPlace {
		o.dispatched, o.nextDispatch, o.waitsSince = false, 0, db.sim.now
	}
	return voided{ended: r.status != "", result: r.result}
}

// holds reports whether the worker with this fence may still write to the run. The argument lax,
// which only mutants set, omits the check.
func (db *database) holds(r *run, fence int, lax bool, what string) bool {
	o := r.open
	switch {
	case o == nil, o.status != running && !lax, o.fence != fence && !lax:
		return false
	case o.fence != fence, o.status != running:
		db.sim.brokenf("every write is fenced", "%s of run %d under fence %d, but the run is %s under fence %d", what, r.id, fence, o.status, o.fence)
	}
	return true
}

// leased is the result of an attempt to extend a run's lease.
type leased int

const (
	leaseLost leased = iota
	leaseExtended
	leaseLocked
)

// extend models extend_leases for one run.
func (db *database) extend(r *run, fence int) leased {
	if r.isLocked(db.sim) && r.open.fence == fence && r.open.status == running {
		if db.sim.mutant.lockedLeaseLost {
			return leaseLost
		}
		return leaseLocked
	}
	if !db.holds(r, fence, db.sim.mutant.heartbeatWithoutFence, "a heartbeat") {
		return leaseLost
	}
	r.open.leaseUntil = db.sim.now + lease
	return leaseExtended
}

// kept is the result of Journal. The field conflict stands for a duplicate primary key.
type kept struct {
	ok       bool
	conflict bool
}

// journal models how write_progress inserts a step. Steps are numbered from 1.
func (db *database) journal(r *run, fence, n int, st step) kept {
	if !db.holds(r, fence, db.sim.mutant.stepWithoutFence, "a step") {
		return kept{}
	}
	if n != len(r.steps)+1 {
		return kept{conflict: true}
	}
	r.steps = append(r.steps, st)
	return kept{ok: true}
}

// finished is the result of Finish. The field slotFreed means that the run held a slot.
type finished struct{ saved, slotFreed, locked bool }

// finish models end_lane_runs for a worker that saves a result with its fence.
func (db *database) finish(r *run, fence int, status, result string) finished {
	o := r.open
	if r.isLocked(db.sim) {
		return finished{locked: true}
	}
	if o == nil || o.fence != fence && !db.sim.mutant.finishWithoutFence {
		return finished{}
	}
	if o.fence != fence {
		db.sim.brokenf("every write is fenced", "the result of run %d was written under fence %d, but the run has fence %d", r.id, fence, o.fence)
	}
	return db.end(r, status, result, "its worker")
}

// end models how end_lane_runs finishes a run whose row it has locked.
func (db *database) end(r *run, status, result, by string) finished {
	if r.status != "" {
		db.sim.brokenf("a terminal run never changes", "run %d was %s and becomes %s", r.id, r.status, status)
		return finished{}
	}
	slotFreed := r.open.dispatched
	db.sim.ends(r, status, by)
	r.status, r.result, r.ended, r.open = status, result, db.sim.now, nil
	r.expires = db.sim.now + r.retention
	return finished{saved: true, slotFreed: slotFreed}
}

// requeueHeld models requeueHeldQuery: it requeues a run that its worker gives up.
func (db *database) requeueHeld(r *run, fence int, backoff time.Duration, cause bool) bool {
	if !db.holds(r, fence, db.sim.mutant.requeueWithoutFence, "requeuing") {
		return false
	}
	db.requeue(r)
	r.open.notBefore = db.sim.now + backoff
	r.open.retryCause = r.open.retryCause || cause
	return true
}

func (db *database) requeue(r *run) {
	o := r.open
	o.status, o.dispatched, o.leaseUntil, o.waitsSince = queued, false, 0, db.sim.now
	o.fence++
}

// dispatchNext models DispatchNext and dispatch_runs. Among the organizations that may dispatch a
// run and have a run that may start, each free slot goes to that with the fewest dispatched runs.
func (db *database) dispatchNext(freeSlots int) (jobs []*job) {
	for len(jobs) < freeSlots {
		var used [orgs]int
		var next [orgs]*run
		for _, r := range db.runs { // sorted by their IDs
			o := r.open
			switch {
			case o == nil:
			case o.dispatched:
				used[r.org]++
			case next[r.org] == nil && !r.isLocked(db.sim) && o.status == queued && o.notBefore <= db.sim.now && db.isHead(r):
				next[r.org] = r
			}
		}

		var chosen *run
		for org, r := range next {
			if r != nil && db.mayDispatch(used, org) && (chosen == nil || used[org] < used[chosen.org]) {
				chosen = r
			}
		}
		if chosen == nil {
			break
		}
		db.dispatch(chosen)
		jobs = append(jobs, chosen.job())
	}
	return jobs
}

// ended models executiondb.Ended: a run that a statement has finished, and the ingress that
// accepted the run.
type ended struct {
	run     *run
	replyTo *ingress
}

func (e ended) String() string { return fmt.Sprintf("run %d", e.run.id) }

// cancel models Store.Cancel. It finishes a run even if a worker holds it.
func (db *database) cancel(r *run) []ended {
	if r.open == nil {
		return nil
	}
	e := ended{r, r.open.replyTo}
	db.end(r, cancelled, fmt.Sprintf("run %d: cancelled", r.id), "its caller")
	return []ended{e}
}

// The following methods model the sweeper's statements. One transaction finds rows. A second
// transaction changes those rows that still match.

func (db *database) find(which func(*run, *openRow) bool) (found []*run) {
	for _, r := range db.runs {
		if r.open != nil && which(r, r.open) {
			found = append(found, r)
		}
	}
	return found
}

// endThose models Store.end: it calls closeRuns for the rows that still match. The mutant
// "unguarded" omits the check that they still match.
func (db *database) endThose(by string, rows []*run, which func(*run, *openRow) bool, status func(*openRow) string, unguarded bool) (out []ended) {
	for _, r := range rows {
		if r.open == nil || r.isLocked(db.sim) || !which(r, r.open) && !unguarded {
			continue
		}
		to := status(r.open)
		out = append(out, ended{r, r.open.replyTo})
		db.end(r, to, fmt.Sprintf("run %d: %s by %s", r.id, to, by), by)
	}
	return out
}

// isOverdue models overdue_runs and the condition of EndOverdue: the run's deadline has passed.
func (db *database) isOverdue(_ *run, o *openRow) bool {
	return o.deadline <= db.sim.now && (o.status != parked || db.sim.mutant.overdueThoughParked)
}

// overdue models the SQL function overdue: it returns the final status of an overdue run.
func overdue(o *openRow) string {
	if o.status == queued && o.retryCause {
		return failed
	}
	return timedOut
}

// isUnanswered models unanswered_runs: the run has waited too long for a person.
func (db *database) isUnanswered(_ *run, o *openRow) bool {
	return o.status == parked && o.actionUntil <= db.sim.now
}

// isPoison models poison_runs: too many workers have died while they executed the run.
func (db *database) isPoison(_ *run, o *openRow) bool {
	return o.status == queued && o.deaths >= maxDeaths
}

func fails(*openRow) string { return failed }

// isLost models lost_runs: the lease of the run's worker has expired.
func (db *database) isLost(_ *run, o *openRow) bool {
	return o.dispatched && o.status == running && o.leaseUntil < db.sim.now && db.startedAt < db.sim.now-lease
}

// requeueLost models requeueQuery: it requeues runs whose leases have expired.
func (db *database) requeueLost(found []*run) {
	s := db.sim
	for _, r := range found {
		o := r.open
		if o == nil || r.isLocked(s) || o.status != running || o.leaseUntil >= s.now && !s.mutant.requeueUnchecked {
			continue
		}
		s.taken(r, "the sweeper")
		db.requeue(r)
		if !s.mutant.deathsUncounted {
			o.deaths++
		}
	}
}

// isUnclaimed models unclaimed_runs: no worker has claimed the dispatched run in time.
func (db *database) isUnclaimed(_ *run, o *openRow) bool {
	return o.dispatched && o.status == queued && o.nextDispatch <= db.sim.now
}

// redispatch models Store.Redispatch. It returns the jobs to publish: those of the runs in the
// argument again that are still unclaimed. It postpones the runs in the argument later.
func (db *database) redispatch(again, later []*run) (jobs []*job) {
	s := db.sim
	stillSo := func(r *run) bool {
		return r.open != nil && !r.isLocked(s) && r.open.dispatched && r.open.status == queued
	}

	for _, r := range again {
		if !stillSo(r) {
			continue
		}
		if s.quiet() {
			s.brokenf("job messages are delivered", "the job of run %d is republished although there was no fault", r.id)
		}
		o := r.open
		wait := firstRing << min(o.dispatchNo, 10)
		o.dispatchNo++
		o.dispatchedAt = s.now
		o.nextDispatch = s.now + min(wait, 5*time.Minute)
		jobs = append(jobs, r.job())
	}

	for _, r := range later {
		if stillSo(r) {
			r.open.nextDispatch = s.now + firstRing
		}
	}
	return jobs
}

// republishAll models Store.RepublishAll: after the loss of the stream, it makes the jobs of all
// unclaimed runs due for publication.
func (db *database) republishAll() {
	for _, r := range db.find(func(_ *run, o *openRow) bool { return o.dispatched && o.status == queued }) {
		if r.isLocked(db.sim) {
			continue
		}
		r.open.nextDispatch = db.sim.now
	}
}
