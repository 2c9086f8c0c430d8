package soak

import "testing"

func TestRequests(t *testing.T) {
	t.Parallel()
	const all, agents = 100_000, 7
	kinds, sessions := map[string]int{}, map[string]int{}
	for n := range all {
		r := of(n, agents)
		kinds[r.kind]++
		if r.kind == chats || r.kind == streams {
			sessions[r.session]++
		}
		if (r.kind == failing) != (r.agent == agents) {
			t.Fatalf("request %d is %+v", n, r)
		}
		if r.kind != repeated {
			continue
		}
		if first := of(n-repeatAfter+2, agents); first.kind != triggers || first.key != r.key || first.message != r.message || first.agent != r.agent {
			t.Fatalf("request %d is %+v, and repeats %+v", n, r, first)
		}
	}
	for kind, percent := range map[string]float64{streams: 5, chats: 10, repeated: 5, failing: 1, triggers: 79} {
		if got := float64(kinds[kind]) * 100 / all; got < percent-.2 || got > percent+.2 {
			t.Errorf("%v %% are %s, not %v", got, kind, percent)
		}
	}
	for session, n := range sessions {
		if n != 1 && n != turns {
			t.Fatalf("session %s has %d turns", session, n)
		}
	}
}
