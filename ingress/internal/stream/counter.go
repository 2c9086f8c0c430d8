package stream

import "sync"

// Counter counts open streams by name. The zero value is ready for use.
type Counter struct {
	mu    sync.Mutex
	taken map[string]int
}

// Limit is a name and the number of streams that it may have open.
type Limit struct {
	Name string
	Max  int
}

// Take counts a stream for each limit. If a limit is reached, Take counts nothing and returns that
// limit. The caller passes the same limits to Leave when the stream has ended.
func (s *Counter) Take(limits ...Limit) (full *Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// All limits are checked before any is counted, so a refused stream holds no slot.
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

// Leave reverses Take.
func (s *Counter) Leave(limits ...Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, limit := range limits {
		if s.taken[limit.Name]--; s.taken[limit.Name] == 0 {
			delete(s.taken, limit.Name) // an entry of zero takes no memory
		}
	}
}
