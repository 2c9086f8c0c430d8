package e2e

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// TestBackupUnderLoadIsRestored takes a backup while triggers, messages and documents arrive. It
// restores the backup to an empty server, and starts the service there with an empty bus. All data
// in the backup is complete, its open runs continue, and changes made after the backup are missing.
func TestBackupUnderLoadIsRestored(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := newCluster(t, sandboxed, "LIMIT_USER=5000")
	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url)
	u := &workload{owner: owner, keyed: map[int]api.Answer{}}
	for n := range useLine {
		u.line = append(u.line, owner.enqueue(t, trigger{message: fmt.Sprintf("sleep 2s: line %d", n), session: "line"}))
	}

	u.begin(t)
	u.await(t, 30)
	file := filepath.Join(t.TempDir(), "parley.backup")
	c.script(t, "backup.sh", file, c.backupLogin(t))
	behind := owner.enqueue(t, trigger{message: "after the backup"})
	u.await(t, u.answers()+20)
	u.end(t)
	for _, process := range []*testkit.Process{in.Process, worker, c.nats.Process} {
		process.Kill9()
	}

	again := newClusterFor(t, testkit.EmptyPostgresProcess(t), testkit.NATSProcess(t, ""), c.settings...)
	again.model = c.model
	again.refusesJunk(t)
	again.script(t, "restore.sh", file, again.postgres.DSN())
	again.wantSchema(t, c)
	r := again.restored(t)
	t.Logf("runs: %d in the backup, %d of them open, %d later", len(r.status), r.open, u.answers()+useLine-len(r.status))
	if r.open == 0 || len(r.status) <= r.open {
		t.Fatalf("a backup with %d runs, %d of them open, proves nothing", len(r.status), r.open)
	}

	owner = owner.at(again.ingress(t))
	again.worker(t)
	owner.get(t.Context(), "/api/runs?id="+behind).Want(t, http.StatusNotFound)
	r.wantRuns(t, owner, u)
	r.wantSession(t, owner, u, c.model)
	r.wantDocuments(t, owner, u)
	again.wantConsistentRows(t)
	signUp(t, owner.url).get(t.Context(), "/api/runs?id="+u.line[0]).Want(t, http.StatusNotFound)
}

// backupStatements matches the SQL statements in docs/operations.md that create the login for
// backups.
var backupStatements = regexp.MustCompile(`(CREATE ROLE parley_backup|GRANT CONNECT ON DATABASE parley TO parley_backup)[^;]*;`)

// backupLogin revokes public access to the database, as deploy/compose/postgres-roles.sh does, and
// creates the login that docs/operations.md describes. It returns a database URL that uses this
// login.
func (c *cluster) backupLogin(t *testing.T) (address string) {
	t.Helper()
	at, err := url.Parse(c.postgres.DSN())
	if err != nil {
		t.Fatal(err)
	}

	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}

	database := strings.TrimPrefix(at.Path, "/")
	statements := backupStatements.FindAllString(string(page), -1)
	if len(statements) != 2 {
		t.Fatalf("statements in docs/operations.md = %q", statements)
	}

	for _, statement := range append([]string{"REVOKE ALL ON DATABASE parley FROM PUBLIC;"}, statements...) {
		statement = strings.Replace(strings.Replace(statement, "…", "of the tests", 1), "DATABASE parley ", "DATABASE "+database+" ", 1)
		if _, err := c.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}

	at.User = url.UserPassword("parley_backup", "of the tests")
	return at.String()
}

// script runs a script from deploy/ on the database at address. The script must succeed.
func (c *cluster) script(t *testing.T, name, file, address string) {
	t.Helper()
	said, err := c.tryScript(t, name, file, address)
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, said)
	}
	t.Log(strings.TrimSpace(said))
}

func (c *cluster) tryScript(t *testing.T, name, file, address string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(testkit.Root(t), "deploy", name), file)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+address, "PG_RUN=")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// refusesJunk tries to restore a file that is not a backup. The restore must fail and leave the
// database unchanged.
func (c *cluster) refusesJunk(t *testing.T) {
	t.Helper()
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("PGDMP, or so it says"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := c.tryScript(t, "restore.sh", junk, c.postgres.DSN()); err == nil || !strings.Contains(said, "is not a backup") {
		t.Fatalf("an invalid backup was restored: %v: %s", err, said)
	}
}

// wantSchema compares the schemas of two databases, including row-level security.
func (c *cluster) wantSchema(t *testing.T, source *cluster) {
	t.Helper()
	for what, query := range map[string]string{
		"tables, their owners, rights and row-level security": `SELECT format('%s %s %s %s %s %s', relname, relkind, relowner::regrole,
			(SELECT array_agg(a::text ORDER BY a::text) FROM unnest(relacl) a), relrowsecurity, relforcerowsecurity)
			FROM pg_class WHERE relnamespace = 'public'::regnamespace`,
		"columns": `SELECT format('%s.%s %s %s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull, attcollation, attacl)
			FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)`,
		"policies": `SELECT p::text FROM pg_policies p`,
		"functions": `SELECT format('%s %s %s %s %s', oid::regprocedure, proowner::regrole, prosecdef,
			(SELECT array_agg(a::text ORDER BY a::text) FROM unnest(proacl) a), md5(prosrc)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace`,
		"constraints": `SELECT format('%s %s %s %s', conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid, true)) FROM pg_constraint
			WHERE connamespace = 'public'::regnamespace`,
		"triggers":   `SELECT pg_get_triggerdef(oid) || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal`,
		"migrations": `SELECT version_id::text FROM goose_db_version UNION ALL SELECT name || function_digest || trigger_digest FROM function_files`,
		"roles": `SELECT format('%s %s %s %s %s', rolname, rolsuper, rolbypassrls, rolcanlogin, pg_has_role('parley_app', 'parley_system', 'MEMBER')) FROM pg_roles
			WHERE rolname IN ('parley_app', 'parley_system')`,
	} {
		was, is := source.column(t, query), c.column(t, query)
		for _, lost := range slices.DeleteFunc(slices.Clone(was), func(v string) bool { return slices.Contains(is, v) }) {
			t.Errorf("%s: lost: %s", what, lost)
		}
		if len(was) != len(is) || len(was) == 0 {
			t.Errorf("%s: got %d, want %d", what, len(is), len(was))
		}
	}

	tx, err := c.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads

	var seen int
	if _, err := tx.ExecContext(t.Context(), "SET ROLE parley_app"); err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM runs").Scan(&seen); err != nil || seen != 0 {
		t.Errorf("without an organization, %d runs are visible: %v", seen, err)
	}
}

// wantConsistentRows checks that no row references a missing run or session, that no run is open,
// that the runs of a session have different numbers, and that every index is valid.
func (c *cluster) wantConsistentRows(t *testing.T) {
	t.Helper()
	for what, query := range map[string]string{
		"steps without a run":    `SELECT s.run_id FROM steps s LEFT JOIN runs r ON r.id = s.run_id WHERE r.id IS NULL`,
		"events without a run":   `SELECT e.run_id FROM run_events e LEFT JOIN runs r ON r.id = e.run_id WHERE r.id IS NULL`,
		"open runs":              `SELECT run_id FROM open_runs`,
		"unfinished runs":        `SELECT id FROM runs WHERE finished_at IS NULL`,
		"runs without a session": `SELECT r.id FROM runs r LEFT JOIN sessions s ON s.ref = r.session_ref WHERE s.ref IS NULL`,
		"duplicate numbers":      `SELECT session_ref::text FROM runs GROUP BY session_ref, seq HAVING count(*) > 1`,
		"invalid indexes":        `SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`,
	} {
		if found := c.column(t, query); len(found) > 0 {
			t.Errorf("%s: %d: %v …", what, len(found), found[:min(3, len(found))])
		}
	}
}

// column returns the texts that a query selects, one for each row.
func (c *cluster) column(t *testing.T, query string) (found []string) {
	t.Helper()
	rows, err := c.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()

	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		found = append(found, value)
	}

	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// inBackup contains the runs and documents of a restored database before the service has used it.
type inBackup struct {
	status    map[string]string // status of each run, by ID
	open      int
	documents map[string]bool
}

func (c *cluster) restored(t *testing.T) inBackup {
	t.Helper()
	b := inBackup{status: map[string]string{}, documents: map[string]bool{}}
	for _, row := range c.column(t, `SELECT r.id || ' ' || coalesce(o.status, r.status) FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id`) {
		id, status, _ := strings.Cut(row, " ")
		b.status[id] = status
	}
	b.open = len(c.column(t, "SELECT run_id FROM open_runs"))
	for _, id := range c.column(t, "SELECT id FROM documents") {
		b.documents[id] = true
	}
	return b
}

// wantRuns checks every run in the backup. A repeated request for a finished run returns the
// original response byte for byte. Open runs finish.
func (b inBackup) wantRuns(t *testing.T, owner account, u *workload) {
	t.Helper()
	for n, id := range u.line {
		owner.result(t, id, 2*lease+time.Minute).Want(t, http.StatusOK)
		if r := owner.get(t.Context(), "/api/runs?id="+id).Run(t); r.Status != "completed" || r.Output.Message != echoed(fmt.Sprintf("line %d", n)) {
			t.Errorf("line %d: %+v", n, r)
		}
	}

	for n, was := range u.keyed {
		id := was.Run(t).ID
		switch status, kept := b.status[id]; {
		case !kept:
			owner.get(t.Context(), "/api/runs?id="+id).Want(t, http.StatusNotFound)
		case status == "completed":
			if replay := owner.post(t.Context(), keyedUse(n)).Replayed(t); !bytes.Equal(replay.Body, was.Body) {
				t.Errorf("trigger %d: the replay differs from the first response:\n%s\n%s", n, replay.Body, was.Body)
			}
		default:
			owner.result(t, id, 2*lease+time.Minute)
			if r := owner.post(t.Context(), keyedUse(n)).Replayed(t).Run(t); r.ID != id || r.Status != "completed" {
				t.Errorf("trigger %d was %s when the backup was taken; its run is now %+v", n, status, r)
			}
		}
	}
}

// wantSession sends a message in a restored session. The model must receive the session's messages
// from the backup, in order and without a gap.
func (b inBackup) wantSession(t *testing.T, owner account, u *workload, model *ledger) {
	t.Helper()
	owner.chats(t, useSession, "chat after the restore")
	history, last := model.historyFor("chat after the restore"), -1
	for n, id := range u.chats {
		at := strings.Index(history, "user: "+chatUse(n)+"\n")
		if _, kept := b.status[id]; kept != (at >= 0) || kept && at < last {
			t.Errorf("message %d (in the backup: %t) is at position %d of the history, after %d", n, kept, at, last)
		}
		last = max(last, at)
	}

	if last < 0 {
		t.Errorf("no message of the session is in the backup: %s", history)
	}
}

// wantDocuments searches for the documents in the backup. Unfinished documents must first become
// ready.
func (b inBackup) wantDocuments(t *testing.T, owner account, u *workload) {
	t.Helper()
	kept := 0
	for n, id := range u.documents {
		if !b.documents[id] {
			owner.get(t.Context(), "/api/knowledge?id="+id).Want(t, http.StatusNotFound)
			continue
		}
		kept++
		if d := owner.processed(t, id, 2*lease+time.Minute); d.Status != "ready" {
			t.Errorf("document %d: %+v", n, d)
		}
		if found := owner.finds(t, documentWord(n)); !slices.Contains(found, id) {
			t.Errorf("search for document %d found %v", n, found)
		}
	}

	if kept == 0 {
		t.Error("no document is in the backup")
	}
}

const (
	useLine    = 4 // number of queued runs of one session
	useClients = 4
	useSession = "kept"
)

// workload sends triggers with idempotency keys, messages in one session, and documents, all at the
// same time.
type workload struct {
	owner account
	line  []string // IDs of the queued runs of one session, in order

	mu        sync.Mutex
	keyed     map[int]api.Answer
	chats     []string // IDs of the runs in the session useSession
	documents []string // IDs
	failed    []string
	stop      context.CancelFunc
	clients   sync.WaitGroup
}

func keyedUse(n int) trigger {
	return trigger{message: fmt.Sprintf("sleep 300ms: used %d", n), key: fmt.Sprintf("used-%d", n)}
}

func chatUse(n int) string { return fmt.Sprintf("sleep 200ms: chat %d", n) }

// documentWord returns a word that occurs only in the nth document.
func documentWord(n int) string { return fmt.Sprintf("heron%dlamp", n) }

// begin starts the clients, which work until end is called.
func (u *workload) begin(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	u.stop = stop
	for first := range useClients {
		u.client(ctx, func(n int) { u.triggers(ctx, first+n*useClients) })
	}
	u.client(ctx, func(n int) { u.says(ctx, n) })
	u.client(ctx, func(n int) { u.uploadDocument(ctx, n) })
}

// client repeats an activity until the load ends. It never interrupts an activity.
func (u *workload) client(ctx context.Context, one func(n int)) {
	u.clients.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			one(n)
		}
	})
}

func (u *workload) triggers(ctx context.Context, n int) {
	got := u.owner.post(context.WithoutCancel(ctx), keyedUse(n))
	u.keep(got, http.StatusOK, func(string) { u.keyed[n] = got })
}

func (u *workload) says(ctx context.Context, n int) {
	got := api.Send(context.WithoutCancel(ctx), http.MethodPost, u.owner.url+"/api/agents?id="+u.owner.agent+"&action=chat",
		map[string]string{"x-api-key": u.owner.key}, map[string]any{"sessionId": useSession, "message": chatUse(n)})
	u.keep(got, http.StatusOK, func(id string) { u.chats = append(u.chats, id) })
}

// uploadDocument uploads a document and waits until the document is ready or ctx ends. It records a
// failure if the document cannot be read.
func (u *workload) uploadDocument(ctx context.Context, n int) {
	got := api.Send(context.WithoutCancel(ctx), http.MethodPost, u.owner.url+"/api/knowledge", map[string]string{"x-api-key": u.owner.key},
		map[string]any{"name": fmt.Sprintf("%d.md", n), "content": "# Manual\n\nThe word of this document is " + documentWord(n) + ".\n"})
	id := u.keep(got, http.StatusAccepted, func(id string) { u.documents = append(u.documents, id) })
	if id == "" {
		return
	}

	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		read := u.owner.get(ctx, "/api/knowledge?id="+id)
		if ctx.Err() != nil {
			return
		}
		var d kept
		if err := cmp.Or(read.Check(http.StatusOK), json.Unmarshal(read.Body, &d)); err != nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.failed = append(u.failed, fmt.Sprintf("reading document %d: %v: %s", n, err, read.Body))
			return
		}
		if d.Status == "ready" {
			return
		}
		<-tick.C
	}
}

// keep calls the argument note with the ID in the response, which is that of the created resource.
// It records a failure if the status of the response is not the given status.
func (u *workload) keep(got api.Answer, status int, note func(id string)) (id string) {
	var made struct {
		ID string `json:"id"`
	}
	err := errors.Join(got.Err, json.Unmarshal(got.Body, &made))
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil || got.Status != status {
		u.failed = append(u.failed, fmt.Sprintf("answer %d, want %d: %v: %s", got.Status, status, err, got.Body))
		return ""
	}
	note(made.ID)
	return made.ID
}

// answers returns the number of runs whose responses have arrived.
func (u *workload) answers() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.keyed) + len(u.chats)
}

// await waits until the given number of responses have arrived and at least two documents have been
// uploaded. It also returns when an activity has failed.
func (u *workload) await(t *testing.T, answers int) {
	t.Helper()
	eventually(t, api.Timeout, fmt.Sprintf("%d responses", answers), func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.failed) > 0 || len(u.keyed)+len(u.chats) >= answers && len(u.documents) > 1
	})
}

// end stops the clients and waits for their current activities. It fails the test if an activity
// has failed.
func (u *workload) end(t *testing.T) {
	t.Helper()
	u.stop()
	u.clients.Wait()
	for _, failed := range u.failed {
		t.Error(failed)
	}
}
