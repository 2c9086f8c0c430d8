package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit"
)

const (
	// rollingGrace is the time for which a stopping ingress continues to serve requests.
	// balancerAsks is the interval of the balancer's readiness checks.
	rollingGrace = 2 * time.Second
	balancerAsks = 100 * time.Millisecond
	// balancerPatience is the time for which the balancer relies on a response of /readyz. It is
	// also the timeout of a check: an ingress that responds later counts as not ready.
	balancerPatience = rollingGrace / 2
	// balancerConns is the number of persistent connections to one ingress.
	balancerConns = 16
	// balancerHolds is the time for which the balancer holds a request while no ingress is ready.
	balancerHolds = 30 * time.Second
)

// balancer sends each request to the next ready ingress, and holds requests while no ingress is
// ready. It reuses its connections, never retries a request, and detects restarts only through
// /readyz.
type balancer struct {
	by *http.Client

	mu    sync.Mutex
	edges []*edge
	asked map[*edge]time.Time // by ingress that was ready in its latest check; the time at which this check began
	turn  int
}

func newBalancer(t *testing.T, edges ...*edge) *balancer {
	t.Helper()
	b := &balancer{by: persistentClient(t, balancerConns), edges: edges, asked: map[*edge]time.Time{}}
	for _, e := range edges {
		go b.watch(t.Context(), e)
		b.await(t, e)
	}
	return b
}

// watch polls an ingress's /readyz until ctx ends.
func (b *balancer) watch(ctx context.Context, e *edge) {
	tick := time.NewTicker(balancerAsks)
	defer tick.Stop()

	for {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, balancerPatience)
		got := api.Send(asking, http.MethodGet, e.url+"/readyz", nil, nil)
		cancel()
		b.mu.Lock()
		if b.asked[e] = began; got.Check(http.StatusOK) != nil {
			delete(b.asked, e)
		}
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// await waits until the balancer has found an ingress ready.
func (b *balancer) await(t *testing.T, e *edge) {
	t.Helper()
	eventually(t, 30*time.Second, "the balancer finds an ingress ready", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.ready(e)
	})
}

// ready reports whether an ingress has recently reported that it is ready. The caller must hold
// b.mu.
func (b *balancer) ready(e *edge) bool { return time.Since(b.asked[e]) < balancerPatience }

// post sends an account's trigger to the next ready ingress. The returned answer contains an error
// if no ingress becomes ready in time.
func (b *balancer) post(ctx context.Context, of account, tr trigger) api.Answer {
	to := b.next()
	for began := time.Now(); to == nil; to = b.next() { // no ingress is ready if one ingress responds slowly while the other one restarts
		if time.Since(began) > balancerHolds {
			return api.Answer{Err: fmt.Errorf("no ingress is ready for %q", tr.message)}
		}
		<-time.After(balancerAsks)
	}
	of = of.at(to)
	of.by = b.by
	return of.post(ctx, tr)
}

// next returns the next ready ingress, or nil.
func (b *balancer) next() *edge {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.edges {
		b.turn++
		if e := b.edges[b.turn%len(b.edges)]; b.ready(e) {
			return e
		}
	}
	return nil
}

// rollingService contains a service whose processes are restarted, and the responses to the
// triggers that callers send meanwhile.
type rollingService struct {
	*balancer
	cluster   *cluster
	receiver  *till
	echo, pay account

	kept    sync.Mutex
	phase   string
	answers map[trigger]api.Answer
	failed  []string
	waited  int // responses with 202
}

func newRolling(t *testing.T) *rollingService {
	t.Helper()
	receiver := newTill(t)
	c := newCluster(t, "OUTBOUND_ALLOW="+receiver.host, "LIMIT_USER=500000", "LIMIT_SYSTEM=600000", "STOP_GRACE="+rollingGrace.String())
	c.model.follow(kit.Pays)
	r := &rollingService{cluster: c, receiver: receiver, answers: map[trigger]api.Answer{}}
	r.balancer = newBalancer(t, c.ingress(t), c.ingress(t))
	r.echo = signUp(t, r.edges[0].url)
	r.pay = r.echo.paying(t, receiver.url, nil)
	return r
}

// client posts triggers until ctx ends. The triggers' runs are short, and every fifth run calls an
// unsafe tool. The first client's runs are longer than an ingress's grace period, so they outlast
// the ingress that accepted them.
func (r *rollingService) client(ctx context.Context, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		text := fmt.Sprintf("%d-%d", n, i)
		of, tr := r.echo, trigger{message: "sleep 100ms: " + text, key: text}
		switch {
		case n == 0:
			tr.message = "sleep 3s: " + text
		case i%5 == 0:
			of, tr.message = r.pay, bill{"payOnce", text}.message()
		}
		r.keep(tr, r.post(context.WithoutCancel(ctx), of, tr))
	}
}

func (r *rollingService) keep(tr trigger, got api.Answer) {
	r.kept.Lock()
	defer r.kept.Unlock()
	r.answers[tr] = got
	switch {
	case got.Err != nil || got.Status != http.StatusOK && got.Status != http.StatusAccepted:
		r.failed = append(r.failed, fmt.Sprintf("%s: %s: status %d, error %v: %s", r.phase, tr.message, got.Status, got.Err, got.Body))
	case got.Status == http.StatusAccepted:
		r.waited++
	}
}

// await waits until the given number of further responses have arrived. It fails the test if a
// trigger has failed.
func (r *rollingService) await(t *testing.T, phase string, more int) {
	t.Helper()
	count := func() int {
		r.kept.Lock()
		defer r.kept.Unlock()
		r.phase = phase
		for _, failed := range r.failed {
			t.Fatal(failed)
		}
		return len(r.answers)
	}
	had := count()
	eventually(t, api.Timeout, strconv.Itoa(more)+" more responses, "+phase, func() bool { return count() >= had+more })
}

// check compares the responses with the runs in the database, the calls of the model and the
// effects in the receiver.
func (r *rollingService) check(t *testing.T) {
	t.Helper()
	for _, failed := range r.failed {
		t.Error(failed)
	}

	calls, paid := r.cluster.model.tally(), r.receiver.Tally()
	for tr, got := range r.answers {
		if got.Status == http.StatusAccepted {
			got = r.echo.at(r.edges[0]).result(t, got.Run(t).ID, api.Timeout)
		}
		done := got.Run(t)
		if done.Status != "completed" || done.Output == nil {
			t.Errorf("%s: %s", tr.message, got.Body)
			continue
		}
		if n, _ := fmt.Sscanf(tr.message, "pay payOnce %s", new(string)); n == 1 {
			if paid["payOnce-"+tr.key] != 1 {
				t.Errorf("%s: %d effects", tr.message, paid["payOnce-"+tr.key])
			}
		} else if done.Output.Message != echoed(tr.key) || calls[tr.message] != 1 || done.Attempts != 1 {
			t.Errorf("%s: %d model calls: %s", tr.message, calls[tr.message], got.Body)
		}
	}

	c := r.cluster
	if rows, open := c.number(t, "SELECT count(*) FROM runs"), c.number(t, "SELECT count(*) FROM open_runs"); rows != len(r.answers) || open != 0 {
		t.Errorf("%d runs, %d of them open, for %d keys", rows, open, len(r.answers))
	}
}

// tally returns the number of model calls for each prompt.
func (l *ledger) tally() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := map[string]int{}
	for _, c := range l.calls {
		calls[c.prompt]++
	}
	return calls
}

// TestHundredRollingRestartsUnderLoad restarts ingresses and workers in turn while callers send
// triggers through a balancer. No trigger may fail, and each must be executed once.
func TestHundredRollingRestartsUnderLoad(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	rollingRestarts(t, 100, 6)
}

// rollingRestarts restarts the processes one by one, while each caller posts one trigger after the
// other.
func rollingRestarts(t *testing.T, restarts, callers int) {
	t.Helper()
	r := newRolling(t)
	workers := []*testkit.Process{r.cluster.worker(t), r.cluster.worker(t)}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for n := range callers {
		clients.Go(func() { r.client(ctx, n) })
	}

	r.await(t, "before all restarts", 20)
	began := time.Now()
	for n := range restarts {
		phase := fmt.Sprintf("restart %d", n+1)
		if n%2 == 0 {
			in := r.edges[n/2%2]
			endsWell(t, in.Process)
			in.Restart()
			r.balancer.await(t, in)
		} else {
			worker := workers[n/2%2]
			endsWell(t, worker)
			worker.Restart()
		}
		r.await(t, phase, 5)
	}

	took := time.Since(began)
	stop()
	clients.Wait()
	r.check(t)
	t.Logf("%d restarts in %s: %d calls, %d failed, %d got status 202", restarts, took.Round(time.Second), len(r.answers), len(r.failed), r.waited)
}
