package stream

import "sync"

// Counter counts open streams by name. Its zero value is ready for use. A Counter is safe for
// concurrent use. It counts the streams of this process only.
type Counter struct {
	mu    sync.Mutex
	taken map[string]int
}

// Limit is a name and the maximum number of streams that may be open under this name.
type Limit struct {
	// Name that is unique among all kinds of limits, such as "organization:org_1".
	Name string
	Max  int
}

// Take counts a stream under the name of each of the limits. If one of them is already reached,
// Take counts nothing and returns that limit. When the stream has ended, the caller must pass the
// same limits to Leave.
func (s *Counter) Take(limits ...Limit) (full *Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// All limits are checked before the stream is counted, so that a refused stream is not counted
	// anywhere.
	for i := range limits {
		if s.taken[limits[i].Name] >= limits[i].Max {
			return &limits[i]
		}
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	for _, limit := range limits {
		s.taken[limit.Name]++
	}
	return nil
}

// Leave reverses a call of Take with the same limits. It must be called exactly once for each
// successful Take.
func (s *Counter) Leave(limits ...Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, limit := range limits {
		if s.taken[limit.Name]--; s.taken[limit.Name] == 0 {
			delete(s.taken, limit.Name) // names without streams are deleted to save memory
		}
	}
}
