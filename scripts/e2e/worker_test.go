package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
)

// lease is the duration of a worker's lease on a run. Another worker takes over a dead worker's run
// after this time.
const lease = 30 * time.Second

// TestChaosWorkerKilledMidRun kills a worker during a run. Another worker must execute the run
// again after the lease has expired.
func TestChaosWorkerKilledMidRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	in := c.ingress(t)
	owner := signUp(t, in.url)
	// The model never answers the first call, so the worker can be killed during it. The model
	// answers the second call.
	asked := trigger{message: "fault hang*1: survived", key: "k"}
	victim := c.worker(t)
	waiting := owner.start(t.Context(), asked)
	c.model.awaitCalls(t, asked.message, 1)
	c.worker(t)
	killed := time.Now()
	victim.Kill9()

	got := awaitAnswer(t, waiting, lease+25*time.Second)
	got.completed(t, echoed("survived"), 2)
	if calls := c.model.count(asked.message); calls != 2 {
		t.Fatalf("%d model calls, want 2: one for each attempt", calls)
	}
	if again := owner.post(t.Context(), asked).replayed(t); !bytes.Equal(again.body, got.body) {
		t.Fatalf("the replay differs from the first response:\n%s\n%s", again.body, got.body)
	}

	owner.wantLostAttempt(t, got.run(t).ID, killed)
}

// wantLostAttempt checks the timeline of a completed run whose first worker was killed. It compares
// times that different processes recorded, because all of them use the clock of this machine.
func (a account) wantLostAttempt(t *testing.T, id string, killed time.Time) {
	t.Helper()
	type span struct {
		Kind, Status, Message string
		Attempt               int
		StartedAt, FinishedAt time.Time
	}

	var timeline struct{ Spans []span }
	got := a.get(t.Context(), "/api/runs?timeline=1&id="+id).want(t, http.StatusOK)
	got.into(t, &timeline)
	var attempts []span
	for _, s := range timeline.Spans {
		if s.Kind == "attempt" {
			attempts = append(attempts, s)
		}
		if s.FinishedAt.Before(s.StartedAt) {
			t.Fatalf("a span ends before it begins: %s", got.body)
		}
	}

	if len(attempts) != 2 {
		t.Fatalf("want two attempts: %s", got.body)
	}

	lost, kept := attempts[0], attempts[1]
	if lost.Status != "lost" || lost.Message != "the worker was lost" || kept.Status != "completed" || lost.Attempt != 1 || kept.Attempt != 2 {
		t.Fatalf("want an attempt that was lost and one that was completed: %s", got.body)
	}
	// The lost attempt ends when a sweeper finds that the lease has expired. The time from the kill
	// to this end is at most the sum of a lease's duration and a sweeper's interval.
	if !lost.StartedAt.Before(killed) || !lost.FinishedAt.After(killed) || lost.FinishedAt.After(killed.Add(lease+testkit.Within(15*time.Second))) ||
		kept.StartedAt.Before(lost.FinishedAt) || kept.FinishedAt.Sub(kept.StartedAt) > lease {
		t.Fatalf("the worker was killed at %s: %s", killed.UTC(), got.body)
	}
}

// TestChaosZombieWorkerWritesNothing freezes a worker until other workers have taken over its runs.
// When it continues, it must not change the runs.
func TestChaosZombieWorkerWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	in := c.ingress(t)
	owner := signUp(t, in.url)
	// When the frozen worker continues, it receives the answers to the first model calls of its two
	// runs. By then, another worker has finished one of the runs and is still executing the other
	// run.
	const ended, open = "ended meanwhile", "open still"
	c.model.answerAfter(ended, 10*time.Second, 0)
	c.model.answerAfter(open, 10*time.Second, 20*time.Second)
	zombie := c.worker(t)
	endedID := owner.enqueue(t, trigger{message: ended})
	openID := owner.enqueue(t, trigger{message: open})
	c.model.awaitCalls(t, ended, 1)
	c.model.awaitCalls(t, open, 1)
	zombie.Stop()
	c.worker(t)
	got := owner.result(t, endedID, lease+25*time.Second)
	got.completed(t, "answer 2", 2)
	c.model.awaitCalls(t, open, 2)
	rows := []string{rowFor(t, c, endedID), rowFor(t, c, openID)}

	zombie.Cont()
	for _, id := range []string{endedID, openID} {
		eventually(t, 12*time.Second, "the zombie notices that run "+id+" was taken over", func() bool {
			return saysTakenOver(zombie.Output(), id)
		})
	}

	for i, after := range []string{rowFor(t, c, endedID), rowFor(t, c, openID)} {
		if after != rows[i] {
			t.Fatalf("the zombie changed a run's row: %s, before: %s", after, rows[i])
		}
	}

	owner.result(t, openID, lease).completed(t, "answer 2", 2)
	if again := owner.result(t, endedID, lease); !bytes.Equal(again.body, got.body) {
		t.Fatalf("the result changed:\n%s\n%s", again.body, got.body)
	}

	for _, message := range []string{ended, open} {
		if calls := c.model.count(message); calls != 2 {
			t.Fatalf("%d model calls of %q, want 2", calls, message)
		}
	}

	if steps := c.number(t, "SELECT count(*) FROM steps WHERE fence = 1"); steps != 0 {
		t.Fatalf("the zombie wrote %d steps", steps)
	}
}

// rowFor returns a text that changes whenever a run's row in the database is written.
func rowFor(t *testing.T, c *cluster, id string) string {
	t.Helper()
	return c.text(t, "SELECT xmin::text || ' ' || r::text FROM runs r WHERE id = $1", id)
}

// saysTakenOver reports whether a worker's log contains that another worker has taken over the run.
func saysTakenOver(log, id string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, id) && strings.Contains(line, "taken over") {
			return true
		}
	}
	return false
}

// TestChaosPoisonRunFailsAfterFiveDeaths kills the worker in each attempt of a run. After five
// deaths, the run must fail instead of being executed again.
func TestChaosPoisonRunFailsAfterFiveDeaths(t *testing.T) {
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

	failed := owner.result(t, id, 20*time.Second).run(t)
	if failed.Status != "failed" || failed.Error == nil || failed.Error.Code != "worker_lost" || failed.Attempts != deaths {
		t.Fatalf("want a run failed with worker_lost after %d attempts: %+v", deaths, failed)
	}

	victim.Restart()
	owner.post(t.Context(), trigger{message: "alive"}).completed(t, echoed("alive"), 1)
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
	awaitAnswer(t, waiting, 20*time.Second).completed(t, echoed("finished"), 1)
	if err := worker.Wait(20 * time.Second); err != nil {
		t.Fatalf("the worker did not exit with 0: %v", err)
	}
	if calls := c.model.count(message); calls != 1 {
		t.Fatalf("%d model calls, want 1", calls)
	}
}

// TestStoppingWorkerRequeuesItsRun stops a worker during a long run. The worker must requeue the
// run, so that another worker executes it without waiting for the lease.
func TestStoppingWorkerRequeuesItsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	in := c.ingress(t)
	leaving := c.worker(t)
	owner := signUp(t, in.url)
	// The first model call never returns. A draining worker stops waiting for it and requeues the run.
	const message = "fault hang*1: handed on"
	waiting := owner.start(t.Context(), trigger{message: message})
	c.model.awaitCalls(t, message, 1)
	staying := c.worker(t)
	leaving.Term()
	stopped := time.Now()
	if err := leaving.Wait(60 * time.Second); err != nil {
		t.Fatalf("the worker did not exit with 0: %v", err)
	}

	awaitAnswer(t, waiting, 10*time.Second).completed(t, echoed("handed on"), 2)
	calls := c.model.of(message)
	if len(calls) != 2 {
		t.Fatalf("%d model calls, want 2", len(calls))
	}
	// Heartbeats during the drain extended the lease. A second model call before the end of the
	// original lease therefore shows that the run did not wait for the lease to expire.
	if took := calls[1].began.Sub(stopped); took > lease-2*time.Second {
		t.Fatalf("the second attempt began %s after the first worker began to stop: it waited for the lease", took)
	}
	// The service must not count a worker's death for a requeued run. The logs of the sweepers show
	// that no lease has expired.
	if strings.Contains(leaving.Output()+staying.Output(), "leases expired") {
		t.Fatal("the lease expired")
	}
}
