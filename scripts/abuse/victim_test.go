package abuse

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

// probe is one kind of request that a victim sends at a steady rate.
type probe struct {
	name  string
	every time.Duration
	// allowance is the allowed increase of this probe's latency. The usual allowance applies if it
	// is larger.
	allowance time.Duration
	// send sends the n-th request and waits for its result. It returns an error if the result is
	// wrong.
	send func(ctx context.Context, n int) error
}

// victim sends requests of several kinds and records their latencies.
type victim struct {
	probes []probe

	mu      sync.Mutex
	sent    map[string]int // number of requests sent, by probe
	refused []string
}

// names returns the names of the victim's probes.
func (v *victim) names() []string {
	var names []string
	for _, p := range v.probes {
		names = append(names, p.name)
	}
	return names
}

// latencies contains the latencies of requests, by probe.
type latencies map[string][]time.Duration

func (l latencies) add(more latencies) {
	for name, took := range more {
		l[name] = append(l[name], took...)
	}
}

// live sends requests for the duration d and returns when all have finished. Each request has a
// scheduled time that does not depend on earlier responses, and its latency counts from that time.
// A stalled service therefore cannot hide its stall by delaying the victim's later requests.
func (v *victim) live(ctx context.Context, d time.Duration) latencies {
	found := latencies{}
	var all sync.WaitGroup
	for _, p := range v.probes {
		all.Go(func() {
			for _, took := range v.each(ctx, p, d) {
				v.mu.Lock()
				found[p.name] = append(found[p.name], took)
				v.mu.Unlock()
			}
		})
	}

	all.Wait()
	return found
}

// each sends the requests of one probe for the duration d, and returns their latencies. It records
// the errors of requests, except those that the end of ctx canceled.
func (v *victim) each(ctx context.Context, p probe, d time.Duration) (took []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for next := time.Now(); d > 0; d -= p.every {
		n, due := v.next(p.name), next
		all.Go(func() {
			err := p.send(ctx, n)
			needed := time.Since(due)
			if err != nil && ctx.Err() == nil {
				v.note(fmt.Sprintf("%s %d, after %s: %v", p.name, n, needed.Round(time.Millisecond), err))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, needed)
		})
		next = next.Add(p.every)
		_ = lifecycle.Sleep(ctx, time.Until(next))
	}

	all.Wait()
	return took
}

func (v *victim) next(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sent == nil {
		v.sent = map[string]int{}
	}
	v.sent[name]++
	return v.sent[name]
}

func (v *victim) note(refusal string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused = append(v.refused, refusal)
}

// lists is a probe that lists the person's runs.
func (p *person) lists(every time.Duration) probe {
	return probe{name: "list of runs", every: every, send: func(ctx context.Context, _ int) error {
		return p.get(ctx, "/api/runs?limit=20", p.bearer()).Check(http.StatusOK)
	}}
}

// chats is a probe that sends chat messages and waits for the answers.
func (p *person) chats(every time.Duration) probe {
	return probe{name: "chat", every: every, send: func(ctx context.Context, n int) error {
		return p.chat(ctx, p.byKey(), fmt.Sprint("message ", n)).Check(http.StatusOK)
	}}
}

// triggers is a probe that runs automations and waits for the results.
func (p *person) triggers(every time.Duration) probe {
	return probe{name: "automation", every: every, send: func(ctx context.Context, n int) error {
		return p.trigger(ctx, p.key, fmt.Sprint("trigger ", n)).Check(http.StatusOK)
	}}
}

// logins is a probe that logs in.
func (p *person) logins(every time.Duration) probe {
	return probe{name: "login", every: every, send: func(ctx context.Context, _ int) error {
		return p.post(ctx, "/api/auth/login", nil, p.credentials()).Check(http.StatusOK)
	}}
}

// documents is a probe that uploads a short document and polls until it is ready.
func (p *person) documents(every time.Duration) probe {
	return probe{name: "document", every: every, allowance: documentAllowance, send: func(ctx context.Context, n int) error {
		return p.ready(ctx, fmt.Sprintf("note-%d.txt", n), fmt.Sprintf("Note number %07d.", n))
	}}
}

// deliveries is a probe that sends signed deliveries to the person's hook.
func (h *hook) deliveries(name string, every time.Duration, size int) probe {
	return probe{name: name, every: every, send: func(ctx context.Context, n int) error {
		return h.deliver(ctx, h.owner.client, fmt.Sprint(name, n), size).Check(http.StatusAccepted)
	}}
}

// firstDeliveries is a probe that sends signed deliveries to the hook. Each delivery comes from an
// address from which the service has not received any before.
func (h *hook) firstDeliveries(t *testing.T, s *service, name string, every time.Duration, size int) probe {
	t.Helper()
	return probe{name: name, every: every, send: func(ctx context.Context, n int) error {
		source := s.from(t, fmt.Sprintf("127.1.%d.%d", n/200, 1+n%200))
		defer source.http.CloseIdleConnections()
		return h.deliver(ctx, source, fmt.Sprint(name, n), size).Check(http.StatusAccepted)
	}}
}
