package readers

import "time"

const (
	maxRemembered = 10_000 // values of one memory; the memory is emptied when it is full
	rememberFor   = time.Minute
)

// memory remembers values by key for rememberFor. It is not safe for concurrent use.
type memory[V any] struct {
	values map[string][]remembered[V]
	size   int
	swept  time.Time // when expired values were last removed
}

type remembered[V any] struct {
	value V
	until time.Time
}

// add remembers a value in addition to the key's other values.
func (m *memory[V]) add(key string, value V) {
	now := time.Now()
	if m.values == nil || m.size >= maxRemembered {
		m.values, m.size = map[string][]remembered[V]{}, 0
	}
	if now.Sub(m.swept) > rememberFor {
		m.sweep(now)
	}
	m.values[key] = append(m.values[key], remembered[V]{value, now.Add(rememberFor)})
	m.size++
}

// sweep removes expired values. The newest value of a key is its last.
func (m *memory[V]) sweep(now time.Time) {
	m.swept = now
	for key, values := range m.values {
		if now.After(values[len(values)-1].until) {
			m.size -= len(values)
			delete(m.values, key)
		}
	}
}

// get returns the key's values that have not expired, oldest first.
func (m *memory[V]) get(key string) []V {
	now, out := time.Now(), []V(nil)
	for _, v := range m.values[key] {
		if !now.After(v.until) {
			out = append(out, v.value)
		}
	}
	return out
}

// remove forgets the values of a key for which drop returns true.
func (m *memory[V]) remove(key string, drop func(V) bool) {
	kept := m.values[key][:0]
	for _, v := range m.values[key] {
		if !drop(v.value) {
			kept = append(kept, v)
		}
	}
	m.size -= len(m.values[key]) - len(kept)
	if len(kept) == 0 {
		delete(m.values, key)
		return
	}
	m.values[key] = kept
}
