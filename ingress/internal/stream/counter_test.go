package stream

import "testing"

func TestSeatsAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	key, other, org := Limit{"key", 2}, Limit{"other", 2}, Limit{"org", 3}
	var s Counter
	take := func(want string, limits ...Limit) {
		t.Helper()
		got := ""
		if full := s.Take(limits...); full != nil {
			got = full.Name
		}
		if got != want {
			t.Errorf("%v: %q is full, want %q", limits, got, want)
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
	for _, limit := range []Limit{key, other, other} {
		s.Leave(limit, org)
	}
	if len(s.taken) != 0 {
		t.Errorf("left over: %v", s.taken)
	}
	take("none", Limit{"none", 0})
}
