package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/store/queuedb"
)

const (
	// inFlightShort and inFlightLong are numbers of runs in flight. The larger number is a worker's
	// default number of slots on a machine with two cores.
	inFlightShort, inFlightLong = 200, 5000

	inFlightClients = 64 // number of clients that send requests at the same time
	inFlightWithin  = 2 * time.Minute
)

// inFlight is a service whose runs wait for their model until the test releases them. Its workers
// have one slot in each lane for each run.
type inFlight struct {
	c         *cluster
	in        *edge
	model     *heldModel
	owner     account
	neighbour account // another organization
	runs      int

	mu  sync.Mutex
	ids []string // accepted runs
}

// newInFlight starts everything except the workers. Without -short, the test has 5,000 runs and
// does not share the machine with other tests.
func newInFlight(t *testing.T, settings ...string) *inFlight {
	t.Helper()
	f := &inFlight{runs: inFlightLong, model: newHeldModel(t)}
	if testing.Short() {
		f.runs = inFlightShort
		t.Parallel()
	}
	f.c = newCluster(t, slices.Concat([]string{
		"OPENAI_BASE_URL=" + f.model.url, "WORKER_CONCURRENCY=" + strconv.Itoa(f.runs), "LIMIT_USER=5000000", "LIMIT_SYSTEM=6000000",
	}, settings)...)
	f.in = f.c.ingress(t)
	f.owner, f.neighbour = signUp(t, f.in.url), signUp(t, f.in.url)
	f.owner.by, f.neighbour.by = persistentClient(t, inFlightClients), persistentClient(t, inFlightClients)
	return f
}

// each calls the function do for each number below n. Up to inFlightClients calls run at the same
// time.
func each(n int, do func(n int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range inFlightClients {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
}

// heldMessage returns the message of a run. Messages in the order of their numbers are also in
// alphabetical order.
func heldMessage(n int) string { return fmt.Sprintf("held %06d", n) }

// fill starts the runs from one number up to another, and waits until the model has begun their
// answers.
func (f *inFlight) fill(t *testing.T, from, to int) {
	t.Helper()
	each(to-from, func(n int) { f.enqueue(t, from+n) })
	f.awaitInProgress(t, to)
}

// enqueue starts a run and does not wait for it. It repeats the request while the queue is full,
// because runs that have left the queue count as queued until the service counts the queue again.
// Goroutines other than the test's can call enqueue.
func (f *inFlight) enqueue(t *testing.T, n int) {
	t.Helper()
	var got api.Answer
	for end := time.Now().Add(inFlightWithin); ; <-time.After(100 * time.Millisecond) {
		got = f.owner.post(t.Context(), trigger{message: heldMessage(n), prefer: "respond-async"})
		if got.Status != http.StatusServiceUnavailable || time.Now().After(end) {
			break
		}
	}
	id := runFor(got)
	if got.Status != http.StatusAccepted || id == "" {
		t.Errorf("run %d was not accepted: %d %s, %v", n, got.Status, got.Body, got.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, id)
}

// awaitInProgress waits until n answers are in progress.
func (f *inFlight) awaitInProgress(t *testing.T, n int) {
	t.Helper()
	eventually(t, inFlightWithin, strconv.Itoa(n)+" answers are in progress", func() bool { return f.model.inProgress() == n })
}

// awaitCalledAgain waits until each message has a second call, and returns the time of the last
// call.
func (f *inFlight) awaitCalledAgain(t *testing.T) (last time.Time) {
	t.Helper()
	eventually(t, inFlightWithin, "each run has been taken over", func() bool {
		n, at := f.model.called(2)
		last = at
		return n == f.runs
	})
	return last
}

// finish releases the answers, and waits until all runs are completed. Each run must have the given
// number of attempts and model calls.
func (f *inFlight) finish(t *testing.T, attempts int) {
	t.Helper()
	f.model.releaseAll()
	f.awaitStatus(t, "completed", len(f.ids))
	if n := f.c.number(t, "SELECT count(*) FROM runs WHERE attempts <> $1", attempts); n != 0 {
		t.Errorf("%d runs have not had %d attempts", n, attempts)
	}
	f.model.check(t, attempts)
}

// awaitStatus waits until n runs have the given status and no run of the owner is open.
func (f *inFlight) awaitStatus(t *testing.T, status string, n int) {
	t.Helper()
	eventually(t, inFlightWithin, strconv.Itoa(n)+" runs are "+status, func() bool {
		return f.c.number(t, "SELECT count(*) FROM runs WHERE status = $1 AND agent_id = $2", status, f.owner.agent) >= n
	})
	if open := f.c.number(t, "SELECT count(*) FROM open_runs WHERE agent_id = $1", f.owner.agent); open != 0 {
		t.Errorf("%d runs are open", open)
	}
	if rows := f.c.number(t, "SELECT count(*) FROM runs WHERE agent_id = $1", f.owner.agent); rows != n {
		t.Errorf("%d runs, want %d", rows, n)
	}
}

// TestStoppingWorkerRequeuesRunsInFlight stops a worker while all of its slots are in use. The
// worker must requeue all runs before it exits, so that another worker executes them without
// waiting for the leases.
func TestStoppingWorkerRequeuesRunsInFlight(t *testing.T) { //nolint:paralleltest // newInFlight calls t.Parallel
	f := newInFlight(t)
	leaving := f.c.worker(t)
	f.fill(t, 0, f.runs)
	staying := f.c.worker(t)

	leaving.Term()
	stopped := time.Now()
	if err := leaving.Wait(inFlightWithin); err != nil {
		t.Fatalf("the worker did not exit with 0: %v", err)
	}
	exited := time.Since(stopped)
	last := f.awaitCalledAgain(t)
	t.Logf("%d runs: the worker exited after %.1f s, the last run was taken over after %.1f s",
		f.runs, exited.Seconds(), last.Sub(stopped).Seconds())

	// If a run had waited until its lease expired, the service would have counted the worker as
	// dead.
	if deaths := f.c.number(t, "SELECT count(*) FROM open_runs WHERE deaths > 0"); deaths != 0 {
		t.Errorf("%d runs count the worker as dead", deaths)
	}
	for _, line := range []string{"leases expired", "their leases will expire"} {
		if strings.Contains(leaving.Output()+staying.Output(), line) {
			t.Errorf("a worker logged %q", line)
		}
	}
	f.finish(t, 2)
}

// TestChaosKilledWorkersRunsInFlight kills a worker while all of its slots are in use. Another
// worker must take over all runs when their leases have expired.
func TestChaosKilledWorkersRunsInFlight(t *testing.T) { //nolint:paralleltest // newInFlight calls t.Parallel
	nightly(t, "the leases of all runs must expire")
	f := newInFlight(t)
	killed := f.c.worker(t)
	f.fill(t, 0, f.runs)
	f.c.worker(t)

	killed.Kill9()
	gone := time.Now()
	last := f.awaitCalledAgain(t)
	t.Logf("%d runs: the last run was taken over %.1f s after the worker was killed", f.runs, last.Sub(gone).Seconds())
	if deaths := f.c.number(t, "SELECT count(*) FROM open_runs WHERE deaths = 1"); deaths != f.runs {
		t.Errorf("%d of %d runs count one death of a worker", deaths, f.runs)
	}
	f.finish(t, 2)
}

// TestRunsInFlightAreCancelled cancels all runs in flight, half of them by requests and half of them
// by closing the connections of their readers. Meanwhile, another organization uses the service.
func TestRunsInFlightAreCancelled(t *testing.T) { //nolint:paralleltest // newInFlight calls t.Parallel
	f := newInFlight(t)
	f.c.worker(t)
	beside := &load{post: func(ctx context.Context, caller, n int) api.Answer {
		return f.neighbour.post(ctx, trigger{message: fmt.Sprintf("%s %d-%d", quick, caller, n)})
	}}
	beside.start(t, 2)
	beside.await(t, 1)

	f.fill(t, 0, f.runs/2)
	reading, leave := context.WithCancel(t.Context())
	defer leave()
	reader := persistentClient(t, f.runs)
	for n := f.runs / 2; n < f.runs; n++ {
		message := map[string]string{"role": "user", "content": heldMessage(n)}
		body := map[string]any{"model": f.owner.agent, "stream": true, "messages": []any{message}}
		go api.SendBy(reading, reader, http.MethodPost, f.in.url+"/v1/chat/completions", map[string]string{"x-api-key": f.owner.key}, body)
	}
	f.awaitInProgress(t, f.runs)
	steady := time.Now()
	beside.await(t, 20)

	began := time.Now()
	leave()
	each(len(f.ids), func(n int) {
		header := map[string]string{"x-api-key": f.owner.key}
		got := api.SendBy(t.Context(), f.owner.by, http.MethodPost, f.in.url+"/api/runs?id="+f.ids[n]+"&action=cancel", header, nil)
		if got.Status != http.StatusOK {
			t.Errorf("cancelling run %d: %d %s, %v", n, got.Status, got.Body, got.Err)
		}
	})
	f.awaitInProgress(t, 0)
	closed := time.Since(began)
	f.awaitStatus(t, "cancelled", f.runs)
	cancelled := time.Since(began)

	beside.await(t, 2)
	var during, before []posted
	for _, p := range beside.end() {
		p.answer.Want(t, http.StatusOK)
		switch {
		case p.began.After(began) && p.began.Before(began.Add(cancelled)):
			during = append(during, p)
		case p.began.After(steady) && p.began.Before(began):
			before = append(before, p)
		}
	}
	t.Logf("%d runs: model calls closed after %.1f s, all runs cancelled after %.1f s", f.runs, closed.Seconds(), cancelled.Seconds())
	for name, calls := range map[string][]posted{"before": before, "meanwhile": during} {
		took := tookFor(calls)
		t.Logf("%d runs of another organization %s: p50 %s, p99 %s", len(calls), name,
			percentile(took, 0.5).Round(time.Millisecond), percentile(took, 0.99).Round(time.Millisecond))
	}
}

// TestQueuedRunsStartWhenSlotsAreFree queues further runs while all slots are in use. The queued
// runs must start in their order when other runs finish. Runs beyond the limit of the queue must be
// rejected.
func TestQueuedRunsStartWhenSlotsAreFree(t *testing.T) { //nolint:paralleltest // newInFlight calls t.Parallel
	const part = 5 // the number of slots is this multiple of the queue's limit
	queued := inFlightLong / part
	if testing.Short() {
		queued = inFlightShort / part
	}
	f := newInFlight(t, "BACKLOG_MAX="+strconv.Itoa(4*queued)) // one organization may use a quarter of the backlog
	f.c.worker(t)
	for n := 0; n < f.runs; n += queued / 2 { // runs also count as queued until a worker claims them
		f.fill(t, n, n+queued/2)
	}

	// One client sends the requests, so the runs are queued in the order of their numbers.
	for n := range queued {
		f.enqueue(t, f.runs+n)
	}
	// The service counts the queue at intervals, so it may accept a few runs beyond the limit.
	var refused api.Answer
	eventually(t, 30*time.Second, "a run beyond the limit is rejected", func() bool {
		refused = f.owner.post(t.Context(), trigger{message: heldMessage(len(f.ids)), prefer: "respond-async"})
		if refused.Status == http.StatusAccepted {
			f.ids = append(f.ids, refused.Run(t).ID)
		}
		return refused.Status != http.StatusAccepted
	})
	refused.Refused(t, http.StatusServiceUnavailable, "overloaded")
	beyond := len(f.ids) - f.runs - queued

	began, started := time.Now(), f.runs
	for step := range part {
		freed := min(queued/part, len(f.ids)-started)
		f.model.release(f.model.since(step * freed)[:freed]...)
		started += freed
		// The requests of two runs that a worker claims together can reach the model in either order.
		eventually(t, inFlightWithin, fmt.Sprintf("the runs below %d start, and no run before its predecessors", started), func() bool {
			messages := sorted(f.model.since(f.runs))
			for i, message := range messages {
				if message != heldMessage(f.runs+i) {
					return false
				}
			}
			return len(messages) >= started-f.runs
		})
		if n := f.model.inProgress(); n > f.runs+queuedb.Reserve(f.runs) {
			t.Errorf("%d runs in flight with %d slots", n, f.runs)
		}
	}
	t.Logf("%d runs in flight: %d queued runs started within %.1f s; %d runs beyond the limit were accepted",
		f.runs, queued, time.Since(began).Seconds(), beyond)
	f.finish(t, 1)
}

func sorted(messages []string) []string {
	slices.Sort(messages)
	return messages
}
