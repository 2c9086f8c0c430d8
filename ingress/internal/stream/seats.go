package stream

import "sync"

// StreamCounter counts open streams by name. The zero value is ready for use.
type StreamCounter struct {
	mu    sync.Mutex
	taken map[string]int
}

// StreamLimit is a name and the number of streams that it may have open.
type StreamLimit struct {
	Name string
	Max  int
}

// Take counts a stream for each seat. If a seat is full, Take counts nothing and returns that seat.
// The caller passes the same seats to Leave when the stream has ended.
func (s *StreamCounter) Take(seats ...StreamLimit) (full *StreamLimit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range seats {
		if s.taken[seats[i].Name] >= seats[i].Max {
			return &seats[i]
		}
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	for _, seat := range seats {
		s.taken[seat.Name]++
	}
	return nil
}

// Leave reverses Take.
func (s *StreamCounter) Leave(seats ...StreamLimit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range seats {
		if s.taken[seat.Name]--; s.taken[seat.Name] == 0 {
			delete(s.taken, seat.Name) // an entry of zero takes no memory
		}
	}
}
