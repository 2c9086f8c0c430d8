package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// TestAFloodDoesNotDelayOthers queues hundreds of runs of one organization. Meanwhile, the runs of
// another organization must start without waiting for them.
func TestAFloodDoesNotDelayOthers(t *testing.T) {
	nightly(t, "a flood of 200 runs")
	t.Parallel()
	const (
		slots   = 4
		flood   = 200
		singles = 5
	)

	c := newCluster(t)
	in, second := c.ingress(t), c.ingress(t)
	// The worker has far fewer slots than the flood has runs, so the flood takes all slots. Another
	// organization gets a reserved slot or the next slot that is released.
	c.worker(t, "WORKER_CONCURRENCY="+strconv.Itoa(slots))
	flooder, other := signUp(t, in.url), signUp(t, in.url)
	alone := timeOne(t, other)

	prompts := make([]string, flood)
	var posts sync.WaitGroup
	failed := make([]api.Answer, flood)
	for n := range prompts {
		prompts[n] = "sleep 500ms: flood " + strconv.Itoa(n)
		posts.Go(func() {
			through := flooder.at([]*edge{in, second}[n%2])
			failed[n] = through.post(t.Context(), trigger{message: prompts[n], prefer: "respond-async"})
		})
	}

	posts.Wait()
	for _, a := range failed {
		a.Want(t, http.StatusAccepted)
	}

	for range singles {
		took := timeOne(t, other)
		t.Logf("a run during the flood took %s, alone %s", took.Round(time.Millisecond), alone.Round(time.Millisecond))
		if took > testkit.Within(2500*time.Millisecond) { // a run takes 200 ms, and the flood at least 25 s
			t.Fatalf("a run during the flood took %s, alone %s", took, alone)
		}
	}

	if done := len(c.model.of(prompts...)); done > flood*3/4 {
		t.Fatalf("%d of the flood's %d runs were executed already, so there was no flood", done, flood)
	}

	eventually(t, 90*time.Second, "the flood ends", func() bool { return c.number(t, "SELECT count(*) FROM open_runs") == 0 })
	calls := c.model.of(prompts...)
	if len(calls) != flood {
		t.Fatalf("%d model calls of the flood, want %d", len(calls), flood)
	}
	// Two processes that dispatch simultaneously may both use the last free slot, so a few calls
	// may exceed the limit. If the service never corrected the excess, most calls would exceed the
	// limit.
	if over := countBeyond(calls[flood/4:], slots); over > flood/10 {
		t.Errorf("%d of %d model calls began while %d runs of the organization were executing, as many as there are slots", over, flood*3/4, slots)
	}
}

// timeOne sends a run that takes 200 ms, and returns the time from the request to the response.
func timeOne(t *testing.T, a account) time.Duration {
	t.Helper()
	began := time.Now()
	a.post(t.Context(), trigger{message: "sleep 200ms: single"}).Completed(t, echoed("single"), 1)
	return time.Since(began)
}

// TestFloodLeavesTheWaitOfOthers measures the durations of an organization's runs in alternating
// rounds: alone, and during another organization's flood of runs. It compares the 99th percentiles.
func TestFloodLeavesTheWaitOfOthers(t *testing.T) { //nolint:paralleltest // it measures latency
	testkit.Long(t)
	limit := bound(t, 2, 3)
	const (
		rounds  = 6
		samples = 80 // runs per round, alone and during the flood
		flood   = 150
		slots   = 16
	)

	c := newCluster(t, "LIMIT_USER=500000", "LIMIT_SYSTEM=600000")
	in, second := c.ingress(t), c.ingress(t)
	c.worker(t, "WORKER_CONCURRENCY="+strconv.Itoa(slots))
	flooder, quiet := signUp(t, in.url), signUp(t, in.url)
	flooder.by, quiet.by = persistentClient(t, flood), persistentClient(t, flood)
	var alone, beside waits
	for round := range rounds {
		alone.measure(t, c, quiet, fmt.Sprintf("alone %d", round), samples)
		l := &load{post: func(ctx context.Context, caller, n int) api.Answer {
			return flooder.at([]*edge{in, second}[n%2]).post(ctx, trigger{message: fmt.Sprintf("sleep 100ms: flood %d-%d-%d", round, caller, n)})
		}}
		l.start(t, flood)
		eventually(t, api.Timeout, "the flood's runs wait for each other", func() bool {
			return c.number(t, "SELECT count(*) FROM open_runs WHERE status = 'queued'") > flood/2
		})
		beside.measure(t, c, quiet, fmt.Sprintf("beside %d", round), samples)
		if waiting := c.number(t, "SELECT count(*) FROM open_runs WHERE status = 'queued'"); waiting < flood/2 {
			t.Errorf("only %d runs waited at the end of round %d, so there was no flood", waiting, round)
		}
		for _, p := range l.end() {
			p.answer.Want(t, http.StatusOK)
		}
	}

	t.Logf("alone:            %s", &alone)
	t.Logf("during the flood: %s", &beside)
	if others, own := percentile(beside.answered, 0.99), percentile(alone.answered, 0.99); others.Seconds() > limit*own.Seconds() {
		t.Errorf("during the flood the p99 wait is %s, more than %.0f times that alone, %s", others, limit, own)
	}
}

// waits contains two durations of each run: from its request to its response, and from its request
// to its model call.
type waits struct{ answered, begun []time.Duration }

func (w *waits) String() string {
	ms := func(of []time.Duration, p float64) time.Duration { return percentile(of, p).Round(time.Millisecond) }
	return fmt.Sprintf("%d runs of 100 ms, answered p50 %s, p99 %s; begun p50 %s, p99 %s",
		len(w.answered), ms(w.answered, 0.5), ms(w.answered, 0.99), ms(w.begun, 0.5), ms(w.begun, 0.99))
}

// measure starts runs by two callers of an account, and records their durations. The argument
// samples is the minimum number of runs.
func (w *waits) measure(t *testing.T, c *cluster, of account, name string, samples int) {
	t.Helper()
	message := func(caller, n int) string { return fmt.Sprintf("sleep 100ms: %s %d-%d", name, caller, n) }
	l := &load{post: func(ctx context.Context, caller, n int) api.Answer {
		return of.post(ctx, trigger{message: message(caller, n)})
	}}

	l.start(t, 2)
	l.await(t, samples)
	for _, p := range l.end() {
		p.answer.Want(t, http.StatusOK)
		calls := c.model.of(message(p.caller, p.n))
		if len(calls) != 1 {
			t.Fatalf("%d model calls with the prompt %q", len(calls), message(p.caller, p.n))
		}
		w.answered, w.begun = append(w.answered, p.took), append(w.begun, calls[0].began.Sub(p.began))
	}
}

// TestOverloadRefusesNewRunsAndReplaysOld fills an organization's backlog. The service must then
// reject new triggers, but must still return the stored result of an earlier trigger.
func TestOverloadRefusesNewRunsAndReplaysOld(t *testing.T) {
	t.Parallel()
	const backlog = 5
	c := newCluster(t, "BACKLOG_MAX="+strconv.Itoa(4*backlog)) // one organization may use a quarter of the backlog
	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url)
	known := trigger{message: "known", key: "known"}
	before := owner.post(t.Context(), known)
	before.Completed(t, echoed("known"), 1)
	worker.Term() // from now on, new runs stay queued
	if err := worker.Wait(25 * time.Second); err != nil {
		t.Fatal(err)
	}

	var ids []string
	var refusal api.Answer
	eventually(t, 20*time.Second, "new runs are refused", func() bool {
		got := owner.post(t.Context(), trigger{message: "queued " + strconv.Itoa(len(ids)), prefer: "respond-async"})
		if got.Status == http.StatusAccepted {
			ids = append(ids, got.Run(t).ID)
			return false
		}
		refusal = got
		return true
	})

	refusal.Refused(t, http.StatusServiceUnavailable, "overloaded")
	if len(ids) < backlog {
		t.Fatalf("refused after %d runs, want at least %d", len(ids), backlog)
	}
	if again := owner.post(t.Context(), known).Replayed(t); !bytes.Equal(again.Body, before.Body) {
		t.Fatalf("the replay differs:\n%s\n%s", again.Body, before.Body)
	}
	if rows := c.number(t, "SELECT count(*) FROM runs"); rows != len(ids)+1 {
		t.Fatalf("runs in the database = %d, want the %d accepted ones", rows, len(ids)+1)
	}

	worker.Restart()
	for n, id := range ids {
		owner.result(t, id, 30*time.Second).Completed(t, echoed("queued "+strconv.Itoa(n)), 1)
	}

	eventually(t, 20*time.Second, "new runs are accepted again", func() bool {
		got := owner.post(t.Context(), trigger{message: "accepted again"})
		return got.Status == http.StatusOK
	})
}
