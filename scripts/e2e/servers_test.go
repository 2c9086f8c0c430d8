package e2e

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/scripts/internal/api"
	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit/openaistub"
)

// TestChaosPostgresDownForLongerThanALease stops the database until a run's lease has expired. The
// run must then be executed again. The expired lease must not count as the death of a worker.
func TestChaosPostgresDownForLongerThanALease(t *testing.T) {
	nightly(t, "the outage lasts longer than a lease")
	t.Parallel()
	c := newCluster(t)
	in := c.ingress(t)
	holder := c.worker(t)
	owner := signUp(t, in.url)
	const message = "outage"
	c.model.answerAfter(message, time.Minute, 5*time.Second)
	id := owner.enqueue(t, trigger{message: message})
	c.model.awaitCalls(t, message, 1)
	c.worker(t)
	c.postgres.Kill9()
	eventually(t, lease+30*time.Second, "the worker gives up the run whose lease it could not renew", func() bool {
		return strings.Contains(holder.Output(), "requeueing run failed")
	})

	c.postgres.Restart()
	c.model.awaitCalls(t, message, 2)
	// Both workers were running all the time. The outage of the database must not count as the
	// death of the run's worker.
	if deaths := c.number(t, "SELECT deaths FROM open_runs WHERE run_id = $1", id); deaths != 0 {
		t.Errorf("the outage was counted as %d deaths of workers", deaths)
	}

	owner.result(t, id, 30*time.Second).Completed(t, "answer 2", 2)
}

// TestChaosNATSAwayWhenAToolIsCalled stops the bus before a run calls a tool. The model must not
// get an error that the tool is unavailable. Instead, the worker must make the call when the bus is
// available again.
func TestChaosNATSAwayWhenAToolIsCalled(t *testing.T) {
	t.Parallel()
	receiver := newTill(t)
	c := newCluster(t, "OUTBOUND_ALLOW="+receiver.host)
	var away atomic.Bool
	c.model.follow(func(req openaistub.Request) (openaistub.Reply, bool) {
		reply, known := kit.Pays(req)
		if !away.Load() {
			reply.Delay = 10 * time.Second // long enough to kill the server while both runs are in this call
		}
		return reply, known
	})

	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url).paying(t, receiver.url, nil)
	runs := map[bill]string{}
	for _, tool := range []string{"payOnce", "payByKey"} {
		b := bill{tool, "free"}
		runs[b] = owner.enqueue(t, trigger{message: b.message(), key: b.name()})
		c.model.awaitCalls(t, b.message(), 1)
	}

	c.nats.Kill9()
	away.Store(true)
	eventually(t, 60*time.Second, "the worker gives up both attempts", func() bool {
		return strings.Count(worker.Output(), "attempt failed") >= len(runs)
	})

	c.nats.Restart()
	for b, id := range runs {
		var r api.Run
		owner.result(t, id, 40*time.Second).Into(t, &r)
		effects, _ := receiver.Of(b.name())
		if r.Status != "completed" || !strings.Contains(r.Message, `"paid":true`) || r.Attempts < 2 || len(effects) != 1 {
			t.Errorf("%s: %d effects; %+v", b.name(), len(effects), r)
		}
	}
}
