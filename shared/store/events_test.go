package store_test

import (
	"fmt"
	"reflect"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

func (b *testEnv) save(want bool, held lease.Held, chunks ...executiondb.Chunk) {
	b.Helper()
	checkpoints := make([]executiondb.Checkpoint, len(chunks))
	for i, c := range chunks {
		checkpoints[i] = executiondb.Checkpoint{Held: held, Chunk: c}
	}
	kept, err := b.s.Executions.SaveEvents(b.Context(), checkpoints)
	if err != nil || kept.Saved[held.RunID] != want {
		b.Fatalf("saving %v: %v, %v; want held %v", chunks, kept, err, want)
	}
}

func (b *testEnv) log(runID string, fence int64, n int) *executiondb.EventLog {
	b.Helper()
	logs, err := b.s.Executions.EventLogs(b.Context(), []executiondb.EventLogRequest{{RunID: runID, OrganizationID: b.org, AfterFence: fence, AfterN: n}})
	if err != nil {
		b.Fatal(err)
	}
	return logs[0]
}

func (b *testEnv) wantChunks(what string, log *executiondb.EventLog, fence int64, want ...executiondb.Chunk) {
	b.Helper()
	if log == nil || log.Fence != fence || fmt.Sprint(log.Chunks) != fmt.Sprint(want) {
		b.Errorf("%s: log %+v; want fence %d, chunks %v", what, log, fence, want)
	}
}

func chunk(first, last int) executiondb.Chunk {
	c := executiondb.Chunk{FirstN: first, LastN: last}
	for n := first; n <= last; n++ {
		c.Events += fmt.Sprintf("message.delta {\"text\":\"%d, \\\"ä\\\"\"}\n", n)
	}
	return c
}

func (b *testEnv) endWith(c *executiondb.Claimed, events executiondb.Chunk, endN int) executiondb.Finished {
	b.Helper()
	run, answer := c.Run(), "x"
	run.Message, run.Output = &answer, &domain.Output{Message: answer}
	run.End(domain.RunCompleted, nil, domain.At(c.Now), c.RetentionSecs)
	outcome, err := executiondb.NewOutcome(c.Held(), run)
	if err != nil {
		b.Fatal(err)
	}
	outcome.Events, outcome.EndN = events, endN
	out, err := b.s.Executions.Finish(b.Context(), []executiondb.Outcome{outcome})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// requeueAndClaim requeues a run as the sweeper does when its worker is lost, and claims it
// for another worker.
func (b *testEnv) requeueAndClaim(runID string) *executiondb.Claimed {
	b.Helper()
	b.exec(`UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL, fence = fence + 1, deaths = deaths + 1 WHERE run_id = $1`, runID)
	return b.mustClaim(runID)
}

func TestEventLogGrowsByCheckpointsAndEndsWithTheRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	if log := b.log(runID, 0, 0); log == nil || log.EndFence != 0 || log.Run.Run.StartedAt != nil || log.Run.Run.CreatedAt.IsZero() {
		t.Errorf("log of a queued run %+v", log)
	}
	c := b.mustClaim(runID)
	b.save(true, c.Held(), chunk(2, 3))
	b.save(true, c.Held(), chunk(2, 3)) // as if the reply to the checkpoint had been lost
	b.save(true, c.Held(), chunk(4, 6))
	b.save(true, c.Held(), chunk(7, 7), chunk(8, 9))
	b.save(true, c.Held(), chunk(8, 10)) // as if another reply had been lost and more events had been added in the meantime
	log := b.log(runID, 0, 0)
	b.wantChunks("while it runs", log, 1, chunk(2, 3), chunk(4, 6), chunk(7, 7), chunk(8, 10))
	if log.Run.Run.Status != domain.RunRunning || log.Run.Run.StartedAt == nil || log.EndFence != 0 {
		t.Errorf("running %+v", log)
	}
	b.wantChunks("behind 1.6", b.log(runID, 1, 6), 1, chunk(7, 7), chunk(8, 10))
	b.wantChunks("behind 1.8", b.log(runID, 1, 8), 1, chunk(8, 10))
	b.wantChunks("behind 1.10", b.log(runID, 1, 10), 1)

	if !b.endWith(c, chunk(8, 12), 13).Saved[runID] { // a checkpoint whose reply was lost has already stored some of these events
		t.Fatal("not saved")
	}
	ended := b.log(runID, 1, 3)
	b.wantChunks("ended", ended, 1, chunk(4, 6), chunk(7, 7), chunk(8, 12))
	if ended.EndFence != 1 || ended.EndN != 13 || len(resultFor(ended.Run)) == 0 || !reflect.DeepEqual(ended.Run.Run.StartedAt, log.Run.Run.StartedAt) {
		t.Errorf("ended %+v; started %v", ended, log.Run.Run.StartedAt)
	}
	b.save(false, c.Held(), chunk(13, 13))
	b.wantChunks("after the end", b.log(runID, 1, 3), 1, chunk(4, 6), chunk(7, 7), chunk(8, 12))
}

func TestOnlyTheHolderWritesEvents(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	out := b.accept(wideWindow, b.run("", ""), b.run("", ""))
	runID, other := out[0].Run.Run.ID, out[1].Run.Run.ID
	old, neighbour := b.mustClaim(runID), b.mustClaim(other)
	b.save(true, old.Held(), chunk(2, 5))
	taken := b.requeueAndClaim(runID)
	kept, err := b.s.Executions.SaveEvents(t.Context(), []executiondb.Checkpoint{
		{Held: old.Held(), Chunk: chunk(6, 7)}, {Held: neighbour.Held(), Chunk: chunk(2, 2)},
	})
	if err != nil || kept.Saved[runID] || !kept.Saved[other] {
		t.Errorf("held %v, %v", kept, err)
	}
	b.wantChunks("before the second attempt says anything", b.log(runID, 1, 3), 1, chunk(2, 5))
	b.save(true, taken.Held(), chunk(1, 2))
	b.wantChunks("of the second attempt", b.log(runID, 1, 5), taken.Fence, chunk(1, 2))
	if b.endWith(old, chunk(6, 8), 9).Saved[runID] {
		t.Error("the old worker ended the run")
	}
	b.wantChunks("after the old worker's end", b.log(runID, 0, 0), taken.Fence, chunk(1, 2))
	if !b.endWith(taken, executiondb.Chunk{}, 3).Saved[runID] {
		t.Error("the holder could not end the run")
	}
	if log := b.log(runID, taken.Fence, 3); log.EndFence != taken.Fence || log.EndN != 3 || len(log.Chunks) != 0 {
		t.Errorf("ended %+v", log)
	}
}

func TestAnEndFromOutsideComesAfterAllThatWasSeen(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	out := b.accept(wideWindow, b.run("", ""), b.run("", ""), b.run("", ""))
	running, queued, late := out[0].Run.Run.ID, out[1].Run.Run.ID, out[2].Run.Run.ID
	c := b.mustClaim(running)
	b.save(true, c.Held(), chunk(2, 3))
	for _, runID := range []string{running, queued} {
		if _, ended, err := b.s.Executions.Cancel(t.Context(), b.org, "", runID); err != nil || len(ended) != 1 {
			t.Fatalf("cancelling: %v, %v", ended, err)
		}
	}
	b.mustClaim(late)
	b.exec(`UPDATE open_runs SET deadline = clock_timestamp()`)
	if ended, err := b.s.Executions.EndOverdue(t.Context(), 10); err != nil || len(ended) != 1 {
		t.Fatalf("overdue: %v, %v", ended, err)
	}
	for runID, fence := range map[string]int64{running: 2, queued: 1, late: 2} {
		log := b.log(runID, 0, 0)
		if log.EndFence != fence || log.EndN != 1 || (log.Run.Run.StartedAt == nil) != (runID == queued) {
			t.Errorf("log %+v; want its end at %d.1", log, fence)
		}
	}
	b.wantChunks("what the worker had published stays", b.log(running, 0, 0), 1, chunk(2, 3))
}

func TestAChunkThatIsRejectedSparesItsNeighbours(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var checkpoints []executiondb.Checkpoint
	for _, accepted := range b.accept(wideWindow, b.run("", ""), b.run("", ""), b.run("", ""), b.run("", ""), b.run("", "")) {
		checkpoints = append(checkpoints, executiondb.Checkpoint{Held: b.mustClaim(accepted.Run.Run.ID).Held(), Chunk: chunk(2, 3)})
	}
	broken := checkpoints[1].RunID
	checkpoints[1].Events = "message.delta {\"text\":\"\x00\"}\n"
	checkpoints[4].Fence++ // the worker no longer holds this run
	done, err := b.s.Executions.SaveEvents(t.Context(), checkpoints)
	if err != nil || len(done.Rejected) != 1 || done.Rejected[broken] == nil || len(done.Locked) != 0 {
		t.Fatalf("saved %+v, %v", done, err)
	}
	for i, c := range checkpoints {
		if done.Saved[c.RunID] != (i != 1 && i != 4) {
			t.Errorf("%d: saved %v", i, done.Saved[c.RunID])
		}
		if i != 1 && i != 4 {
			b.wantChunks("a neighbour", b.log(c.RunID, 0, 0), 1, chunk(2, 3))
		}
	}
	b.wantChunks("the rejected", b.log(broken, 0, 0), 0)
}

// During a rollout, a worker of this release publishes events, and a process of the previous
// release ends the run.
func TestAnOlderBinarysEndComesAfterTheSentEvents(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	b.save(true, b.mustClaim(runID).Held(), chunk(2, 4))
	b.endWith(b.requeueAndClaim(runID), executiondb.Chunk{}, 3)
	b.exec(`UPDATE runs SET started_at = NULL, end_fence = NULL, end_n = NULL WHERE id = $1`, runID)
	for _, after := range []int{0, 3, 4} {
		if log := b.log(runID, 1, after); log.Fence != 1 || log.EndFence != 2 || log.EndN != 1 {
			t.Errorf("after 1.%d: %+v; want its end at 2.1", after, log)
		}
	}
}

func TestEventLogsOfManyRuns(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	out := b.accept(wideWindow, b.run("", ""), b.run("", ""), b.run("", ""))
	ids := []string{out[0].Run.Run.ID, out[1].Run.Run.ID, out[2].Run.Run.ID}
	old := b.mustClaim(ids[0])
	b.endWith(old, executiondb.Chunk{}, 3)
	b.exec(`UPDATE runs SET started_at = NULL, end_fence = NULL, end_n = NULL WHERE id = $1`, ids[0]) // as by the previous release
	gone := b.mustClaim(ids[1])
	b.save(true, gone.Held(), chunk(2, 4))
	b.endWith(gone, executiondb.Chunk{}, 5)
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() WHERE id = $1`, ids[1])
	logs, err := b.s.Executions.EventLogs(t.Context(), []executiondb.EventLogRequest{
		{RunID: ids[2], OrganizationID: b.org},
		{RunID: ids[1], OrganizationID: b.org},
		{RunID: ids[0], OrganizationID: b.org},
		{RunID: ids[2], OrganizationID: "org_other"},
		{RunID: "run_none", OrganizationID: b.org},
		{RunID: ids[2], OrganizationID: b.org},
	})
	if err != nil || len(logs) != 6 || logs[1] != nil || logs[3] != nil || logs[4] != nil {
		t.Fatalf("logs %+v, %v", logs, err)
	}
	for place, want := range map[int]string{0: ids[2], 2: ids[0], 5: ids[2]} {
		if logs[place] == nil || logs[place].Run.Run.ID != want {
			t.Errorf("place %d: %+v", place, logs[place])
		}
	}
	if l := logs[2]; l.EndFence != 1 || l.EndN != 3 || l.Run.Run.StartedAt == nil || !l.Run.Run.StartedAt.Equal(old.Run().StartedAt.Time) {
		t.Errorf("a run that an older binary has ended: %+v", l)
	}
	if logs, err := b.s.Executions.EventLogs(t.Context(), nil); err != nil || len(logs) != 0 {
		t.Errorf("no requests: %v, %v", logs, err)
	}
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s', sweep_after = clock_timestamp() - interval '1 s'`)
	if n, err := b.s.Sessions.DeleteExpired(t.Context(), 10); err != nil || n != 3 {
		t.Errorf("deleting: %d, %v", n, err)
	}
	if left := texts(t, b.raw, `SELECT run_id FROM run_events`); len(left) != 0 {
		t.Errorf("events of deleted runs are left: %v", left)
	}
}
