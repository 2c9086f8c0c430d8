package stream

import "sync"

// Seats counts open streams by whom they are open for. The zero value has none taken.
type Seats struct {
	mu    sync.Mutex
	taken map[string]int
}

// Seat is one who may have so many streams open.
type Seat struct {
	Name string
	Max  int
}

// Take takes a seat of each, or of none: then it gives the one who has as many open as they may. Leave must be
// called with the same seats once the stream has ended.
func (s *Seats) Take(seats ...Seat) (full *Seat) {
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

// Leave gives back what Take took.
func (s *Seats) Leave(seats ...Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range seats {
		if s.taken[seat.Name]--; s.taken[seat.Name] == 0 {
			delete(s.taken, seat.Name) // what has been open once costs nothing
		}
	}
}
