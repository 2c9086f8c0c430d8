package queuedb

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/domain"
)

// Lane identifies one lane of one organization. Each lane has its own slots, so that runs of one
// kind do not delay those of another kind.
type Lane struct {
	OrganizationID string
	Lane           domain.Lane
}

// Freed describes the slots that finished runs of a lane have freed. Waiting is true if runs of the
// organization may be waiting. Followers is the number of runs, of any lane, that waited only for
// the finished runs. These runs may need more slots than the finished runs had.
type Freed struct {
	Slots     int
	Waiting   bool
	Followers int
}

// FreedSlots maps each lane to the slots that finished runs have freed in it. The zero value is not
// usable; create it with make or a literal.
type FreedSlots map[Lane]Freed

// Add adds freed slots of a lane.
func (f FreedSlots) Add(lane Lane, freed Freed) {
	old := f[lane]
	f[lane] = Freed{
		Slots: old.Slots + freed.Slots, Waiting: old.Waiting || freed.Waiting, Followers: old.Followers + freed.Followers,
	}
}

// Limits of the estimate of free slots.
const (
	slotsCounted = 100 * time.Millisecond // maximum age of a count of the slots; longer if counting is slow
	slotsFull    = 50 * time.Millisecond  // maximum age of a count of the slots that found no free slot in a lane
	slotsDuty    = 20                     // the interval between counts is at least this multiple of the duration of a count
	slotsFew     = 8                      // if this many or fewer slots are free, one process may fill all of them

	// There is one reserve slot for every reservePart slots. It is used only while all other slots
	// are taken, and only for organizations that have less than their share.
	reservePart = 8
)

// Reserve returns the number of reserve slots for n ordinary slots. A worker that announces n slots
// executes up to n + Reserve(n) runs of a lane.
func Reserve(n int) int { return (n + reservePart - 1) / reservePart }

// count contains the number of slots of all workers together, the dispatched runs that occupy
// slots, and the lanes with runs that wait for slots.
type count struct {
	slots      int          // in each lane
	dispatched map[Lane]int // number of dispatched runs
	waiting    []Lane       // lanes with runs that may be waiting
}

// slots decides which runs get the workers' slots. While slots are free, an organization may use
// all of them. When a lane is full, a freed slot goes to the waiting organization with the fewest
// dispatched runs. An organization with less than its share of a full lane need not wait: it gets a
// reserve slot.
//
// The decision uses an estimate: the result of the last count plus the changes that this process
// has made since. A count is expensive, because it reads the dead index entries of all runs that
// ended since the oldest snapshot. It is therefore made ten times a second instead of once for each
// run. Between two counts, a process fills at most half of the free slots, because other processes
// also fill them. Two processes can therefore exceed the number of slots only by the slots that one
// of them fills in that time. If the runs also exceed the reserve, their jobs wait in the stream.
type slots struct {
	// count counts slots and runs in the database. It is called without holding mu.
	count func(ctx context.Context) (count, error)

	mu sync.Mutex
	// The following fields are the estimate. The next count replaces all of them.
	total   int                        // slots of each lane; guarded by mu
	lanes   map[domain.Lane]*laneSlots // guarded by mu
	counted time.Time                  // time at which the last count began; guarded by mu
	took    time.Duration              // duration of the last count, which determines the time until the next one; guarded by mu
}

// laneSlots is the estimate for one lane of all organizations, guarded by the mutex of slots.
type laneSlots struct {
	used     int             // dispatched runs of all organizations
	runs     map[string]int  // dispatched runs of each organization, without zeros
	waiting  map[string]bool // organizations that may have waiting runs
	full     bool            // no slot was free at the last count or after a later fill
	grant    int             // free slots that this process may fill before the next count
	kept     int             // number of slots in grant that are reserved for new runs of organizations below their share
	reserved int             // reserve slots that this process may fill before the next count
}

// newSlots returns an estimate without slots. Its first refresh makes a count.
func newSlots(count func(context.Context) (count, error)) *slots {
	return &slots{count: count, lanes: map[domain.Lane]*laneSlots{}}
}

// lane returns the estimate for a lane. If the last count found no dispatched or waiting run in the
// lane, all of its slots are free. The caller holds mu.
func (s *slots) lane(name domain.Lane) *laneSlots {
	l := s.lanes[name]
	if l == nil {
		l = &laneSlots{
			runs: map[string]int{}, waiting: map[string]bool{},
			full: s.total == 0, grant: half(s.total), reserved: half(Reserve(s.total)),
		}
		s.lanes[name] = l
	}
	return l
}

// refresh makes a count if the estimate is too old. If counting fails, the estimate stays
// unchanged. lanes are the lanes whose slots the caller is going to fill.
func (s *slots) refresh(ctx context.Context, lanes ...domain.Lane) {
	if !s.due(lanes) {
		return
	}

	// The count runs without the lock. Changes that this process makes in the meantime are lost
	// with the old estimate, or are counted twice; the next count corrects both.
	began := time.Now()
	counted, err := s.count(ctx)
	if err != nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.took = counted.slots, time.Since(began)
	clear(s.lanes)
	for lane, n := range counted.dispatched {
		s.lane(lane.Lane).add(lane.OrganizationID, n)
	}
	for _, lane := range counted.waiting {
		s.lane(lane.Lane).waiting[lane.OrganizationID] = true
	}

	// The count contains no entry for a lane without dispatched or waiting runs. The method lane
	// creates that entry on demand.
	for _, l := range s.lanes {
		l.full = l.used >= s.total
		l.grant = half(s.total - l.used)
		l.kept = l.grant / reservePart
		l.reserved = half(s.total + Reserve(s.total) - max(s.total, l.used))
	}
}

// half returns how many of n free slots one process may fill between two counts. Other processes
// may have counted the same free slots, and fill the rest.
func half(n int) int {
	if n > slotsFew {
		return (n + 1) / 2
	}
	return max(0, n)
}

// due reports whether the caller must count. While one caller counts, due returns false for all
// other callers.
func (s *slots) due(lanes []domain.Lane) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()

	// A full lane is counted more often, so that a freed slot is used soon.
	interval := slotsCounted
	for _, lane := range lanes {
		switch l := s.lane(lane); {
		case l.full || l.used >= s.total:
			interval = min(interval, slotsFull)
		case l.grant <= l.kept:
			interval = 0
		}
	}

	// Setting counted here makes concurrent callers use the old estimate instead of counting as
	// well.
	due := now.Sub(s.counted) >= max(interval, slotsDuty*s.took)
	if due {
		s.counted = now
	}
	return due
}

// forget makes the next refresh count again, even if the estimate is recent.
func (s *slots) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted, s.took = time.Time{}, 0
}

// fill takes up to n free slots of a lane for new runs, and returns how many it took. In a full or
// nearly full lane with waiting runs, an organization that has its share takes no freed slots,
// because they are for the waiting runs. A part of the free slots is kept for organizations below
// their share. The runs of these organizations need not wait for the next count, even if another
// organization fills the other slots quickly. If all ordinary slots are taken, fill takes reserve
// slots for an organization below its share.
func (s *slots) fill(lane Lane, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	// The kept slots are for organizations below their share. The share is computed as if one more
	// organization had runs, because a further organization may need slots before the next count.
	l := s.lane(lane.Lane)
	room := l.grant
	if l.runs[lane.OrganizationID] >= s.total/(len(l.runs)+1) {
		room -= l.kept
	}
	taken := max(0, min(n, s.total-l.used, room))
	// A count may see slots that finished runs have just freed and that are about to be passed to
	// waiting runs. A lane with few free slots is therefore treated as full.
	full := l.full || s.total-l.used <= Reserve(s.total)
	if full && len(l.waiting) > 0 && !s.belowShare(l, lane.OrganizationID) {
		taken = 0
	}

	l.add(lane.OrganizationID, taken)
	l.grant -= taken
	l.full = l.full || l.used >= s.total

	// Reserve slots are taken last, and only if all ordinary slots are taken.
	for taken < n && s.mayUseReserve(l, lane.OrganizationID) {
		l.add(lane.OrganizationID, 1)
		l.reserved--
		taken++
	}
	return taken
}

// mayUseReserve reports whether a run of the organization may take a reserve slot: all other slots
// are taken, and the organization has less than its share. The caller holds mu.
func (s *slots) mayUseReserve(l *laneSlots, org string) bool {
	if l.used < s.total || l.used >= s.total+Reserve(s.total) || l.reserved <= 0 {
		return false
	}
	return s.belowShare(l, org)
}

// belowShare reports whether an organization has fewer runs than an equal share of the slots. The
// caller holds mu.
func (s *slots) belowShare(l *laneSlots, org string) bool {
	// An organization without runs also counts as a competitor, as soon as it requests its first
	// slot.
	competitors := len(l.runs)
	if l.runs[org] == 0 {
		competitors++
	}
	return l.runs[org] < s.total/competitors
}

// returnFilled frees n slots of a lane that the method fill has taken and no run has used.
func (s *slots) returnFilled(lane Lane, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(lane, n)
}

// release makes n slots of a lane free again. While more than the total number of slots are used,
// the released slots return to the reserve. The caller holds mu.
func (s *slots) release(lane Lane, n int) {
	// Ordinary slots are taken first and reserve slots last, so they are returned in the opposite
	// order.
	l := s.lane(lane.Lane)
	reserve := min(n, max(0, l.used-s.total))
	l.add(lane.OrganizationID, -n)
	l.reserved += reserve
	l.grant += n - reserve
}

// free records that runs have freed their slots. This process may fill them before the next count.
func (s *slots) free(freed FreedSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, f := range freed {
		s.release(lane, f.Slots)
	}
}

// markWaiting records that organizations may have waiting runs.
func (s *slots) markWaiting(lanes ...Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes {
		s.lane(lane.Lane).waiting[lane.OrganizationID] = true
	}
}

// pass takes up to n freed slots of a lane for waiting runs, each for the organization with the
// fewest dispatched runs. It returns the number of slots for each organization.
func (s *slots) pass(lane domain.Lane, n int) map[Lane]int {
	return s.share(lane, n, func(l *laneSlots) bool {
		if l.used >= s.total {
			return false
		}
		l.grant = max(0, l.grant-1)
		return true
	})
}

// topUp takes up to n free slots of a lane for waiting runs, in the same way as pass. It also takes
// reserve slots for organizations below their share.
func (s *slots) topUp(lane domain.Lane, n int) map[Lane]int {
	return s.share(lane, n, func(l *laneSlots) bool {
		if l.used >= s.total || l.grant <= 0 {
			return false
		}
		l.grant--
		return true
	})
}

// share takes up to n slots of a lane for waiting runs, one at a time, each for the organization
// with the fewest dispatched runs. share stops when the function free finds no free slot and the
// next organization may not use the reserve either.
func (s *slots) share(lane domain.Lane, n int, free func(*laneSlots) bool) map[Lane]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(lane)

	// In each round, the organizations with the fewest runs get one slot each.
	waiting := slices.SortedFunc(maps.Keys(l.waiting), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.runs[a], l.runs[b]), cmp.Compare(a, b))
	})
	taken := map[Lane]int{}
	for fewest := 0; n > 0 && len(waiting) > 0; {
		// Before the index fewest, all organizations have the same number of runs.
		if fewest == len(waiting) || l.runs[waiting[fewest]] > l.runs[waiting[0]] {
			fewest = 0
		}
		org := waiting[fewest]
		if !free(l) {
			if !s.mayUseReserve(l, org) {
				return taken // all other waiting organizations have at least as many runs as org, so they may not use the reserve either
			}
			l.reserved--
		}
		l.add(org, 1)
		taken[Lane{org, lane}]++
		n--
		fewest++
	}
	return taken
}

// releaseUnused releases the taken slots that no dispatched run uses, and returns their number. If
// fewer runs of an organization were dispatched than slots were taken, releaseUnused no longer
// records the organization as waiting.
func (s *slots) releaseUnused(taken, dispatched map[Lane]int) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, n := range taken {
		if unused := n - dispatched[lane]; unused > 0 {
			s.release(lane, unused)
			delete(s.lane(lane.Lane).waiting, lane.OrganizationID)
			left += unused
		}
	}
	return left
}

// add changes the number of dispatched runs of an organization by n, which may be negative.
func (l *laneSlots) add(org string, n int) {
	// The last count may have missed runs that finish now. The number must not become negative.
	before := l.runs[org]
	after := max(0, before+n)
	l.used += after - before
	if after == 0 {
		delete(l.runs, org)
		return
	}
	l.runs[org] = after
}

// takeFor takes free slots for those of the runs that may start immediately. It returns the number
// of taken slots per lane. The caller calls returnUnused to return the slots that it does not use.
func (s *slots) takeFor(ctx context.Context, runs []NewRun) map[Lane]int {
	taken := map[Lane]int{}
	var filling []domain.Lane
	for i := range runs {
		if runs[i].Hold == 0 {
			taken[runs[i].lane()]++
			if !slices.Contains(filling, runs[i].Lane) {
				filling = append(filling, runs[i].Lane)
			}
		}
	}

	// The estimate is refreshed once for all lanes, before any slot is taken.
	s.refresh(ctx, filling...)
	for lane, n := range taken {
		taken[lane] = s.fill(lane, n)
	}
	return taken
}

// returnUnused returns the slots that were taken but not used for a run. created contains the
// accepted runs; a run without an entry has used no slot. returnUnused changes taken.
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
