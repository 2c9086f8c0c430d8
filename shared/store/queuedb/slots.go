package queuedb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// Lane is a lane of an organization. Each has its own dispatch limit.
type Lane struct {
	OrganizationID string
	Lane           domain.Lane
}

// Times and numbers of the estimate of free slots.
const (
	slotsCounted = time.Second           // maximum age of a count, unless counting is slow
	slotsFull    = 50 * time.Millisecond // a lane without a free slot is counted again after this
	slotsDuty    = 10                    // the interval between counts is at least ten times the duration of a count
	slotsIdle    = 10 * time.Minute      // a lane is forgotten after this
	slotsFew     = 8                     // other processes may fill so few free slots between two counts
)

// slots estimates how many runs of each lane are dispatched: the result of the last count plus the
// changes that this process has made since. A count is expensive, because it reads the dead index
// entries of all runs that ended since the oldest snapshot. It is therefore made once a second and
// not per run. Between two counts a process fills at most half of the free slots, so that several
// processes together exceed the limit only slightly.
type slots struct {
	// count reads the number of dispatched runs per lane, up to maximum. It is called without mu.
	count func(ctx context.Context, lanes []Lane, maximum int) (map[Lane]int, error)

	mu    sync.Mutex
	lanes map[Lane]*laneSlots // guarded by mu
	swept time.Time           // when idle lanes were last removed; guarded by mu
}

// laneSlots is the estimate for one lane, guarded by the mutex of slots.
type laneSlots struct {
	used    int           // the estimated number of dispatched runs
	full    bool          // the last count found no free slot
	grant   int           // number of free slots that may be filled before the next count
	counted time.Time     // when the last count began
	took    time.Duration // the duration of the last count, which limits the rate of counts
}

// newSlots returns an estimate without lanes. Each lane is counted at its first use.
func newSlots(count func(context.Context, []Lane, int) (map[Lane]int, error)) *slots {
	return &slots{count: count, lanes: map[Lane]*laneSlots{}}
}

// refresh counts the lanes whose estimate is too old. If counting fails, a lane keeps its estimate.
// A lane that was never counted has no free slots, and the sweeper dispatches its runs. filling is
// true if the caller is going to fill free slots.
func (s *slots) refresh(ctx context.Context, lanes []Lane, limit int, filling bool) {
	due := s.due(lanes, limit, filling)
	if len(due) == 0 {
		return
	}

	// A number far above the limit is of no use, so counting stops at twice the limit.
	began := time.Now()
	counted, err := s.count(ctx, due, 2*limit)
	if err != nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, used := range counted {
		// Other processes have counted the same free slots, so each takes only a part of them.
		grant := limit - used
		if grant > slotsFew {
			grant = (grant + 1) / 2
		}
		s.lanes[lane] = &laneSlots{used: used, full: grant <= 0, grant: grant, counted: began, took: time.Since(began)}
	}
}

// due returns the lanes to count. A lane that is being counted is not due again.
func (s *slots) due(lanes []Lane, limit int, filling bool) (due []Lane) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes {
		state := s.lanes[lane]
		if state == nil {
			state = &laneSlots{used: limit, full: true}
			s.lanes[lane] = state
		}

		// A full lane is counted more often, so that a freed slot is used soon.
		interval := slotsCounted
		switch {
		case state.full:
			interval = slotsFull
		case filling && state.grant <= 0:
			interval = 0
		}

		// Setting counted here makes concurrent callers use the old estimate instead of counting as well.
		if now.Sub(state.counted) >= max(interval, slotsDuty*state.took) {
			state.counted = now
			due = append(due, lane)
		}
	}

	// Organizations that have stopped starting runs must not occupy memory.
	if now.Sub(s.swept) > time.Minute {
		s.swept = now
		maps.DeleteFunc(s.lanes, func(_ Lane, state *laneSlots) bool { return now.Sub(state.counted) > slotsIdle })
	}

	return due
}

// returnFilled returns slots of a lane that fill granted but that were not used for a run.
func (s *slots) returnFilled(lane Lane, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.lanes[lane]; state != nil {
		state.used, state.grant = max(0, state.used-n), state.grant+n
	}
}

// forget makes the lanes due for a count at their next use, regardless of their age.
func (s *slots) forget(lanes []Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes {
		delete(s.lanes, lane)
	}
}

// fill takes up to n free slots of a lane for runs without a slot, and returns how many it took.
func (s *slots) fill(lane Lane, n, limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.lanes[lane]
	if state == nil {
		return 0
	}
	n = max(0, min(n, limit-state.used, state.grant))
	state.used += n
	state.grant -= n
	return n
}

// take takes up to n slots of a lane that finished runs have just freed, and returns how many it
// took.
func (s *slots) take(lane Lane, n, limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.lanes[lane]
	if state == nil {
		return 0
	}
	n = max(0, min(n, limit-state.used))
	state.used += n
	return n
}

// recordFreed records that n runs of a lane have freed their slots.
func (s *slots) recordFreed(lane Lane, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.lanes[lane]; state != nil {
		state.used = max(0, state.used-n)
	}
}

// takeFor takes free slots for the runs that may start immediately, and returns the number of taken
// slots per lane.
func (s *slots) takeFor(ctx context.Context, runs []NewRun, limit int) map[Lane]int {
	taken := map[Lane]int{}
	for i := range runs {
		if runs[i].Hold == 0 {
			taken[runs[i].lane()]++
		}
	}

	s.refresh(ctx, slices.Collect(maps.Keys(taken)), limit, true)
	for lane, n := range taken {
		taken[lane] = s.fill(lane, n, limit)
	}
	return taken
}

// returnUnused returns the slots that were taken but not used for a run.
func (s *slots) returnUnused(runs []NewRun, taken map[Lane]int, created map[string]createdRow) {
	for i := range runs {
		if created[runs[i].ID].Dispatched {
			taken[runs[i].lane()]--
		}
	}
	for lane, n := range taken {
		s.returnFilled(lane, n)
	}
}

// lane is the lane whose slot the run needs.
func (r NewRun) lane() Lane { return Lane{r.OrganizationID, r.Lane} }

// countDispatched counts the dispatched runs of each lane, up to the given maximum.
func (s *Store) countDispatched(ctx context.Context, lanes []Lane, maximum int) (map[Lane]int, error) {
	var rows []struct {
		OrganizationID string `db:"org_id"`
		Lane           string `db:"lane"`
		Dispatched     int    `db:"dispatched"`
	}

	const query = `SELECT org_id, lane, dispatched FROM count_dispatched($1, $2, $3)`
	stmt, err := s.db.Prepared(ctx, query)
	if err != nil {
		return nil, err
	}

	orgs, names := laneArrays(lanes)
	if err := stmt.SelectContext(ctx, &rows, orgs, names, maximum); err != nil {
		return nil, fmt.Errorf("counting dispatched runs: %w", err)
	}

	out := make(map[Lane]int, len(rows))
	for _, r := range rows {
		out[Lane{r.OrganizationID, domain.Lane(r.Lane)}] = r.Dispatched
	}

	return out, nil
}

// laneArrays returns the lanes as two parallel SQL arrays.
func laneArrays(lanes []Lane) (orgs, names any) {
	return pq.Array(pg.Column(lanes, func(l *Lane) string { return l.OrganizationID })),
		pq.Array(pg.Column(lanes, func(l *Lane) string { return string(l.Lane) }))
}

// DispatchNext passes freed slots to waiting runs of the same lane, dispatches these runs and
// returns their jobs. If a lane has no waiting run, its slots go to the organization's other lanes,
// within their limits, because a run of another lane may have waited for an earlier run of its
// session. limit is the dispatch limit per lane. If the process dies before this call, the sweeper
// dispatches the runs.
func (s *Store) DispatchNext(ctx context.Context, freed map[Lane]int, limit int) ([]domain.Job, error) {
	if len(freed) == 0 {
		return nil, nil
	}

	for lane, n := range freed {
		s.slots.recordFreed(lane, n)
	}

	s.slots.refresh(ctx, slices.Collect(maps.Keys(freed)), limit, false)

	next, err := s.dispatch(ctx, freed, limit, s.slots.take)
	if err != nil {
		return nil, err
	}

	// Count the freed slots per organization that no run of the same lane took.
	left := map[string]int{}
	for lane, n := range freed {
		left[lane.OrganizationID] += n
	}

	for _, job := range next {
		left[job.OrganizationID]--
	}

	others := map[Lane]int{}
	for org, n := range left {
		for _, name := range domain.Lanes {
			if lane := (Lane{org, name}); n > 0 && freed[lane] == 0 {
				others[lane] = n
			}
		}
	}

	s.slots.refresh(ctx, slices.Collect(maps.Keys(others)), limit, true)
	more, err := s.dispatch(ctx, others, limit, s.slots.fill)
	return append(next, more...), err
}

// TopUp counts lanes and dispatches their waiting runs while they have free slots, up to
// maximum per lane. It may leave free slots to other processes, so a caller that got jobs
// should call it again.
func (s *Store) TopUp(ctx context.Context, lanes []Lane, limit, maximum int) ([]domain.Job, error) {
	wanted := make(map[Lane]int, len(lanes))
	for _, lane := range lanes {
		wanted[lane] = maximum
	}

	s.slots.forget(lanes)
	s.slots.refresh(ctx, lanes, limit, true)
	return s.dispatch(ctx, wanted, limit, s.slots.fill)
}

// dispatchQuery dispatches up to $3 waiting runs of each lane ($1, $2) and returns their jobs.
const dispatchQuery = `SELECT ` + jobColumns + ` FROM dispatch_runs($1, $2, $3, $4) o`

// dispatch dispatches waiting runs of lanes and returns their jobs. The function take grants slots
// of a lane, and the parameter places is the number of slots to request.
func (s *Store) dispatch(
	ctx context.Context, wanted map[Lane]int, limit int, take func(lane Lane, n, limit int) int,
) ([]domain.Job, error) {
	taken := make(map[Lane]int, len(wanted))
	var lanes []Lane
	var counts []int64
	for lane, n := range wanted {
		if n = take(lane, n, limit); n > 0 {
			taken[lane] = n
			lanes, counts = append(lanes, lane), append(counts, int64(n))
		}
	}

	if len(lanes) == 0 {
		return nil, nil
	}

	var rows []jobRow
	orgs, names := laneArrays(lanes)
	err := s.handOvers.SelectInto(ctx, &rows, dispatchQuery, orgs, names, pq.Array(counts), FirstRepublish)

	for _, r := range rows {
		taken[Lane{r.OrganizationID, domain.Lane(r.Lane)}]--
	}

	// Slots for which no run was waiting become free again.
	for lane, n := range taken {
		s.slots.recordFreed(lane, n)
	}

	if err != nil {
		return nil, fmt.Errorf("dispatching waiting runs: %w", err)
	}

	return jobs(rows), nil
}
