package e2e

import (
	"testing"
	"time"
)

// lease is the duration of a worker's lease on a run. Another worker takes over a dead worker's run
// after this time.
const lease = 30 * time.Second

// TestChaosPoisonRunFailsAfterFiveDeaths kills the worker in each attempt of a run. After five
// deaths, the run must fail instead of being executed again.
func TestChaosPoisonRunFailsAfterFiveDeaths(t *testing.T) {
	nightly(t, "PostgreSQL must run for longer than a lease before deaths count")
	t.Parallel()
	const deaths = 5
	c := newCluster(t)
	in := c.ingress(t)
	c.worker(t, "ROLES=sweep")
	victim := c.worker(t, "ROLES=agent")
	owner := signUp(t, in.url)
	const message = "fault hang: poison"
	// The service counts no deaths until PostgreSQL has been running for the duration of a lease.
	// Before that, live workers may have been unable to renew their leases.
	eventually(t, lease+10*time.Second, "PostgreSQL has been up for longer than a lease", func() bool {
		return c.text(t, "SELECT pg_postmaster_start_time() < clock_timestamp() - interval '30 seconds'") == "true"
	})

	id := owner.enqueue(t, trigger{message: message})
	for n := 1; n <= deaths; n++ {
		c.model.awaitCalls(t, message, n)
		victim.Kill9()
		// Waiting for five leases to expire would take two and a half minutes. So the test makes
		// this lease expire immediately.
		if _, err := c.db.ExecContext(t.Context(), "UPDATE open_runs SET lease_until = clock_timestamp() WHERE run_id = $1", id); err != nil {
			t.Fatal(err)
		}
		if n < deaths {
			victim.Restart()
		}
	}

	failed := owner.result(t, id, 20*time.Second).Run(t)
	if failed.Status != "failed" || failed.Error == nil || failed.Error.Code != "worker_lost" || failed.Attempts != deaths {
		t.Fatalf("want a run failed with worker_lost after %d attempts: %+v", deaths, failed)
	}

	victim.Restart()
	owner.post(t.Context(), trigger{message: "alive"}).Completed(t, echoed("alive"), 1)
	if calls := c.model.count(message); calls != deaths {
		t.Fatalf("%d model calls of the poison run, want %d", calls, deaths)
	}
}

// TestStoppingWorkerFinishesItsRun stops a worker during a short run. The worker must finish the
// run before it exits.
func TestStoppingWorkerFinishesItsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url)
	const message = "sleep 4s: finished"
	waiting := owner.start(t.Context(), trigger{message: message})
	c.model.awaitCalls(t, message, 1)
	worker.Term()
	awaitAnswer(t, waiting, 20*time.Second).Completed(t, echoed("finished"), 1)
	if err := worker.Wait(20 * time.Second); err != nil {
		t.Fatalf("the worker did not exit with 0: %v", err)
	}
	if calls := c.model.count(message); calls != 1 {
		t.Fatalf("%d model calls, want 1", calls)
	}
}
