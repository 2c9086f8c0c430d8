package sweep

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// If a stream was created again, its job messages are lost. The sweeper publishes the job messages
// of all dispatched but unclaimed runs again, and no others.
func TestJobMessagesOfARecreatedStreamArePublished(t *testing.T) {
	t.Parallel()
	st, b, run := dispatched(t, testkit.NATS(t)) // the job message of this run is lost
	s, lane := New(st, b, zerolog.Nop()), b.Lane(domain.LaneAutomation)
	rings := func(want int) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard, wait := 0, time.Second
		if want > 0 {
			wait = 20 * time.Second // maximum waiting time
		}
		err := lane.Fetch(t.Context(), 1, wait, func(d *bus.JobMessage) { heard++; d.Ack() })
		if err != nil || heard != want {
			t.Errorf("%d job messages, want %d, %v", heard, want, err)
		}
	}
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stream = time.Unix(1, 0) // pretend that the last sweep found a different stream
	rings(1)
	rings(0) // the next sweep does not publish the messages again
	claims, err := st.Executions.Claim(t.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	s.stream = time.Unix(1, 0)
	rings(0)
}

// A run may get the same message id as an earlier run with the same idempotency key. If the stream
// still remembers the id, it drops the job message. The sweeper then publishes the message under
// the next dispatch number.
func TestARunWhoseMessageIDIsKnownIsNotified(t *testing.T) {
	t.Parallel()
	st, b, run := dispatched(t, testkit.NATS(t))
	s, lane := New(st, b, zerolog.Nop()), b.Lane(domain.LaneAutomation)
	hears := func(want ...string) {
		t.Helper()
		var heard []string
		wait := time.Second
		if len(want) > 0 {
			wait = 20 * time.Second // maximum waiting time
		}
		err := lane.Fetch(t.Context(), 1, wait, func(d *bus.JobMessage) { heard = append(heard, d.RunID); d.Ack() })
		if err != nil || !slices.Equal(heard, want) {
			t.Errorf("job messages of %v, want %v, %v", heard, want, err)
		}
	}
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := domain.Job{RunID: id.New(id.Run), OrganizationID: run.OrganizationID, Lane: run.Lane, Dedupe: run.Dedupe, DispatchNo: 1}
	before := job.RunID
	b.PublishJobs(job)
	hears(before)
	job.RunID = run.ID
	b.PublishJobs(job)
	hears()
	if err := st.Queue.RepublishAll(t.Context()); err != nil { // request that the run's job message is published again
		t.Fatal(err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	hears(run.ID)
}

// If a stream has lost messages that its consumers remember, it delivers no messages. The sweeper
// then creates the stream again and publishes the job messages.
func TestAStreamThatForgotIsRecreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := testkit.NATSProcess(t, dir)
	st, b, run := dispatched(t, server.URL)
	s, lane := New(st, b, zerolog.Nop()), b.Lane(domain.LaneAutomation)
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	const before = 50
	for n := range before {
		b.PublishJobs(domain.Job{RunID: id.New(id.Run), Lane: domain.LaneAutomation, Dedupe: strconv.Itoa(n), DispatchNo: 1})
	}
	if err := lane.Fetch(t.Context(), before, 5*time.Second, func(d *bus.JobMessage) { d.Ack() }); err != nil {
		t.Fatal(err)
	}
	server.Term() // writes all data to the disk
	if err := server.Wait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"*.blk", "index.db", "meta.inf"} { // delete the messages but not the state of the consumers
		testkit.CutFiles(t, dir, name, false)
	}
	server.Restart()
	if err := st.Queue.RepublishAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := false
	for over := time.Now().Add(30 * time.Second); !heard && time.Now().Before(over); {
		_ = s.sweep(t.Context()) // the server may not be running again yet
		_ = lane.Fetch(t.Context(), 1, time.Second, func(d *bus.JobMessage) { heard = d.RunID == run.ID; d.Ack() })
	}
	if !heard {
		t.Error("the run's job message is no longer published")
	}
}

// dispatched creates a run that was accepted but has no published job message.
func dispatched(t *testing.T, natsURL string) (*store.Store, *bus.Bus, queuedb.NewRun) {
	t.Helper()
	return dispatchedIn(t, testkit.Postgres(t), natsURL)
}

// dispatchedIn does the same as dispatched, in the given database.
func dispatchedIn(t *testing.T, dsn, natsURL string) (*store.Store, *bus.Bus, queuedb.NewRun) {
	t.Helper()
	st, b := open(t, dsn, natsURL)
	org, agent := newAgent(t, st)
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Hour,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	if out, err := st.Queue.Accept(t.Context(), []queuedb.NewRun{run}); err != nil || out[0].Job == nil {
		t.Fatalf("accepting: %+v, %v", out, err)
	}
	return st, b, run
}
