package stream

import "testing"

func TestSeatsAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	key, other, org := StreamLimit{"key", 2}, StreamLimit{"other", 2}, StreamLimit{"org", 3}
	var s StreamCounter
	take := func(want string, seats ...StreamLimit) {
		t.Helper()
		got := ""
		if full := s.Take(seats...); full != nil {
			got = full.Name
		}
		if got != want {
			t.Errorf("%v: %q is full, want %q", seats, got, want)
		}
	}
	take("", key, org)
	take("", key, org)
	take("key", key, org)
	take("", other, org)
	take("org", other, org)
	s.Leave(key, org)
	take("", other, org)
	take("org", key, org)
	for _, seat := range []StreamLimit{key, other, other} {
		s.Leave(seat, org)
	}
	if len(s.taken) != 0 {
		t.Errorf("left over: %v", s.taken)
	}
	take("none", StreamLimit{"none", 0})
}
