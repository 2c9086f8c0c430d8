package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
	"parley/shared/store/sessiondb"
)

// timeline returns the spans of a run as text (kind, attempt, status and message) and checks their
// times.
func (b *testEnv) timeline(runID string) string {
	b.Helper()
	of, erased, err := b.s.Runs.Timeline(b.Context(), b.org, "", runID)
	if err != nil || erased || of.RunID != runID {
		b.Fatalf("timeline %+v, %v, %v", of, erased, err)
	}
	var out []string
	for i, s := range of.Spans {
		if s.FinishedAt != nil && s.FinishedAt.Before(s.StartedAt.Time) || i > 0 && s.StartedAt.Before(of.Spans[i-1].StartedAt.Time) {
			b.Errorf("wrong times: %+v", of.Spans)
		}
		if open := s.Status == domain.SpanRunning || s.Status == domain.SpanWaiting; open != (s.FinishedAt == nil) {
			b.Errorf("a span that is %s finished %v", s.Status, s.FinishedAt)
		}
		span := fmt.Sprintf("%s %d %s", s.Kind, s.Attempt, s.Status)
		if s.Message != "" {
			span += " (" + s.Message + ")"
		}
		out = append(out, span)
	}
	return strings.Join(out, ", ")
}

func (b *testEnv) wantTimeline(what, runID string, want ...string) {
	b.Helper()
	if got := b.timeline(runID); got != strings.Join(want, ", ") {
		b.Errorf("%s:\n%s\nwant\n%s", what, got, strings.Join(want, ", "))
	}
}

// countNotes counts the rows of attempts and waits, which are stored only for timelines.
func (b *testEnv) countNotes() (n int) {
	b.Helper()
	if err := b.raw.QueryRowContext(b.Context(), `SELECT count(*) FROM run_attempts`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *testEnv) journal(held lease.Held, first int, steps ...string) {
	b.Helper()
	for i, step := range steps {
		if ok, err := b.s.Executions.Journal(b.Context(), held, first+i, []byte(step)); err != nil || !ok {
			b.Fatalf("journal: %v, %v", ok, err)
		}
	}
}

// again claims a run for another attempt, as a worker does.
func (b *testEnv) again(runID string) *executiondb.Claimed {
	b.Helper()
	b.exec(`UPDATE open_runs SET not_before = NULL WHERE run_id = $1`, runID)
	c := b.mustClaim(runID)
	b.note(c)
	return c
}

func (b *testEnv) note(c *executiondb.Claimed) {
	b.Helper()
	if locked, err := b.s.Executions.NoteAttempts(b.Context(), []executiondb.Claimed{*c}); err != nil || locked[0] {
		b.Fatalf("the run is locked: %v, error: %v", locked, err)
	}
}

const (
	asksTurn = `{"seq":1,"kind":"model_turn","turn":{"model":"m","toolCalls":[{"id":"c","name":"pay"}],"usage":{"inputTokens":3,"outputTokens":2},"costMicros":1}}`
	toolDone = `{"seq":2,"kind":"tool_call","tool":{"call":{"id":"c","name":"pay","status":"completed","input":{},"output":{},"durationMs":4}}}`
	answered = "turn 1 completed"
)

func TestATimelineOfOneAttempt(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	b.wantTimeline("queued", runID, "queue 1 waiting")
	c := b.mustClaim(runID)
	b.wantTimeline("begun", runID, "queue 1 completed", "attempt 1 running", "turn 1 running")
	b.journal(c.Held(), 1, asksTurn)
	b.wantTimeline("in a call", runID, "queue 1 completed", "attempt 1 running", "turn 1 completed", "tool 1 running")
	b.journal(c.Held(), 2, toolDone)
	b.finish(c, "answer")
	of, _, err := b.s.Runs.Timeline(t.Context(), b.org, "system", runID)
	if err != nil || of.Status != domain.RunCompleted || b.countNotes() != 0 {
		t.Errorf("%+v, %v; %d rows were noted", of, err, b.countNotes())
	}
	got := b.timeline(runID)
	for _, want := range []string{"queue 1 completed, attempt 1 completed, ", answered, "tool 1 completed"} {
		if !strings.Contains(got, want) {
			t.Errorf("ended: %s lacks %s", got, want)
		}
	}
	for _, s := range of.Spans {
		if s.Name == "turn 1" && (s.Model != "m" || *s.InputTokens != 3 || *s.OutputTokens != 2 || *s.CostMicros != 1) {
			t.Errorf("the turn is %+v", s)
		}
	}
}

// ignoreUptime makes the functions that look for lost workers ignore the uptime of the server.
func (b *testEnv) ignoreUptime() {
	b.Helper()
	for _, name := range []string{"lost_runs(bigint, interval)", "claim_runs(text[], interval)"} {
		var definition string
		if err := b.raw.QueryRowContext(b.Context(), `SELECT pg_get_functiondef($1::regprocedure)`, name).Scan(&definition); err != nil {
			b.Fatal(err)
		}
		changed := strings.Replace(definition, "pg_postmaster_start_time() <", "'-infinity'::timestamptz <", 1)
		if changed == definition {
			b.Fatalf("%s does not look when the server was started", name)
		}
		b.exec(changed)
	}
}

// On the timeline, a completed turn shows the beginning of its text and its calls. The answer of a
// run contains the texts of all its turns, but the last turn shows only its own text. With an
// output contract, the answer is the text of the last turn.
func TestATimelineShowsTexts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	long := strings.Repeat("é", 9_000)
	for _, c := range []struct{ name, text, answer, first, last string }{
		{"texts", "I look.", "I look.\n\nIt is 7.", "I look.", "It is 7."},
		{"a long text", long, long + "\n\nIt is 7.", long[:2*domain.MaxSpanText], "It is 7."},
		{"no text before the call", "", "It is 7.", "", "It is 7."},
		{"a text with U+0000", "I\x00 look.", "I� look.\n\nIt is 7.", "I\x00 look.", "It is 7."},
		{"an output contract", "I look.", `{"n":7}`, "I look.", `{"n":7}`},
		{"a long answer", "I look.", "I look.\n\n" + long, "I look.", long[:2*domain.MaxSpanText]},
	} {
		runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
		held := b.mustClaim(runID)
		text, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		b.journal(held.Held(), 1, strings.Replace(asksTurn, `"model":"m"`, `"model":"m","text":`+string(text), 1), toolDone)
		b.finish(held, c.answer)
		of, _, err := b.s.Runs.Timeline(t.Context(), b.org, "", runID)
		if err != nil {
			t.Fatal(err)
		}
		var turns []domain.Span
		for _, s := range of.Spans {
			if s.Kind == domain.SpanTurn {
				turns = append(turns, s)
			}
		}
		if len(turns) != 2 || turns[0].Text != c.first || turns[1].Text != c.last || !slices.Equal(turns[0].ToolCallIDs, []string{"c"}) {
			t.Errorf("%s: %.200s", c.name, fmt.Sprintf("%+v", turns))
			continue
		}
		if turns[0].TextCut != (len(c.first) < len(c.text)) || turns[1].TextCut != strings.HasSuffix(c.answer, long) {
			t.Errorf("%s: cut %v, %v", c.name, turns[0].TextCut, turns[1].TextCut)
		}
	}
}

func TestATimelineOfManyAttempts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.ignoreUptime()
	ctx := t.Context()
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	lose := func() {
		b.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second' WHERE run_id = $1`, runID)
	}
	back := func(c *executiondb.Claimed, cause *domain.RunError) {
		t.Helper()
		if back := b.requeue(executiondb.Requeue{Held: c.Held(), Backoff: time.Hour, Cause: cause}); !back.Done {
			t.Fatalf("requeued = %+v, want done", back)
		}
	}
	b.mustClaim(runID)
	lose() // the sweeper finds the lost run
	if orgs, err := b.s.Executions.RequeueLost(ctx, 10); err != nil || len(orgs) != 1 {
		t.Fatalf("lost runs of %v, %v", orgs, err)
	}
	b.wantTimeline("lost", runID, "queue 1 completed", "attempt 1 lost (the worker was lost)", "turn 1 lost", "queue 2 waiting")
	second := b.again(runID)
	back(second, &domain.RunError{Code: "unavailable", Message: "not\x00 now"})
	third := b.again(runID)
	lose() // the run is claimed again immediately
	fourth := b.again(runID)
	back(fourth, nil)
	fifth := b.again(runID)
	b.note(fifth) // a second write of the same record, as if the reply to the first write had been lost
	b.note(third) // a late write, as if the worker had been frozen before it
	b.finish(fifth, "answer")
	got := b.timeline(runID)
	for _, want := range []string{
		"attempt 1 lost (the worker was lost)", "attempt 2 failed (not now)", "attempt 3 lost (the worker was lost)", "turn 3 lost",
		"attempt 4 lost (the worker requeued the run)", "attempt 5 completed", "turn 5 completed",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(got, "turn 2") || b.countNotes() != 5 {
		t.Errorf("%d rows noted: %s", b.countNotes(), got)
	}
}

// The timeline is also correct if the previous release recorded the end of a first attempt, or if
// the end is not recorded.
func TestUnrecordedAttempts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.ignoreUptime()
	for what, c := range map[string]struct{ how, want string }{
		"put back":   {`status = 'queued', last_error = '{"code":"unavailable","message":"later"}'`, "attempt 1 failed (later)"},
		"requeued":   {`status = 'queued', deaths = deaths + 1, last_error = '{"code":"c","message":"of before"}'`, "attempt 1 lost (the worker was lost)"},
		"taken over": {`lease_until = clock_timestamp() - interval '1 second'`, "attempt 1 lost (the worker was lost)"},
	} {
		runID := b.claimedRun().RunID
		b.exec(`UPDATE open_runs SET fence = fence + 1, `+c.how+` WHERE run_id = $1`, runID)
		b.finish(b.again(runID), "answer")
		if got := b.timeline(runID); !strings.Contains(got, c.want) || !strings.Contains(got, "attempt 2 completed") {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestATimelineOfRunsThatWait(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	const queued, parked = "queue 1 completed", "attempt 1 completed (the run needs a person's decision)"
	held := b.parked(domain.ActionApproval)
	b.wantTimeline("waiting", held.RunID, queued, parked, "wait 1 waiting (approval)")
	if b.countNotes() != 0 {
		t.Errorf("%d rows noted while the run waits", b.countNotes())
	}
	if _, err := b.decide(held, domain.DecisionApprove); err != nil {
		t.Fatal(err)
	}
	b.wantTimeline("decided", held.RunID, queued, parked, "wait 1 completed (approve)", "queue 2 waiting")
	second := b.again(held.RunID)
	b.prepare(second.Held(), effect("c", domain.SideEffectUnsafe), true)
	b.does("begin", second.Held(), true)
	third := b.again(b.requeueByOldSweeper(held.RunID))
	b.prepare(third.Held(), effect("c", domain.SideEffectUnsafe), true)
	b.park(third.Held(), domain.ActionUnknownOutcome, executiondb.Chunk{})
	if _, err := b.decide(lease.Held{RunID: held.RunID}, domain.DecisionHappened); err != nil {
		t.Fatal(err)
	}
	b.finish(b.again(held.RunID), "answer")
	got := b.timeline(held.RunID)
	for _, want := range []string{parked, "wait 1 completed (approve)", "attempt 2 lost", "attempt 3 completed (the run needs", "wait 3 completed (happened)", "attempt 4 completed"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("twice: %s lacks %s", got, want)
		}
	}

	client := b.waitsForClient("client")
	const forClient = "attempt 1 completed (the run needs results of its client's tools)"
	b.wantTimeline("waiting for the client", client.RunID, queued, forClient, "wait 1 waiting (client_tools)")
	if _, err := b.results(client, "c1", `1`, "c2", `2`); err != nil {
		t.Fatal(err)
	}
	b.wantTimeline("results of the client", client.RunID, queued, forClient, "wait 1 completed (results)", "queue 2 waiting")

	abandoned := b.parked(domain.ActionUnknownOutcome)
	if _, err := b.decide(abandoned, domain.DecisionAbandon); err != nil {
		t.Fatal(err)
	}
	b.wantTimeline("abandoned", abandoned.RunID, queued, parked, "wait 1 failed (outcome_unknown_abandoned)")
	cancelled := b.parked(domain.ActionApproval)
	if _, _, err := b.s.Executions.Cancel(ctx, b.org, "", cancelled.RunID); err != nil {
		t.Fatal(err)
	}
	b.wantTimeline("cancelled", cancelled.RunID, queued, parked, "wait 1 failed (cancelled)")
	expired := b.parked(domain.ActionApproval)
	b.exec(`UPDATE open_runs SET action_expires_at = clock_timestamp() WHERE run_id = $1`, expired.RunID)
	if ended, err := b.s.Executions.EndUnanswered(ctx, 9); err != nil || len(ended) != 1 {
		t.Fatalf("%+v, %v", ended, err)
	}
	b.wantTimeline("expired", expired.RunID, queued, parked, "wait 1 failed (action_expired)")
}

// requeueByOldSweeper requeues a run as the sweeper of the previous release does.
func (b *testEnv) requeueByOldSweeper(runID string) string {
	b.Helper()
	b.exec(`UPDATE open_runs SET status = 'queued', fence = fence + 1, deaths = deaths + 1 WHERE run_id = $1`, runID)
	return runID
}

func TestWhoseTimelines(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	runID := b.claimedRun().RunID
	for what, c := range map[string][3]string{
		"of nobody":               {b.org, "", "run_x"},
		"of another organization": {other.org, "", runID},
		"of another principal":    {b.org, "usr_1", runID},
	} {
		if _, _, err := s.Runs.Timeline(t.Context(), c[0], c[1], c[2]); apierr.CodeFor(err) != apierr.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.finish(b.again(b.requeueByOldSweeper(runID)), "answer")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() WHERE id = $1`, runID)
	if _, _, err := s.Runs.Timeline(t.Context(), b.org, "", runID); apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("expired: %v", err)
	}
}

// The records of a run's attempts are removed together with the run, regardless of how the run
// ended.
func TestAttemptRecordsAreRemovedWithTheRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	twice := func(session string) string { // a run whose first attempt ended before its first step
		runID := b.accept(wideWindow, b.run("", session))[0].Run.Run.ID
		b.mustClaim(runID)
		b.finish(b.again(b.requeueByOldSweeper(runID)), "answer")
		return runID
	}
	for what, remove := range map[string]func(session, runID string){
		"erasing": func(session, runID string) {
			name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: session, Key: contract.Hash(b.org, b.agent, session)}
			if _, err := b.s.Sessions.EraseSession(ctx, name); err != nil {
				t.Fatal(err)
			}
			if of, erased, err := b.s.Runs.Timeline(ctx, b.org, "", runID); err != nil || !erased {
				t.Errorf("erased: %+v, %v, %v", of, erased, err)
			}
		},
		"deleting a document": func(_, runID string) {
			content := b.upload([]byte("text of " + runID))
			doc := b.add(knowledgedb.NewDocument{Name: "d", Content: &content})[0].Document.ID
			b.process(doc)
			b.exec(`INSERT INTO run_documents (run_id, org_id, document_id) VALUES ($1, $2, $3)`, runID, b.org, doc)
			b.deleteDocument(doc)
		},
		"retention": func(_, runID string) {
			b.exec(`UPDATE runs SET expires_at = now(), sweep_after = now() WHERE id = $1`, runID) //nolint:contextcheck // the test's own
			if _, err := b.s.Sessions.DeleteExpired(ctx, 100); err != nil {
				t.Fatal(err)
			}
		},
		"retention by the release before": func(_, runID string) { b.exec(`DELETE FROM runs WHERE id = $1`, runID) },
		"erasing by the release before": func(_, runID string) {
			b.exec(`INSERT INTO steps (run_id, org_id, n, fence, step) VALUES ($1, $2, 1, 3, '{}')`, runID, b.org)
			b.exec(`DELETE FROM steps WHERE run_id = $1`, runID)
		},
	} {
		session := strings.ReplaceAll(what, " ", "")
		runID := twice(session)
		if n := b.countNotes(); n != 2 {
			t.Fatalf("%s: %d rows noted before", what, n)
		}
		remove(session, runID)
		if n := b.countNotes(); n != 0 {
			t.Errorf("%s left %d rows", what, n)
			b.exec(`DELETE FROM run_attempts`)
		}
	}
}
