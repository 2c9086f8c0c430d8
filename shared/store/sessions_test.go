package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/queuedb"
	"parley/shared/store/sessiondb"
	"parley/shared/testkit"
)

// storedEnv is a test environment with a connection that bypasses row-level security.
type storedEnv struct {
	*testEnv
	dsn   string
	admin *sql.DB
}

func newStoredEnvFor(t *testing.T) *storedEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	s, err := store.Open(dsn, 16)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	admin.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = s.Close(); _ = admin.Close() })
	account, _ := signUp(t, s, "ada@example.com")
	agent, err := s.Agents.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerSystem, domain.CallerUser},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &storedEnv{&testEnv{T: t, s: s, org: account.Organization.ID, agent: agent.ID}, dsn, admin}
}

// chat returns the run for a message that a principal sends in the session with the given name.
func (r *storedEnv) chat(principal, session, text string) queuedb.NewRun {
	run := r.run("", session)
	run.CallerKind, run.Principal, run.Lane, run.Retention = domain.CallerUser, principal, domain.LaneChat, 0
	run.TriggerType, run.Input = domain.TriggerChat, fmt.Appendf(nil, `{"message":%q}`, text)
	run.SessionKey = contract.Hash(r.org, r.agent, principal, session)
	return run
}

// auto returns an automation's run.
func (r *storedEnv) auto(session string) queuedb.NewRun {
	run := r.run("", session)
	run.SessionKey = contract.Hash(r.org, r.agent, domain.SystemPrincipal, run.SessionID)
	return run
}

// said accepts a message, completes its run with the answer, and returns the run's id.
func (r *storedEnv) said(run queuedb.NewRun, answer string) string {
	r.Helper()
	runID := r.accept(wideWindow, run)[0].Run.Run.ID
	r.finish(r.mustClaim(runID), answer)
	return runID
}

func (r *storedEnv) named(principal, session string) sessiondb.SessionName {
	return sessiondb.SessionName{
		OrganizationID: r.org, TargetID: r.agent, SessionID: session, Key: contract.Hash(r.org, r.agent, principal, session),
	}
}

func (r *storedEnv) raw(query string, args ...any) {
	r.Helper()
	if _, err := r.admin.ExecContext(r.Context(), query, args...); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

func (r *storedEnv) number(query string, args ...any) (n int) {
	r.Helper()
	if err := r.admin.QueryRowContext(r.Context(), query, args...).Scan(&n); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return n
}

func (r *storedEnv) list(f sessiondb.SessionFilter, limit int) (shown string, last int64) {
	r.Helper()
	sessions, err := r.s.Sessions.Sessions(r.Context(), r.org, f, limit)
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range sessions {
		shown += fmt.Sprintf("%s/%s:%d ", s.Principal, s.SessionID, s.Runs)
		last = s.Ref
	}
	return strings.TrimSpace(shown), last
}

func (r *storedEnv) read(name sessiondb.SessionName, before, limit int) (shown string, first int) {
	r.Helper()
	s, turns, err := readSession(r.Context(), r.s, name, before, limit)
	if err != nil {
		r.Fatal(err)
	}
	shown = fmt.Sprintf("%s:%d", s.Principal, s.Runs)
	for _, turn := range turns {
		answer := "-"
		if turn.Answer != nil {
			answer = *turn.Answer
		}
		if (turn.Citations != nil) != turn.Status.Terminal() || (turn.FinishedAt != nil) != turn.Status.Terminal() {
			r.Errorf("turn %+v", turn)
		}
		shown += fmt.Sprintf(" %d=%s>%s", turn.Seq, turn.Message, answer)
		first = turn.Seq
	}
	return shown, first
}

func TestSessionsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	r.said(r.chat("usr_1", "one", "a"), "A")
	r.said(r.chat("usr_2", "two", "b"), "B")
	r.said(r.auto("auto"), "C")
	r.said(r.chat("usr_1", "one", "d"), "D") // adds a turn to an old session
	r.accept(wideWindow, r.chat("usr_1", "three", "e"))
	gone := r.said(r.auto("gone"), "F")
	r.raw(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, gone)
	r.raw(`INSERT INTO sessions (key, org_id, target_id, principal, session_id, last_seq) VALUES ('x', $1, $2, 'usr_1', 'empty', 1)`, r.org, r.agent)
	for _, c := range []struct {
		filter sessiondb.SessionFilter
		want   string
	}{
		{sessiondb.SessionFilter{}, "usr_1/three:1 system/auto:1 usr_2/two:1 usr_1/one:2"},
		{sessiondb.SessionFilter{Principals: []string{"usr_1"}}, "usr_1/three:1 usr_1/one:2"},
		{sessiondb.SessionFilter{Principals: []string{"system"}}, "system/auto:1"},
		{sessiondb.SessionFilter{Principals: []string{"usr_3"}}, ""},
	} {
		if got, _ := r.list(c.filter, 9); got != c.want {
			t.Errorf("%+v lists %q, want %q", c.filter, got, c.want)
		}
	}
	page, last := r.list(sessiondb.SessionFilter{}, 2)
	rest, _ := r.list(sessiondb.SessionFilter{Before: last}, 9)
	if page != "usr_1/three:1 system/auto:1" || rest != "usr_2/two:1 usr_1/one:2" {
		t.Errorf("pages %q and %q", page, rest)
	}
	if foreign, err := r.s.Sessions.Sessions(t.Context(), "org_other", sessiondb.SessionFilter{}, 9); err != nil || len(foreign) != 0 {
		t.Errorf("another organization lists %+v, %v", foreign, err)
	}
}

func TestReadingASessionByTurns(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	for n := range 5 {
		r.said(r.chat("usr_1", "s", fmt.Sprintf("q%d", n+1)), fmt.Sprintf("a%d", n+1))
	}
	r.accept(wideWindow, r.chat("usr_1", "s", "q6"))
	page, first := r.read(r.named("usr_1", "s"), 0, 4)
	rest, _ := r.read(r.named("usr_1", "s"), first, 4)
	if page != "usr_1:6 6=q6>- 5=q5>a5 4=q4>a4 3=q3>a3" || rest != "usr_1:6 2=q2>a2 1=q1>a1" {
		t.Errorf("pages %q and %q", page, rest)
	}
	expired := r.said(r.auto("auto"), "old")
	r.said(r.auto("auto"), "new")
	r.raw(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, expired)
	if got, _ := r.read(r.named("system", "auto"), 0, 9); got != "system:1 2=hi>new" {
		t.Errorf("session with an expired run: %q", got)
	}
	r.raw(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE session_id = 'auto'`)
	missing := func(name sessiondb.SessionName) {
		t.Helper()
		_, _, err := readSession(t.Context(), r.s, name, 0, 9)
		wantCode(t, err, apierr.NotFound)
		_, err = r.s.Sessions.EraseSession(t.Context(), name)
		wantCode(t, err, apierr.NotFound)
	}
	missing(r.named("system", "auto")) // all runs of this session have expired
	missing(r.named("usr_2", "s"))     // this session belongs to another principal
	foreign := r.named("usr_1", "s")
	foreign.OrganizationID = "org_other"
	missing(foreign)
}

// Several principals have sessions with the same name. Each session is found and erased only by its
// own principal.
func TestASessionBelongsToOnePrincipal(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	r.said(r.auto("s"), "automation")
	r.said(r.chat("usr_1", "s", "q"), "one")
	r.said(r.chat("usr_2", "s", "q"), "two")
	for principal, want := range map[string]string{"usr_1": "usr_1:1 1=q>one", "usr_2": "usr_2:1 1=q>two", "system": "system:1 1=hi>automation"} {
		if got, _ := r.read(r.named(principal, "s"), 0, 9); got != want {
			t.Errorf("%s reads %q, want %q", principal, got, want)
		}
	}
	if _, err := r.s.Sessions.EraseSession(t.Context(), r.named("usr_1", "s")); err != nil {
		t.Fatal(err)
	}
	_, err := r.s.Sessions.EraseSession(t.Context(), r.named("usr_1", "s"))
	wantCode(t, err, apierr.NotFound)
	if got, _ := r.list(sessiondb.SessionFilter{}, 9); got != "usr_2/s:1 system/s:1" {
		t.Errorf("left: %q", got)
	}
}

// TestManySessionsStayFast measures statements by the pages that they read, because times depend on
// the machine.
func TestManySessionsStayFast(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	// Most sessions belong to automations and have one run. Every hundredth session belongs to a
	// person, and one session is very long.
	r.raw(`INSERT INTO sessions (key, org_id, target_id, principal, session_id, last_seq)
		SELECT n::text::bytea, $1, $2, CASE WHEN n % 100 = 0 THEN 'usr_' || n % 700 ELSE 'system' END, 's' || n % 5000, 1 FROM generate_series(1, 100000) n`,
		r.org, r.agent)
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input,
		  retention, created_at, status, result, answer, attempts, finished_at)
		SELECT 'run_' || ref, org_id, target_id, 1, ref, 1, session_id, principal, 'user', 'chat', '{"message":"m"}', 0, now(), 'completed', '{}', 'a', 1, now()
		FROM sessions`)
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input,
		  retention, created_at, status, result, answer, attempts, finished_at)
		SELECT 'run_x' || n, $1, $2, 1, 300, n, 's300', 'usr_300', 'user', 'chat', '{"message":"m"}', 0, now(), 'completed', '{}', 'a', 1, now()
		FROM generate_series(2, 20000) n`, r.org, r.agent)
	// The sessions of other organizations are newer.
	r.raw(`INSERT INTO sessions (key, org_id, target_id, principal, session_id, last_seq)
		SELECT ('o' || n)::bytea, 'org_' || n % 100, 'ag', 'usr_100', 's200', 1 FROM generate_series(1, 100000) n`)
	r.raw(`VACUUM ANALYZE sessions, runs`)
	long := r.named("usr_300", "s300")
	long.Key = []byte("300")
	for name, c := range map[string]struct {
		f       func(s *store.Store)
		maximum int
	}{
		"first page": {func(s *store.Store) { r.must(s.Sessions.Sessions(t.Context(), r.org, sessiondb.SessionFilter{}, 101)) }, 1000},
		"a later page": {func(s *store.Store) {
			r.must(s.Sessions.Sessions(t.Context(), r.org, sessiondb.SessionFilter{Before: 50_000}, 101))
		}, 1000},
		"a person's": {func(s *store.Store) {
			r.must(s.Sessions.Sessions(t.Context(), r.org, sessiondb.SessionFilter{Principals: []string{"usr_100"}}, 101))
		}, 1000},
		"nobody's": {func(s *store.Store) {
			r.must(s.Sessions.Sessions(t.Context(), r.org, sessiondb.SessionFilter{Principals: []string{"usr_x"}}, 101))
		}, 100},
		"one by its name": {func(s *store.Store) {
			r.must(s.Sessions.SessionsNamed(t.Context(), r.org, "s200", []string{"usr_100"}))
		}, 100},
		"anybody's by its name": {func(s *store.Store) { r.must(s.Sessions.SessionsNamed(t.Context(), r.org, "s201", nil)) }, 200},
		"a run's own": {func(s *store.Store) {
			r.must(s.Sessions.SessionsNamed(t.Context(), r.org, sessiondb.OwnSessionPrefix+strings.Repeat("0", 26), nil))
		}, 100},
		"a page of a long one": {func(s *store.Store) {
			sessions, turns, err := readSession(t.Context(), s, long, 10_000, 101)
			r.must(nil, err)
			if sessions.Runs != sessiondb.CountedRuns || len(turns) != 101 || turns[0].Seq != 9999 {
				t.Errorf("%+v with %d turns", sessions, len(turns))
			}
		}, 1500},
	} {
		if n := r.touched(c.f); n > c.maximum {
			t.Errorf("%s: %d pages were touched, want at most %d", name, n, c.maximum)
		} else {
			t.Logf("%s: %d pages", name, n)
		}
	}
}

func (r *storedEnv) must(_ any, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// touched returns the number of table and index pages that f reads. A server process reports its
// reads when it ends, so f gets a separate store, whose connections are closed before the count.
func (r *storedEnv) touched(f func(s *store.Store)) int {
	r.Helper()
	tables := []string{"sessions", "runs", "open_runs", "blobs", "blob_chunks", "files", "documents", "run_documents"}
	for _, table := range tables { // the server's first access to a new row reads additional pages, which must not count
		r.raw(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
	}
	r.raw(`SELECT pg_stat_force_next_flush()`) // writes this connection's statistics now, and not during the measurement
	count := func() int {
		return r.number(`SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::int FROM pg_statio_user_tables
			WHERE relname = ANY ($1)`, pq.Array(tables))
	}
	before := count()
	s, err := store.Open(r.dsn, 1)
	if err != nil {
		r.Fatal(err)
	}
	f(s)
	var process int
	if err := s.SQL().QueryRowContext(r.Context(), `SELECT pg_backend_pid()`).Scan(&process); err != nil {
		r.Fatal(err)
	}
	if err := s.Close(); err != nil {
		r.Fatal(err)
	}
	for r.number(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, process) > 0 {
		if r.Context().Err() != nil {
			r.Fatal("the connection does not end")
		}
	}
	return count() - before
}

// readSession returns a session and a full page of its newest turns.
func readSession(
	ctx context.Context, s *store.Store, name sessiondb.SessionName, before, limit int,
) (found sessiondb.Session, turns []sessiondb.SessionTurn, err error) {
	page, err := s.Sessions.PageOfSession(ctx, name, before, limit, 0)
	return page.Session, page.Turns, err
}
