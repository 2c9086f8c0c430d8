package sweep

import (
	"io"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// slots is the number of slots that the only worker announces.
const slots = 4

// parked creates a run that waits for a person's decision, at most until the time in the argument
// expires. The run has read a text and created a file.
func parked(t *testing.T, st *store.Store, org, agent, reply string, expires domain.Time) (held lease.Held, source, file string) {
	t.Helper()
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute, ReplyTo: reply,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	if out, err := st.Queue.Accept(t.Context(), []queuedb.NewRun{run}); err != nil || out[0].Err != nil {
		t.Fatalf("accepting: %+v, %v", out, err)
	}
	claims, err := st.Executions.Claim(t.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	held = claims[0].Run.Held()
	if _, kept, err := st.Executions.PrepareEffect(t.Context(), held, domain.Effect{CallID: "c", SideEffect: domain.SideEffectUnsafe}, true); err != nil || !kept {
		t.Fatalf("preparing: %v, %v", kept, err)
	}
	source, kept, err := st.Blobs.KeepSource(t.Context(), held, domain.Source{Text: run.ID})
	if err != nil || !kept {
		t.Fatalf("keeping: %v, %v", kept, err)
	}
	files, kept, err := st.Blobs.KeepFiles(t.Context(), held, "c", []blobdb.NewFile{{Name: "x", Content: []byte(run.ID)}}, nil, 0)
	if err != nil || !kept {
		t.Fatalf("keeping: %v, %v", kept, err)
	}
	out, err := st.Executions.Park(t.Context(), held, domain.RequiredAction{ToolCallID: "c", ExpiresAt: expires}, executiondb.Chunk{})
	if err != nil || !out.Parked {
		t.Fatalf("parking: %+v, %v", out, err)
	}
	return held, source, files[0].ID
}

func TestUnansweredRunsEndAndUnreferencedDataIsDeleted(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	st, b := open(t, dsn, testkit.NATS(t))
	org, agent := newAgent(t, st)
	replies := make(chan string, 8)
	inbox := b.NewInbox()
	stop, err := b.OnReplies(inbox, func(runID string, _ []byte) { replies <- runID })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	late, read, _ := parked(t, st, org, agent, inbox, domain.At(time.Now().Add(-time.Second)))
	early, _, file := parked(t, st, org, agent, inbox, domain.At(time.Now().Add(time.Hour)))

	s := New(st, b, zerolog.Nop())
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case runID := <-replies:
		if runID != late.RunID {
			t.Errorf("the end of %s was published", runID)
		}
	case <-time.After(time.Minute):
		t.Error("the waiting caller received no result")
	}
	for runID, want := range map[string]domain.RunStatus{late.RunID: domain.RunFailed, early.RunID: domain.RunRequiresAction} {
		if run, err := st.Runs.RunByID(t.Context(), org, "", runID); err != nil || run.Run.Status != want {
			t.Errorf("run %+v, %v; want %s", run.Run, err, want)
		}
	}

	// Remove the run's sources, like a process of the previous release.
	db := testkit.SQL(t, dsn)
	if _, err := db.ExecContext(t.Context(), `DELETE FROM run_sources WHERE run_id = $1`, late.RunID); err != nil {
		t.Fatal(err)
	}
	// A worker that dies may leave stored contents for which there is no file in the database.
	if _, err := db.ExecContext(t.Context(), `DELETE FROM files WHERE run_id = $1`, late.RunID); err != nil {
		t.Fatal(err)
	}
	for _, due := range []bool{false, true} {
		if due {
			for _, query := range []string{`UPDATE sources SET sweep_after = clock_timestamp()`, `UPDATE blobs SET sweep_after = clock_timestamp()`} {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := st.Blobs.SourceByID(t.Context(), org, read)
		if gone := apierr.CodeFor(err) == apierr.NotFound; err != nil && !gone || gone != due {
			t.Errorf("an unread text that is due for removal (%v): %v", due, err)
		}
		var contents int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM blobs`).Scan(&contents); err != nil || contents != map[bool]int{false: 2, true: 1}[due] {
			t.Errorf("%d contents, the time of one come %v: %v", contents, due, err)
		}
		if _, content, err := st.Blobs.OpenFile(t.Context(), org, file); err != nil {
			t.Errorf("a file of another run: %v", err)
		} else if got, err := io.ReadAll(content); err != nil || string(got) != early.RunID {
			t.Errorf("content of the other run's file: %q, %v", got, err)
		}
	}
}
