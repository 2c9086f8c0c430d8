package e2e

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/testkit"
)

const (
	stormKeys    = 180 // triggers, each with a key of its own
	stormClients = 24  // callers that post them, and post again until there is an answer
)

// storm is a number of keyed triggers on their way while what carries them out is killed.
type storm struct {
	callers  []account // one organization, through each ingress
	next     atomic.Int64
	answered atomic.Int64
	answers  [stormKeys]answer
	posts    [stormKeys]int
}

func (s *storm) trigger(n int) trigger {
	text := strconv.Itoa(n)
	return trigger{message: "sleep 200ms: storm " + text, key: "storm-" + text}
}

// client posts one key after another, each until it is answered with a finished run.
func (s *storm) client(ctx context.Context) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for n := int(s.next.Add(1)) - 1; n < stormKeys; n = int(s.next.Add(1)) - 1 {
		for ctx.Err() == nil {
			got := s.callers[(n+s.posts[n])%len(s.callers)].post(ctx, s.trigger(n))
			s.posts[n]++
			if got.err == nil && got.status == http.StatusOK {
				s.answers[n] = got
				s.answered.Add(1)
				break
			}
			// Refused (503), not finished within the wait (202), or the connection broke: what a scheduler does is try again.
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}
}

// TestChaosEveryKeyIsOneRunInAStormOfKills kills every process and server of a cluster while
// triggers come in, in an order that its seed decides: PARLEY_E2E_SEED repeats one.
func TestChaosEveryKeyIsOneRunInAStormOfKills(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if set := os.Getenv("PARLEY_E2E_SEED"); set != "" {
		var err error
		if seed, err = strconv.ParseUint(set, 10, 64); err != nil {
			t.Fatalf("PARLEY_E2E_SEED: %v", err)
		}
	}
	t.Logf("PARLEY_E2E_SEED=%d", seed)
	c := newCluster(t)
	ingresses := []*edge{c.ingress(t), c.ingress(t)}
	workers := []*testkit.Process{c.worker(t), c.worker(t)}
	owner := signUp(t, ingresses[0].url)
	s := &storm{callers: []account{owner, owner.at(ingresses[1])}}
	strikes := []struct {
		name   string
		strike func()
	}{
		{"worker 1", func() { workers[0].Kill9(); workers[0].Restart() }},
		{"worker 2", func() { workers[1].Kill9(); workers[1].Restart() }},
		{"ingress 1", func() { ingresses[0].Kill9(); ingresses[0].Restart() }},
		{"ingress 2", func() { ingresses[1].Kill9(); ingresses[1].Restart() }},
		{"nats-server", func() { c.nats.Kill9(); c.nats.Restart() }},
		{"PostgreSQL", func() { c.postgres.Kill9(); c.postgres.Restart() }},
		{"all servers", func() { c.nats.Kill9(); c.postgres.Kill9(); c.nats.Restart(); c.postgres.Restart() }},
	}
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	for range stormClients {
		clients.Go(func() { s.client(ctx) })
	}
	for i, strike := range strikes {
		due := int64((i + 1) * stormKeys / (len(strikes) + 2))
		eventually(t, 100*time.Second, strconv.FormatInt(due, 10)+" triggers are answered", func() bool { return s.answered.Load() >= due })
		t.Logf("after %d answers: %s is killed", s.answered.Load(), strike.name)
		strike.strike()
	}
	clients.Wait()
	s.check(t, c)
}

// check holds what was answered against the database and the ledger.
func (s *storm) check(t *testing.T, c *cluster) {
	t.Helper()
	if answered := s.answered.Load(); answered != stormKeys {
		t.Fatalf("%d of %d triggers were answered in time", answered, stormKeys)
	}
	if rows := c.number(t, "SELECT count(*) FROM runs"); rows != stormKeys {
		t.Fatalf("%d runs in the database, want %d", rows, stormKeys)
	}
	if open := c.number(t, "SELECT count(*) FROM open_runs"); open != 0 {
		t.Fatalf("%d runs are still open", open)
	}
	posts, calls, again := 0, 0, 0
	for n := range s.answers {
		r := s.answers[n].run(t)
		if r.Status != "completed" || r.Output == nil || r.Output.Message != echoed("storm "+strconv.Itoa(n)) {
			t.Fatalf("trigger %d: %s", n, s.answers[n].body)
		}
		made := c.model.count(s.trigger(n).message)
		if made < 1 || made > r.Attempts {
			t.Fatalf("trigger %d: %d model calls in %d attempts", n, made, r.Attempts)
		}
		if replay := s.callers[n%2].post(t.Context(), s.trigger(n)).replayed(t); !bytes.Equal(replay.body, s.answers[n].body) {
			t.Fatalf("trigger %d: the replay differs from the answer:\n%s\n%s", n, replay.body, s.answers[n].body)
		}
		posts, calls = posts+s.posts[n], calls+made
		if r.Attempts > 1 {
			again++
		}
	}
	t.Logf("%d keys, %d posts, %d runs, %d model calls, %d runs taken over", stormKeys, posts, stormKeys, calls, again)
}
