package model

import "fmt"

// group models batch.Group in a worker. While a statement executes, new requests wait for the next
// statement.
type group[Q fmt.Stringer, A any] struct {
	asked *box[*batchRequest[Q, A]]
	ask   func(t *task, batch []Q) ([]A, error) // executes a batch; the results are in the order of the requests
}

// batchRequest is one request in a batch.
type batchRequest[Q, A any] struct {
	of   Q
	done *box[outcome[A]]
}

type outcome[A any] struct {
	answer A
	err    error
}

func newGroup[Q fmt.Stringer, A any](ask func(*task, []Q) ([]A, error)) *group[Q, A] {
	return &group[Q, A]{asked: &box[*batchRequest[Q, A]]{}, ask: ask}
}

// do adds a request to the next batch and waits for its result.
func (g *group[Q, A]) do(t *task, of Q) (A, error) {
	one := &batchRequest[Q, A]{of, &box[outcome[A]]{}}
	g.asked.put(t.sim, one)
	a, _ := one.done.take(t, 0)
	return a.answer, a.err
}

// run models Group.Run: it executes one batch after the other.
func (g *group[Q, A]) run(t *task) {
	for {
		first, _ := g.asked.take(t, 0)
		if maximum := t.sim.faultRates.maxBatchWait; maximum > 0 {
			t.sleep(t.sim.rng.between(0, maximum))
		}
		all := append([]*batchRequest[Q, A]{first}, g.asked.values...)
		g.asked.values = nil
		batch := make([]Q, len(all))
		for n, one := range all {
			batch[n] = one.of
		}
		t.sim.batches[min(len(batch), maxCountedBatch)]++
		out, err := g.ask(t, batch)
		for n, one := range all {
			a := outcome[A]{err: err}
			if err == nil {
				a.answer = out[n]
			}
			one.done.put(t.sim, a)
		}
	}
}

// maxCountedBatch is the largest batch size with its own counter. Larger batches count as batches
// of this size.
const maxCountedBatch = 8

// claimAnswer is the result of Claim for one run.
type claimAnswer struct {
	claim
	voided
}

// runID is the ID of a run to claim.
type runID int

func (r runID) String() string { return fmt.Sprint(int(r)) }

// claims models Store.Claim. It calls claim_runs, and void_claims for the runs that cannot be
// claimed. If the second statement fails, no run gets a result, although the first statement has
// claimed some of the runs.
func (w *worker) claims(t *task, ids []runID) ([]claimAnswer, error) {
	s := w.sim
	claims, err := ask(t, fmt.Sprintf("Claim runs %v", ids), func() []claim { return s.db.claimAll(ids) })
	if err != nil {
		return nil, err
	}

	out, void := make([]claimAnswer, len(ids)), []int{}
	for n, c := range claims {
		out[n].claim = c
		if c.fence == 0 && !c.locked {
			void = append(void, n)
		}
	}

	if len(void) == 0 {
		return out, nil
	}

	explained, err := ask(t, fmt.Sprintf("void %d claims of %v", len(void), ids), func() []voided {
		all := make([]voided, len(void))
		for n, of := range void {
			all[n] = s.db.voidClaim(int(ids[of]))
		}
		return all
	})

	for n, of := range void {
		if err == nil {
			out[of].voided = explained[n]
		}
	}
	return out, err
}

// claimAll models claim_runs. It skips locked runs and claims a run once if the batch contains it
// several times. A conflict rolls back the whole statement.
func (db *database) claimAll(ids []runID) []claim {
	s := db.sim
	out, first, anyLocked := make([]claim, len(ids)), map[runID]int{}, false
	for _, id := range ids {
		if r := db.byID(int(id)); r != nil && r.isLocked(s) {
			anyLocked = true
		}
	}

	for n, id := range ids {
		r := db.byID(int(id))
		m, twice := first[id]
		switch {
		case anyLocked && s.mutant.claimLockFailsBatch:
			out[n] = claim{run: r, locked: true}
		case twice && s.mutant.batchClaimsTwice:
			out[n] = out[m]
			s.fenced(r, out[m].fence)
		default:
			first[id] = n
			out[n] = db.claim(int(id))
		}
	}

	for n, c := range out {
		if c.locked {
			s.lockedOut(int(ids[n]), c.run)
		}
	}

	if s.mutant.claimsMixedUp && len(out) > 1 {
		out = append(out[1:], out[0])
	}
	return out
}

// runResult is the result of a run that a worker wants to save.
type runResult struct {
	run            *run
	fence          int
	status, result string
}

func (e runResult) String() string { return fmt.Sprintf("run %d %s", e.run.id, e.status) }

// finishAll models end_lane_runs. It saves the results of the runs that their worker still holds,
// and skips runs that another transaction locks.
func (db *database) finishAll(outcomes []runResult) []finished {
	s := db.sim
	out, anyLocked, anyLost := make([]finished, len(outcomes)), false, false
	for _, e := range outcomes {
		anyLocked = anyLocked || e.run.isLocked(s)
		anyLost = anyLost || e.run.open == nil || e.run.open.fence != e.fence
	}

	for n, e := range outcomes {
		switch {
		case anyLocked && s.mutant.finishLockFailsBatch:
			out[n] = finished{locked: true}
		case anyLost && s.mutant.lossFailsBatch:
			out[n] = finished{}
		default:
			out[n] = db.finish(e.run, e.fence, e.status, e.result)
		}
		if out[n].locked {
			s.lockedOut(e.run.id, e.run)
		}
	}
	return out
}
