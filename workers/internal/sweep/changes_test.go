package sweep

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// If the sweeper ends or requeues a run, it publishes that the organization's runs have changed.
func TestSweptRunsArePublished(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	st, b := open(t, dsn, testkit.NATS(t))
	org, agent := newAgent(t, st)
	heard := listen(t, b, org)
	db := testkit.SQL(t, dsn)
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	var lost string // the query for lost runs, except for the condition that the server has been up for some time
	if err := db.QueryRowContext(t.Context(), `SELECT pg_get_functiondef('lost_runs(bigint, interval)'::regprocedure)`).Scan(&lost); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lost, "pg_postmaster_start_time()") {
		t.Fatal("lost_runs does not ask how long the server runs")
	}
	exec(strings.ReplaceAll(lost, "pg_postmaster_start_time()", "'-infinity'::timestamptz"))

	s := New(st, b, zerolog.Nop())
	for _, c := range []struct {
		what string
		kind domain.ChangeKind
		make func()
	}{
		{"a run without a decision", domain.ChangedRuns, func() {
			parked(t, st, org, agent, "", domain.At(time.Now().Add(-time.Second)))
		}},
		{"a run whose worker was lost", domain.ChangedRuns, func() {
			claimed(t, st, org, agent)
			exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second' WHERE status = 'running'`)
		}},
		{"a document that no worker reads", domain.ChangedDocuments, func() {
			doc := knowledgedb.NewDocument{ID: id.New(id.Document), Name: "a", URL: "https://example.com/a", CreatedBy: "usr_a"}
			if _, err := st.Knowledge.AddDocuments(t.Context(), org, []knowledgedb.NewDocument{doc}, knowledgedb.DocumentLimits{}); err != nil {
				t.Fatal(err)
			}
			exec(`UPDATE documents SET not_before = clock_timestamp() - interval '2 hours'`)
		}},
	} {
		c.make()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if got != (bus.Change{OrganizationID: org, Kind: c.kind}) {
				t.Errorf("%s: received %+v", c.what, got)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: no change was received", c.what)
		}
	}
}

// listen returns a channel that receives an organization's changes until the test ends.
func listen(t *testing.T, b *bus.Bus, org string) chan bus.Change {
	t.Helper()
	watch, heard := b.NewChangeWatch(), make(chan bus.Change, 64)
	if err := watch.Follow(org); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		watch.Run(ctx, func(c bus.Change) { heard <- c })
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return heard
}

// claimed creates a run and claims it as a worker would.
func claimed(t *testing.T, st *store.Store, org, agent string) {
	t.Helper()
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	if out, err := st.Queue.Accept(t.Context(), []queuedb.NewRun{run}); err != nil || out[0].Err != nil {
		t.Fatalf("accepting: %+v, %v", out, err)
	}
	if claims, err := st.Executions.Claim(t.Context(), []string{run.ID}); err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
}
