package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/scripts/internal/api"
	"parley/shared/contract"
	"parley/shared/testkit"
)

const (
	// natsPause is the maximum time that a caller may wait for a response while one of three
	// servers is lost. The other servers elect a leader within 9 s, and lost job messages are
	// published again. The remaining time allows for a busy machine.
	natsPause   = 30 * time.Second
	natsCallers = 4
)

// threefold is a service on three NATS servers, with callers that send triggers to it.
type threefold struct {
	cluster *cluster
	servers []*testkit.NATSServer
	owner   account
	load    *load
}

// newThreefold starts the servers, two ingresses and the workers, and returns when the callers have
// received their first responses.
func newThreefold(t *testing.T) *threefold {
	t.Helper()
	servers := busCluster(t)
	c := newClusterOn(t, &testkit.NATSServer{Process: servers[0].Process, URL: busURL("ingress", servers...)}, sandboxed,
		"NATS_REPLICAS=3", "LIMIT_USER=500000", "LIMIT_SYSTEM=600000")
	edges := []*edge{c.ingress(t), c.ingress(t)}
	c.startWorkers(t, nil, servers...)
	f := &threefold{cluster: c, servers: servers, owner: signUp(t, edges[0].url)}
	f.load = &load{post: func(ctx context.Context, caller, n int) api.Answer {
		return f.owner.at(edges[(caller+n)%len(edges)]).post(ctx, threefoldTrigger(caller, n))
	}}

	leads(t, servers)
	f.load.start(t, natsCallers)
	f.load.await(t, 20)
	return f
}

func threefoldTrigger(caller, n int) trigger {
	text := fmt.Sprintf("%d-%d", caller, n)
	return trigger{message: "sleep 200ms: " + text, key: text}
}

// lose kills a server. It returns after the callers have received several responses without that
// server.
func (f *threefold) lose(t *testing.T, server int, what string) {
	t.Helper()
	began := time.Now()
	f.servers[server].Kill9()
	// The callers wait for one response at a time. After this number of responses, all triggers in
	// progress were sent after the kill.
	f.load.await(t, 5*natsCallers)
	t.Logf("nats-%d, %s, is lost: 20 responses within %s", server, what, time.Since(began).Round(time.Millisecond))
}

// check compares the callers' responses with the runs in the database and the calls of the model.
func (f *threefold) check(t *testing.T) {
	t.Helper()
	calls, made := f.load.end(), f.cluster.model.tally()
	for _, p := range calls {
		tr := threefoldTrigger(p.caller, p.n)
		p.answer.Completed(t, echoed(tr.key), 1)
		if made[tr.message] != 1 {
			t.Errorf("%s: %d model calls", tr.message, made[tr.message])
		}
		if p.took > testkit.Scaled(natsPause) {
			t.Errorf("%s got its response after %s", tr.message, p.took)
		}
	}

	c, took := f.cluster, tookFor(calls)
	if rows, open := c.number(t, "SELECT count(*) FROM runs"), c.number(t, "SELECT count(*) FROM open_runs"); rows != len(calls) || open != 0 {
		t.Errorf("%d runs, %d of them open, for %d keys", rows, open, len(calls))
	}

	wantNoRefusals(t, f.servers...)
	t.Logf("%d calls, each with a run of 200 ms: p50 %s, p99 %s, the longest %s", len(calls), percentile(took, 0.5).Round(time.Millisecond),
		percentile(took, 0.99).Round(time.Millisecond), percentile(took, 1).Round(time.Millisecond))
}

// TestChaosNATSClusterLosesEachServer kills each of three NATS servers in turn, the stream's leader
// first, and restarts it. Finally, it kills one server permanently. New ingresses and workers must
// then still start.
func TestChaosNATSClusterLosesEachServer(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	f := newThreefold(t)
	for lost := []int{}; len(lost) < len(f.servers); {
		leader, victim, what := leads(t, f.servers), 0, "which follows"
		for slices.Contains(lost, victim) || len(lost) == 1 && victim == leader {
			victim++
		}
		if len(lost) == 0 || victim == leader {
			victim, what = leader, "which leads"
		}
		f.lose(t, victim, what)
		f.servers[victim].Restart()
		lost = append(lost, victim)
	}

	leader := leads(t, f.servers)
	f.lose(t, leader, "which leads, for good")
	late := f.owner.at(f.cluster.ingress(t))
	f.cluster.worker(t, "ROLES=agent", "NATS_URL="+busURL("agent", f.servers...))
	late.post(t.Context(), threefoldTrigger(natsCallers, 0)).Completed(t, echoed(threefoldTrigger(natsCallers, 0).key), 1)
	late.post(t.Context(), threefoldTrigger(natsCallers, 0)).Replayed(t).Want(t, http.StatusOK)
	f.load.mu.Lock()
	f.load.calls = append(f.load.calls, posted{caller: natsCallers, answer: late.post(t.Context(), threefoldTrigger(natsCallers, 0))})
	f.load.mu.Unlock()
	f.check(t)
}

// busCluster starts a cluster of three NATS servers.
func busCluster(t *testing.T) (servers []*testkit.NATSServer) {
	t.Helper()
	var ports, routes []string
	for range 3 {
		port := strconv.Itoa(testkit.FreePort(t))
		ports = append(ports, port)
		routes = append(routes, "nats-route://routes:passroutes@127.0.0.1:"+port)
	}
	for n, port := range ports {
		env := append(busSecrets(), "NATS_NAME=nats-"+strconv.Itoa(n), "NATS_ROUTES=["+strings.Join(routes, ", ")+"]")
		servers = append(servers, testkit.NATSWith(t, busConfig(t, "cluster.conf"), env, "--cluster", "nats://routes:passroutes@127.0.0.1:"+port))
	}
	return servers
}

// leads waits until the stream has three replicas, and returns its leader.
func leads(t *testing.T, servers []*testkit.NATSServer) (leader int) {
	t.Helper()
	js := testkit.JetStream(t, busURL("operator", servers...), nats.CustomInboxPrefix("_INBOX.operator"))

	eventually(t, 30*time.Second, "the stream is on three servers", func() bool {
		stream, err := js.Stream(t.Context(), contract.StreamJobs)
		if err != nil {
			return false
		}
		info := stream.CachedInfo()
		if info.Config.Replicas != 3 || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
			return false
		}
		leader, err = strconv.Atoi(strings.TrimPrefix(info.Cluster.Leader, "nats-"))
		return err == nil && !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
	})
	return leader
}
