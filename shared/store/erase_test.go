package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

const canary = "xanthic-canary"

// leaks returns the tables that contain the canary, with the number of rows.
func (r *storedEnv) leaks() string {
	r.Helper()
	var tables string
	err := r.admin.QueryRowContext(r.Context(), `SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables)
	if err != nil || strings.Count(tables, " ") < 15 {
		r.Fatalf("tables %s, %v", tables, err)
	}
	found := ""
	for table := range strings.FieldsSeq(tables) { // the text form of a row contains all its columns
		if n := r.number(fmt.Sprintf(`SELECT count(*) FROM %q t WHERE strpos(t::text, $1) > 0`, table), canary); n > 0 {
			found += fmt.Sprintf("%s:%d ", table, n)
		}
	}
	return strings.TrimSpace(found)
}

func (r *storedEnv) erase(name sessiondb.SessionName) []executiondb.Ended {
	r.Helper()
	ended, err := r.s.Sessions.EraseSession(r.Context(), name)
	if err != nil {
		r.Fatalf("erasing: %v", err)
	}
	return ended
}

func TestErasingLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	ctx := t.Context()
	session := "s " + canary
	shared := domain.Source{Text: "text of files in both sessions"} // texts of attachments have no title
	keyed := func(key string) queuedb.NewRun {
		run := r.chat("usr_1", session, "ask "+canary)
		run.IdempotencyKey, run.KeyHash = canary+key, contract.Hash(r.org, key)
		run.Fingerprint, run.AutomationID = []byte("print"), "nightly "+canary
		return run
	}
	attached := func(run queuedb.NewRun) queuedb.NewRun {
		stored, err := r.s.Blobs.Upload(ctx, r.org, strings.NewReader("file of "+run.IdempotencyKey), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		file := blobdb.NewAttachment{Attachment: domain.Attachment{FileID: id.New(id.File), Name: canary + ".md", MediaType: "text/markdown", Bytes: stored.Bytes}, Hash: stored.Hash}
		if err := r.s.Blobs.LinkAttachments(ctx, r.org, run.ID, []blobdb.NewAttachment{file}, 0); err != nil {
			t.Fatal(err)
		}
		run.Input = fmt.Appendf(nil, `{"attachments":[{"fileId":%q,"name":"%s.md","mediaType":"text/markdown","bytes":1}],"message":""}`, file.FileID, canary)
		return run
	}
	work := func(run queuedb.NewRun) *executiondb.Claimed {
		t.Helper()
		c := r.mustClaim(r.accept(wideWindow, run)[0].Run.Run.ID)
		ok, err := r.s.Executions.Journal(t.Context(), c.Held(), 1, []byte(`{"text":"`+canary+`"}`))
		if err != nil || !ok {
			t.Fatalf("journal: %v, %v", ok, err)
		}
		r.raw(`INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events) VALUES ($1, $2, $3, 1, 1, $4)`,
			c.RunID, r.org, c.Fence, `message.delta {"text":"`+canary+`"}`)
		if ok, err := r.s.Executions.KeepToolSet(t.Context(), c.Held(), []byte(`["`+canary+`"]`)); err != nil || !ok {
			t.Fatalf("tool set: %v, %v", ok, err)
		}
		r.prepare(c.Held(), domain.Effect{CallID: "c", Name: "pay", Input: []byte(`"` + canary + `"`)}, true)
		r.keep(c.Held(), domain.Source{Text: canary})
		r.keep(c.Held(), shared)
		return c
	}
	done := work(attached(keyed("done")))
	r.finish(done, "answer "+canary)
	running := work(keyed("running"))
	queued := r.accept(wideWindow, attached(keyed("queued")))[0].Run.Run.ID
	for _, run := range []string{done.RunID, running.RunID} {
		r.heard(run, domain.Playback{Text: canary})
	}
	r.raw(`UPDATE open_runs SET last_error = $2, reply_to = 'inbox' WHERE run_id = $1`, running.RunID, `{"message":"`+canary+`"}`)
	reader := r.mustClaim(r.accept(wideWindow, r.chat("usr_2", session, "mine"))[0].Run.Run.ID)
	sharedID := r.keep(reader.Held(), shared)
	r.finish(reader, "stays")
	other := reader.RunID
	if got := r.leaks(); got != "effects:2 files:2 heard:2 open_runs:1 run_events:2 runs:4 sessions:2 sources:1 steps:2" {
		t.Fatalf("before: %s", got)
	}

	ended := r.erase(r.named("usr_1", session))
	if len(ended) != 2 || ended[0].RunID != running.RunID || ended[1].RunID != queued || ended[0].ReplyTo != "inbox" ||
		ended[0].OrganizationID != r.org || ended[0].Result != nil {
		t.Errorf("ended %+v", ended)
	}
	if got := r.leaks(); got != "runs:1 sessions:1" { // the rows of another user, usr_2, whose session has the same name
		t.Errorf("left: %s", got)
	}
	if got, err := r.s.Blobs.SourceByID(ctx, r.org, sharedID); err != nil || got.Text != shared.Text || got.Title != "" || got.URL != "" {
		t.Errorf("the text that the other session also read: %+v, %v", got, err)
	}
	if n := r.number(`SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM blobs) + (SELECT count(*) FROM blob_chunks)`); n != 0 {
		t.Errorf("%d rows of the attachments' contents are left", n)
	}
	for _, run := range []string{done.RunID, running.RunID, queued} {
		got, err := r.s.Runs.RunByID(ctx, r.org, "usr_1", run)
		if err != nil || !got.Erased || resultFor(got) != nil {
			t.Errorf("by id: %+v, %v", got, err)
		}
		_, err = r.s.Runs.RunByID(ctx, r.org, "usr_2", run)
		wantCode(t, err, apierr.NotFound)
	}
	if runs, err := r.s.Runs.ListRuns(ctx, r.org, rundb.RunFilter{}, 9); err != nil || len(runs) != 1 || runs[0].ID != other {
		t.Errorf("list: %+v, %v", runs, err)
	}
	if ended, err := r.s.Runs.AwaitedRuns(ctx, []rundb.RunRef{{OrganizationID: r.org, RunID: queued}}); err != nil || len(ended) != 1 || !ended[0].Erased {
		t.Errorf("a waiting request reads %+v, %v", ended, err)
	}

	// After a run was erased, its worker can write nothing.
	if ok, err := r.s.Executions.Journal(ctx, running.Held(), 2, []byte(`{}`)); err != nil || ok {
		t.Errorf("journal: %v, %v", ok, err)
	}
	if kept, err := r.s.Executions.Extend(ctx, []lease.Held{running.Held()}); err != nil || len(kept.Extended)+len(kept.Locked) != 0 {
		t.Errorf("extended %v, %v", kept, err)
	}
	if _, err := r.s.Executions.SaveEvents(ctx, []executiondb.Checkpoint{{Held: running.Held(), Chunk: executiondb.Chunk{FirstN: 2, LastN: 2, Events: canary}}}); err != nil {
		t.Error(err)
	}
	if r.finish(running, canary).Saved[running.RunID] {
		t.Error("an erased run was finished")
	}
	if c := r.claim(queued); c.Run != nil || !c.Ended {
		t.Errorf("claiming an erased run: %+v", c)
	}
	for _, what := range []string{"prepare", "begin", "end", "void", "park", "keep", "tools"} {
		r.does(what, running.Held(), false)
	}
	if got := r.leaks(); got != "runs:1 sessions:1" || r.number(`SELECT count(*) FROM open_runs`) != 0 {
		t.Errorf("left: %s", got)
	}

	// A new session with the same name contains no data from the old session.
	fresh := r.mustClaim(r.accept(wideWindow, r.chat("usr_1", session, "again"))[0].Run.Run.ID)
	history, err := r.s.Sessions.History(ctx, r.org, fresh.SessionRef, fresh.Seq, 9)
	if err != nil || fresh.Seq != 1 || len(history) != 0 {
		t.Errorf("turn %d with history %+v, %v", fresh.Seq, history, err)
	}
	if old, err := r.s.Sessions.History(ctx, r.org, running.SessionRef, 99, 9); err != nil || len(old) != 0 {
		t.Errorf("the erased session's history: %+v, %v", old, err)
	}
}

func TestErasedKeysAreKeptForADay(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	keys := map[string]time.Duration{"chat": 0, "short": time.Hour, "long": 72 * time.Hour, "open": 48 * time.Hour, "over": time.Hour}
	runs := map[string]string{}
	for _, key := range []string{"over", "chat", "short", "long", "open"} {
		run := r.auto("s")
		run.Retention, run.KeyHash, run.IdempotencyKey = keys[key], contract.Hash(r.org, key), key
		runs[key] = r.accept(wideWindow, run)[0].Run.Run.ID
		if key != "open" {
			r.finish(r.mustClaim(runs[key]), "x")
		}
	}
	r.raw(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, runs["over"])
	r.erase(r.named(domain.SystemPrincipal, "s"))
	held := func(key string) bool {
		t.Helper()
		found, err := r.s.Runs.RunsByKey(t.Context(), []rundb.KeyRef{{OrganizationID: r.org, Hash: contract.Hash(r.org, key)}})
		if err != nil {
			t.Fatal(err)
		}
		if found[0] == nil {
			return false
		}
		if !found[0].Erased || resultFor(*found[0]) != nil {
			t.Errorf("%s: %+v", key, found[0])
		}
		return true
	}
	check := func(when string, want ...string) {
		t.Helper()
		r.raw(`UPDATE runs SET expires_at = expires_at - $1::interval, sweep_after = sweep_after - $1::interval`, when)
		for {
			if n, err := r.s.Sessions.DeleteExpired(t.Context(), 100); err != nil {
				t.Fatal(err)
			} else if n == 0 {
				break
			}
		}
		got := ""
		for _, key := range []string{"over", "chat", "short", "long", "open"} {
			if held(key) {
				got += key + " "
			}
		}
		if strings.TrimSpace(got) != strings.Join(want, " ") {
			t.Errorf("%s later these are held: %s, want %v", when, got, want)
		}
	}
	check("0", "chat", "short", "long", "open")
	again := r.auto("s")
	again.KeyHash = contract.Hash(r.org, "chat")
	if out := r.accept(wideWindow, again)[0]; !out.Existing || !out.Run.Erased || out.Run.Run.ID != runs["chat"] {
		t.Errorf("the key of an erased run = %+v", out)
	}
	check("23 hours 59 minutes", "chat", "short", "long", "open")
	check("2 minutes", "long", "open")
	check("23 hours 50 minutes", "long", "open")
	check("20 minutes", "long")
	check("24 hours")
	if n := r.number(`SELECT count(*) FROM runs`) + r.number(`SELECT count(*) FROM sessions`); n != 0 {
		t.Errorf("%d runs and sessions remain after 24 hours", n)
	}
}

// TestErasingWhileMessagesArrive sends messages while their session is erased. Each message belongs
// either to the erased session or to a new one.
func TestErasingWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	r.raw(`ALTER TABLE runs ADD CONSTRAINT whole CHECK (status IS NULL OR (result IS NULL) = (input::text = '{}'))`)
	const writers, erasers = 8, 3
	messages := repetitions(t, 12, 40)
	var wg, writing sync.WaitGroup
	for w := range writers {
		writing.Add(1)
		wg.Go(func() {
			defer writing.Done()
			for n := range messages {
				out, err := r.acceptUnlocked(r.chat("usr_1", "s", fmt.Sprintf("%d %d", w, n)))
				if err != nil || out.Err != nil || out.Existing {
					t.Errorf("accepting: %+v, %v", out, err)
					return
				}
				// Some of the runs are claimed and finished, if possible.
				claims, err := r.s.Executions.Claim(t.Context(), []string{out.Run.Run.ID})
				if err != nil {
					t.Errorf("claiming: %v", err)
					return
				}
				if c := claims[0].Run; c != nil {
					if _, err := r.s.Executions.Journal(t.Context(), c.Held(), 1, []byte(`{}`)); err != nil {
						t.Errorf("journal: %v", err)
					}
					if _, err := r.s.Executions.SaveEvents(t.Context(), []executiondb.Checkpoint{{Held: c.Held(), Chunk: executiondb.Chunk{FirstN: 1, LastN: 1, Events: "a {}"}}}); err != nil {
						t.Errorf("events: %v", err)
					}
					r.finish(c, "answer")
				}
			}
		})
	}
	stop := make(chan struct{})
	erased := make([]int, erasers)
	for e := range erasers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := r.s.Sessions.EraseSession(t.Context(), r.named("usr_1", "s"))
				if err == nil {
					erased[e]++
				} else if apierr.CodeFor(err) != apierr.NotFound {
					t.Errorf("erasing: %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	wg.Wait()
	if n := erased[0] + erased[1] + erased[2]; n < 3 {
		t.Errorf("only %d erasures happened", n)
	}
	if n := r.number(`SELECT count(*) FROM runs`); n != writers*messages {
		t.Errorf("%d runs are left of %d", n, writers*messages)
	}
	for what, query := range map[string]string{
		"runs that live outside of a session": `SELECT count(*) FROM runs r WHERE (status IS NULL OR result IS NOT NULL)
			AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.ref = r.session_ref)`,
		"erased runs in a session that lives":   `SELECT count(*) FROM runs r JOIN sessions s ON s.ref = r.session_ref WHERE status IS NOT NULL AND result IS NULL`,
		"open rows of runs that have ended":     `SELECT count(*) FROM open_runs o JOIN runs r ON r.id = o.run_id WHERE r.status IS NOT NULL`,
		"open runs without an open row":         `SELECT count(*) FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id WHERE r.status IS NULL AND o.run_id IS NULL`,
		"steps of erased runs":                  `SELECT count(*) FROM steps JOIN runs r ON r.id = run_id WHERE r.result IS NULL AND r.status IS NOT NULL`,
		"events of erased runs":                 `SELECT count(*) FROM run_events JOIN runs r ON r.id = run_id WHERE r.result IS NULL AND r.status IS NOT NULL`,
		"sessions that do not begin at 1":       `SELECT count(*) FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.session_ref = s.ref AND r.seq = 1)`,
		"gaps in a session":                     `SELECT count(*) FROM (SELECT session_ref FROM runs GROUP BY 1 HAVING max(seq) <> count(*)) gaps`,
		"tombstones that will never be removed": `SELECT count(*) FROM runs WHERE result IS NULL AND status IS NOT NULL AND (sweep_after IS NULL OR expires_at IS NULL)`,
	} {
		if n := r.number(query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

func TestErasingAVeryLongSession(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	first := r.said(r.chat("usr_1", "s", canary), canary)
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input,
		  retention, created_at, status, result, answer, attempts, finished_at)
		SELECT 'run_' || n, org_id, agent_id, 1, session_ref, n, session_id, principal, caller_kind, trigger_type, input, 0, now(), 'completed', result, answer, 1, now()
		FROM runs, generate_series(2, 3499) n WHERE id = $1`, first)
	r.raw(`INSERT INTO steps (run_id, org_id, n, fence, step) SELECT id, org_id, 1, 1, input FROM runs`)
	r.raw(`UPDATE sessions SET last_seq = 3499`)
	open := r.mustClaim(r.accept(wideWindow, r.chat("usr_1", "s", canary))[0].Run.Run.ID)
	r.accept(wideWindow, r.chat("usr_1", "s", canary))
	if got := r.leaks(); got != "runs:3501 steps:3499" || open.Seq != 3500 {
		t.Fatalf("before: %s, turn %d", got, open.Seq)
	}
	if ended := r.erase(r.named("usr_1", "s")); len(ended) != 2 || ended[0].RunID != open.RunID {
		t.Errorf("ended %+v", ended)
	}
	if got := r.leaks(); got != "" {
		t.Errorf("left: %s", got)
	}
	if n := r.number(`SELECT count(*) FROM runs WHERE status IS NOT NULL AND result IS NULL`); n != 3501 {
		t.Errorf("%d tombstones", n)
	}
}
