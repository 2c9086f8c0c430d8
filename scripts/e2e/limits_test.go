package e2e

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestWindowKeepsAFloodFromDelayingOthers(t *testing.T) {
	t.Parallel()
	const (
		window  = 4
		flood   = 200
		singles = 5
		// Of a run of 200 ms beside a flood that takes at least ten seconds; the machine is shared.
		bound = 2500 * time.Millisecond
	)
	c := newCluster(t, "ORG_DISPATCH_WINDOW="+strconv.Itoa(window))
	in, second := c.ingress(t), c.ingress(t)
	// More slots than one organization may use, and far fewer than its runs: without the window the flood would have them all.
	c.worker(t, "WORKER_CONCURRENCY="+strconv.Itoa(2*window))
	flooder, other := signUp(t, in.url), signUp(t, in.url)
	alone := timeOne(t, other)

	prompts := make([]string, flood)
	var posts sync.WaitGroup
	failed := make([]answer, flood)
	for n := range prompts {
		prompts[n] = "sleep 200ms: flood " + strconv.Itoa(n)
		posts.Go(func() {
			through := flooder.at([]*edge{in, second}[n%2])
			failed[n] = through.post(t.Context(), trigger{message: prompts[n], prefer: "respond-async"})
		})
	}
	posts.Wait()
	for _, a := range failed {
		a.want(t, http.StatusAccepted)
	}
	for range singles {
		took := timeOne(t, other)
		t.Logf("a run beside the flood took %s, alone %s", took.Round(time.Millisecond), alone.Round(time.Millisecond))
		if took > bound {
			t.Fatalf("a run beside the flood took %s, alone %s", took, alone)
		}
	}
	if done := len(c.model.of(prompts...)); done > flood*3/4 {
		t.Fatalf("%d of the flood's %d runs were carried out before: it was no flood", done, flood)
	}
	eventually(t, 90*time.Second, "the flood ends", func() bool { return c.number(t, "SELECT count(*) FROM open_runs") == 0 })
	calls := c.model.of(prompts...)
	if len(calls) != flood {
		t.Fatalf("%d model calls of the flood, want %d", len(calls), flood)
	}
	// Processes that dispatch in the same moment may both see the last free place. That happens; what may not
	// is that a place which was taken too many stays taken, for then most of the calls are too many.
	if over := beyond(calls[flood/4:], window); over > flood/10 {
		t.Errorf("%d of %d model calls began while %d runs of the organization were carried out: the window leaks", over, flood*3/4, window)
	}
}

// timeOne is how long a run of 200 ms takes, from the request to the answer.
func timeOne(t *testing.T, a account) time.Duration {
	t.Helper()
	began := time.Now()
	a.post(t.Context(), trigger{message: "sleep 200ms: single"}).completed(t, echoed("single"), 1)
	return time.Since(began)
}

func TestOverloadRefusesNewRunsAndReplaysOld(t *testing.T) {
	t.Parallel()
	const backlog = 5
	c := newCluster(t, "BACKLOG_MAX="+strconv.Itoa(backlog))
	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url)
	known := trigger{message: "known", key: "known"}
	before := owner.post(t.Context(), known)
	before.completed(t, echoed("known"), 1)
	worker.Term() // from here on everything queues
	if err := worker.Wait(25 * time.Second); err != nil {
		t.Fatal(err)
	}

	var ids []string
	var refusal answer
	eventually(t, 20*time.Second, "new runs are refused", func() bool {
		got := owner.post(t.Context(), trigger{message: "queued " + strconv.Itoa(len(ids)), prefer: "respond-async"})
		if got.status == http.StatusAccepted {
			ids = append(ids, got.run(t).ID)
			return false
		}
		refusal = got
		return true
	})
	refusal.refused(t, http.StatusServiceUnavailable, "overloaded")
	if len(ids) < backlog {
		t.Fatalf("refused after %d runs, want at least %d", len(ids), backlog)
	}
	if again := owner.post(t.Context(), known).replayed(t); !bytes.Equal(again.body, before.body) {
		t.Fatalf("the replay differs:\n%s\n%s", again.body, before.body)
	}
	if rows := c.number(t, "SELECT count(*) FROM runs"); rows != len(ids)+1 {
		t.Fatalf("%d runs in the database, accepted were %d", rows, len(ids)+1)
	}

	worker.Restart()
	for n, id := range ids {
		owner.result(t, id, 30*time.Second).completed(t, echoed("queued "+strconv.Itoa(n)), 1)
	}
	eventually(t, 20*time.Second, "new runs are accepted again", func() bool {
		got := owner.post(t.Context(), trigger{message: "accepted again"})
		return got.status == http.StatusOK
	})
}
