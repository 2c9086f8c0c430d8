package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

const (
	overloadSlots   = 16 // number of concurrent runs; each takes 200 ms, so the peak is 80 runs/s, and CPU time is left for rejections
	overloadBacklog = 100
	overloadTimes   = 10 // the offered load, as a multiple of the peak
	overloadRounds  = 3
	overloadKnown   = 20  // number of runs that finish before the overload and whose triggers are repeated
	overloadConns   = 512 // persistent connections of the callers
	// maxOverload is the maximum number of queued runs that the test may observe. It exceeds the
	// backlog, because the service may accept several runs between two counts of the queue.
	maxOverload = 3 * overloadBacklog
	// overloadMemory is the number of bytes by which a process may grow. It allows for the garbage
	// of thousands of requests per second.
	overloadMemory = 128 << 20
)

// overload is a service with few slots and more requests than it can execute.
type overload struct {
	cluster *cluster
	in      *edge
	worker  *testkit.Process
	owner   account
	known   map[trigger]api.Answer

	mu       sync.Mutex
	accepted map[string]trigger // by run
	refused  map[string]int     // number of rejections, by status
	wrong    []string
	replays  []time.Duration
}

// newOverload starts the service with a small backlog, and executes the runs whose triggers are
// repeated later.
func newOverload(t *testing.T) *overload {
	t.Helper()
	c := newCluster(t, "BACKLOG_MAX="+strconv.Itoa(4*overloadBacklog), "LIMIT_USER=5000000", "LIMIT_SYSTEM=6000000")
	o := &overload{
		cluster: c, in: c.ingress(t), worker: c.worker(t, "WORKER_CONCURRENCY="+strconv.Itoa(overloadSlots)),
		known: map[trigger]api.Answer{}, accepted: map[string]trigger{}, refused: map[string]int{},
	}

	o.owner = signUp(t, o.in.url)
	o.owner.by = persistentClient(t, overloadConns)
	for n := range overloadKnown {
		tr := trigger{message: "known " + strconv.Itoa(n), key: "known " + strconv.Itoa(n)}
		got := o.owner.post(t.Context(), tr)
		got.Completed(t, echoed(tr.message), 1)
		o.known[tr] = got
	}
	return o
}

// peak returns the number of runs that the service executes per second, while enough callers wait
// to keep all slots occupied.
func (o *overload) peak(t *testing.T, round int) float64 {
	t.Helper()
	l := &load{post: func(ctx context.Context, caller, n int) api.Answer {
		text := fmt.Sprintf("peak %d-%d-%d", round, caller, n)
		return o.owner.post(ctx, trigger{message: "sleep 200ms: " + text, key: text})
	}}

	l.start(t, 3*overloadSlots)
	l.await(t, 2*overloadSlots)
	began := time.Now()
	l.await(t, 12*overloadSlots)
	rate := o.carriedOut(began, time.Now())
	for _, p := range l.end() {
		r := p.answer.Want(t, http.StatusOK).Run(t)
		o.accepted[r.ID] = trigger{message: "sleep 200ms: " + fmt.Sprintf("peak %d-%d-%d", round, p.caller, p.n)}
	}
	return rate
}

// carriedOut returns the number of model calls per second that finished between two times.
func (o *overload) carriedOut(from, to time.Time) float64 {
	l := o.cluster.model
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := 0
	for _, c := range l.calls {
		if c.ended.After(from) && c.ended.Before(to) {
			ended++
		}
	}
	return float64(ended) / to.Sub(from).Seconds()
}

// offered contains the results of a load whose rate does not depend on responses.
type offered struct {
	rate    float64 // requests sent per second
	goodput float64
	ingress int64 // maximum observed memory of the ingress, in bytes
	worker  int64
	waiting int // maximum observed number of queued runs
}

// offer posts new triggers at a rate that does not depend on responses. Meanwhile it repeats known
// triggers.
func (o *overload) offer(t *testing.T, round int, rate float64, d time.Duration) offered {
	t.Helper()
	var calls sync.WaitGroup
	var sent, written atomic.Int64
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()

	calls.Go(func() { o.replay(ctx) })
	calls.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for due := int64(rate * time.Since(began).Seconds()); sent.Load() < due; {
				n := sent.Add(1)
				calls.Go(func() {
					o.offerOne(counting(context.WithoutCancel(ctx), &written), fmt.Sprintf("offered %d-%d", round, n), n%2 == 0)
				})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})

	var seen offered
	for ctx.Err() == nil {
		seen.ingress, seen.worker = max(seen.ingress, filled(t, o.in.Process)), max(seen.worker, filled(t, o.worker))
		seen.waiting = max(seen.waiting, o.cluster.number(t, "SELECT count(*) FROM open_runs WHERE status = 'queued'"))
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}

	took := time.Since(began)
	seen.rate, seen.goodput = float64(written.Load())/took.Seconds(), o.carriedOut(began.Add(d/6), began.Add(d))
	calls.Wait()
	return seen
}

// counting returns a context for requests. The counter written is incremented when a request with
// this context has been sent.
func counting(ctx context.Context, written *atomic.Int64) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(wrote httptrace.WroteRequestInfo) {
		if wrote.Err == nil {
			written.Add(1)
		}
	}})
}

// offerOne posts a trigger and records whether the service accepts or rejects it. Any other
// response is recorded as wrong.
func (o *overload) offerOne(ctx context.Context, text string, wait bool) {
	tr := trigger{message: "sleep 200ms: " + text, key: text}
	if !wait {
		tr.prefer = "respond-async"
	}

	got := o.owner.post(ctx, tr)
	o.mu.Lock()
	defer o.mu.Unlock()

	switch {
	case got.Err == nil && (got.Status == http.StatusOK || got.Status == http.StatusAccepted):
		o.accepted[runFor(got)] = tr
	case got.Err == nil && (got.Status == http.StatusTooManyRequests || got.Status == http.StatusServiceUnavailable) &&
		got.Header.Get("Retry-After") != "":
		o.refused[strconv.Itoa(got.Status)]++
	default:
		o.wrong = append(o.wrong, fmt.Sprintf("%s: answer %d %v %s: %v", text, got.Status, got.Header, got.Body, got.Err))
	}
}

// replay repeats known triggers until ctx ends. Each must get the stored response, byte for byte.
func (o *overload) replay(ctx context.Context) {
	for ctx.Err() == nil {
		for tr, before := range o.known {
			began := time.Now()
			got := o.owner.post(context.WithoutCancel(ctx), tr)
			o.mu.Lock()
			o.replays = append(o.replays, time.Since(began))
			if got.Status != http.StatusOK || !bytes.Equal(got.Body, before.Body) {
				o.wrong = append(o.wrong, fmt.Sprintf("%s: the replay is %d %s: %v", tr.key, got.Status, got.Body, got.Err))
			}
			o.mu.Unlock()
		}
	}
}

// TestOverloadKeepsGoodput offers ten times the load that the service can execute, in rounds.
// Between the rounds, it measures the service's peak rate. Under overload, the service must execute
// nearly as many runs per second as at its peak. It must reject the rest with Retry-After and store
// no data for them. Repeated triggers must still get their stored results.
func TestOverloadKeepsGoodput(t *testing.T) { //nolint:paralleltest // it measures throughput
	testkit.Long(t)
	least := bound(t, 0.8, 0.5)
	o := newOverload(t)
	var peaks, goodputs []float64
	before := offered{ingress: filled(t, o.in.Process), worker: filled(t, o.worker)}
	for round := range overloadRounds {
		peak := o.peak(t, round)
		seen := o.offer(t, round, overloadTimes*peak, 6*time.Second)
		peaks, goodputs = append(peaks, peak), append(goodputs, seen.goodput)
		t.Logf("peak %.0f/s; offered %.0f/s: %.0f/s executed, at most %d waiting; ingress %d MiB, worker %d MiB",
			peak, seen.rate, seen.goodput, seen.waiting, seen.ingress>>20, seen.worker>>20)
		if seen.rate < 0.8*overloadTimes*peak {
			t.Errorf("offered load = %.0f/s: the machine is too busy for a meaningful result", seen.rate)
		}
		if seen.waiting > maxOverload {
			t.Errorf("%d runs waited, limit %d", seen.waiting, overloadBacklog)
		}
		if seen.ingress > before.ingress+overloadMemory || seen.worker > before.worker+overloadMemory {
			t.Errorf("memory grew from %d to %d MiB in an ingress, and from %d to %d MiB in a worker",
				before.ingress>>20, seen.ingress>>20, before.worker>>20, seen.worker>>20)
		}
		eventually(t, api.Timeout, "all accepted runs end", func() bool { return o.cluster.number(t, "SELECT count(*) FROM open_runs") == 0 })
	}

	slices.Sort(peaks)
	slices.Sort(goodputs)
	peak, goodput := peaks[len(peaks)/2], goodputs[len(goodputs)/2]
	t.Logf("goodput is %.0f%% of the peak; %d accepted, refused %v; %d replays, p99 %s",
		100*goodput/peak, len(o.accepted), o.refused, len(o.replays), percentile(o.replays, 0.99).Round(time.Millisecond))
	if goodput < least*peak {
		t.Errorf("goodput = %.0f/s, at the peak %.0f/s", goodput, peak)
	}

	o.check(t)
}

// check verifies that every accepted run was executed once, and that no data of rejected triggers
// is stored.
func (o *overload) check(t *testing.T) {
	t.Helper()
	for _, wrong := range o.wrong[:min(len(o.wrong), 10)] {
		t.Error(wrong)
	}

	made, c := o.cluster.model.tally(), o.cluster
	for id, tr := range o.accepted {
		if made[tr.message] != 1 {
			t.Errorf("run %s: %d model calls of %q", id, made[tr.message], tr.message)
		}
	}

	completed := c.number(t, "SELECT count(*) FROM runs WHERE status = 'completed'")
	if rows := c.number(t, "SELECT count(*) FROM runs"); rows != len(o.accepted)+overloadKnown || completed != rows {
		t.Errorf("%d runs, %d of them completed; %d were accepted", rows, completed, len(o.accepted)+overloadKnown)
	}
	if len(o.refused) == 0 {
		t.Error("no request was refused, so the service was not overloaded")
	}
}
