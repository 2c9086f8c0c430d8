package readers

import "time"

const (
	maxRemembered = 10_000 // maximum number of values in a memory
	// rememberFor is the time after which a value expires.
	rememberFor = time.Minute
)

// memory remembers values by key for rememberFor. When it is full, it forgets the values of the
// organization with the most values, so that no organization can displace the values of others. A
// memory is not safe for concurrent use. The zero value is empty.
type memory[V any] struct {
	// Values by key; the newest value of a key is last.
	values map[string][]remembered[V]
	sizes  map[string]int // number of values by organization
	// Number of all values.
	size  int
	swept time.Time // when expired values were last removed
}

// remembered is a value with its organization and the time at which it expires. The time does not
// change, even if the value is read.
type remembered[V any] struct {
	value V
	org   string
	until time.Time
}

// add stores a value of an organization under a key, in addition to the key's earlier values. It
// also removes expired values: when the memory is full, and otherwise at most once per rememberFor.
func (m *memory[V]) add(org, key string, value V) {
	now := time.Now()
	if m.values == nil {
		m.values, m.sizes = map[string][]remembered[V]{}, map[string]int{}
	}
	if m.size >= maxRemembered || now.Sub(m.swept) > rememberFor {
		m.swept = now
		m.removeAll(func(v remembered[V]) bool { return now.After(v.until) })
	}

	// If the memory is full of values that have not expired, it drops the values of the
	// organization that has the most values.
	if m.size >= maxRemembered {
		most, _ := largest(m.sizes)
		m.removeAll(func(v remembered[V]) bool { return v.org == most })
	}

	m.values[key] = append(m.values[key], remembered[V]{value, org, now.Add(rememberFor)})
	addTo(m.sizes, org, 1)
	m.size++
}

// largest returns the organization with the largest number in sizes. All numbers are positive. For
// an empty map, the results are "" and 0.
func largest(sizes map[string]int) (org string, size int) {
	for other, n := range sizes {
		if n > size {
			org, size = other, n
		}
	}
	return org, size
}

// addTo adds n to an organization's number in sizes. It deletes a number that becomes zero. The map
// thus contains only organizations with a value.
func addTo(sizes map[string]int, org string, n int) {
	if sizes[org] += n; sizes[org] == 0 {
		delete(sizes, org)
	}
}

// get returns the key's values that have not expired, oldest first. Expired values stay in the
// memory until they are removed.
func (m *memory[V]) get(key string) []V {
	now, out := time.Now(), []V(nil)
	for _, v := range m.values[key] {
		if !now.After(v.until) {
			out = append(out, v.value)
		}
	}
	return out
}

// remove removes the values of a key for which drop returns true. drop is called for expired values
// too.
func (m *memory[V]) remove(key string, drop func(V) bool) {
	m.filter(key, func(v remembered[V]) bool { return drop(v.value) })
}

// removeAll removes the values of all keys for which drop returns true. It visits the whole memory.
func (m *memory[V]) removeAll(drop func(remembered[V]) bool) {
	for key := range m.values {
		m.filter(key, drop)
	}
}

// filter keeps the values of a key for which drop returns false. It reuses the key's slice.
func (m *memory[V]) filter(key string, drop func(remembered[V]) bool) {
	kept := m.values[key][:0]
	for _, v := range m.values[key] {
		if !drop(v) {
			kept = append(kept, v)
			continue
		}
		m.size--
		addTo(m.sizes, v.org, -1)
	}
	if len(kept) == 0 {
		delete(m.values, key)
		return
	}
	m.values[key] = kept
}

// waiter records that the message of a run waits for earlier runs of its session. The record is
// kept, because such an earlier run may lose its reader later.
type waiter struct {
	runID    string
	previous string // the run that the message waits for; empty: all earlier runs
}

// on reports whether the message waits for the run with this id. A message never waits for a run
// that was created after its own run.
func (n waiter) on(runID string) bool {
	if n.previous != "" {
		return n.previous == runID
	}
	return n.runID > runID // run ids are ordered by time
}

// attempt is the run of an earlier attempt whose client has left. A retry of the request uses this
// data to find the run.
type attempt struct {
	// Organization of the run.
	OrganizationID string `json:"org"`
	RunID          string `json:"run"`
	// Number of the attempt; see Attempt.Number.
	Number int `json:"number"`
}
