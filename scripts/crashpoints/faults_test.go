package crashpoints

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"

	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// partition is the duration of a network partition. It exceeds every timeout with which one side of
// the connection waits for the other.
const partition = 20 * time.Second

// hold selects a point at which a process waits until release is called. It returns the value for
// PARLEY_FAILPOINTS.
func (b *testEnv) hold(at failpoint.Point) (armed string, release func()) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "go")
	return string(at) + "=hold:" + path, func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// rearm replaces the process of a role with another process, which waits at a failpoint until
// release is called.
func (b *testEnv) rearm(r role, at failpoint.Point) (release func()) {
	b.Helper()
	armed, release := b.hold(at)
	b.replace(r, armed)
	return release
}

// replace stops the process of a role and starts another one whose PARLEY_FAILPOINTS has the given
// value.
func (b *testEnv) replace(r role, armed string) {
	b.Helper()
	b.parts[r].Kill9()
	b.start(r, armed)
}

// struck begins a call and waits until the process of a role has reached the point at which it
// fails.
func (b *testEnv) struck(c call, r role, at failpoint.Point) <-chan settled {
	b.Helper()
	done := b.begin(c)
	b.awaitReached(r, at)
	return done
}

// Calls that several of these tests make.
var (
	chat   = call{name: "struck", tool: once, chat: true}
	beside = call{name: "beside", tool: byKey}
	plain  = call{name: "plain"}
)

// noneAsked fails the test if a person had to decide about a call.
func (b *testEnv) noneAsked(all []settled) {
	b.Helper()
	for _, s := range all {
		if s.asked > 0 {
			b.Errorf("%s: a person was asked for a decision: %s", s.name, s.body)
		}
	}
}

// TestCommitReplyLost breaks the ingress's connection to PostgreSQL after the insert of a run has
// committed, but before the ingress receives the reply.
func TestCommitReplyLost(t *testing.T) {
	t.Parallel()
	var toPostgres *testkit.FaultProxy
	b := newTestEnv(t, options{dsn: testkit.PostgresProcess(t).DSN(), extra: func(b *testEnv) { toPostgres = b.withProxy(ingress, "DATABASE_URL") }})
	// A lock stops the insert inside PostgreSQL, after the ingress has received the replies to its
	// earlier statements for this run. The trigger waits without a limit, because an insert that
	// gives up would need further replies.
	_, err := b.db.ExecContext(t.Context(), `
		CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = 0 AS
		  $$BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NEW; END$$;
		CREATE TRIGGER gate BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION gate()`)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := b.db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = lock.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(77)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := b.begin(chat)
	b.eventually("the insert waits", func() bool {
		return b.number(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '%FROM accept_%'`) == 1
	})
	toPostgres.CutReplies()
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	b.eventually("the insert commits", func() bool { return b.number(`SELECT count(*) FROM runs`) == 1 })
	toPostgres.Reset()
	toPostgres.Restore()
	b.noneAsked(b.settleAll(nil, done, b.begin(beside)))
}

// TestPubAckAndReplyLost cuts the connection between NATS and the ingress in one direction, towards
// the ingress. The job message arrives, but its acknowledgement and the run's reply are lost. The
// ingress finds the answer when it polls the run's row.
func TestPubAckAndReplyLost(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	var toBus *testkit.FaultProxy
	b := newTestEnv(t, options{extra: func(b *testEnv) { toBus = b.withProxy(ingress, "NATS_URL") }})
	release := b.rearm(ingress, failpoint.AcceptAfter)
	done := b.struck(chat, ingress, failpoint.AcceptAfter)
	toBus.CutReplies()
	release()
	b.noneAsked(b.settleAll(func() []settled {
		toBus.Restore()
		return []settled{b.await(b.begin(beside)), b.await(b.begin(plain))}
	}, done))
}

// TestStoreLost deletes the stream's data while a worker executes one run and the jobs of other
// runs wait in the stream. In one subtest all data is lost. In the other, only the end of each file
// is lost, as after a crash of the machine.
func TestStoreLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, string){"deleted": deleteStore, "truncated": truncateStore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "truncated" {
				testkit.Long(t)
			}
			b := newTestEnv(t, options{})
			b.rearm(agent, failpoint.ClaimAfter)
			calls := []<-chan settled{b.struck(plain, agent, failpoint.ClaimAfter)}

			// The slots of a dead worker count until they expire. Jobs are therefore published
			// although no worker is there to fetch them.
			b.parts[agent].Kill9()
			calls = append(calls, b.begin(beside), b.begin(call{name: "behind"}), b.begin(chat))
			b.eventually("jobs for all runs are published", func() bool {
				return b.number(`SELECT count(*) FROM open_runs WHERE dispatched OR status = 'running'`) == len(calls)
			})
			b.bus.Kill9()
			lose(t, b.store)
			b.bus.Restart()
			b.start(agent, "")
			b.noneAsked(b.settleAll(nil, calls...))
		})
	}
}

func deleteStore(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("deleting the store: %v", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// truncateStore truncates each message file in the middle of a message.
func truncateStore(t *testing.T, dir string) {
	t.Helper()
	cut := 0
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".blk") {
			return err
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() < 2 {
			return err
		}
		cut++
		return os.Truncate(path, info.Size()*2/5)
	})
	if err != nil || cut == 0 {
		t.Fatalf("%d files truncated: %v", cut, err)
	}
}

// TestBusDiskFull fills the disk of NATS while runs arrive, and later frees the disk.
func TestBusDiskFull(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	disk, err := testkit.MemoryDisk(t, 512) // large enough: the stream reserves 256 MiB, and a server uses at most three quarters of a disk
	if err != nil {
		t.Skipf("NOT TESTED: a full disk of NATS: %v", err)
	}

	b := newTestEnv(t, options{store: disk.Dir})
	release := b.rearm(agent, failpoint.ClaimAfter)
	calls := []<-chan settled{b.struck(chat, agent, failpoint.ClaimAfter)}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}

	calls = append(calls, b.begin(beside), b.begin(plain))
	accepted := func() bool { return b.number(`SELECT count(*) FROM runs`) == len(calls) }
	b.eventually("runs are accepted while the disk of NATS is full", accepted)
	for more := 0; !strings.Contains(b.bus.Output(), "no space left"); more++ { // the first job messages fit into an allocated block
		if more == 300 {
			t.Fatal("NATS still writes although its disk is full")
		}
		calls = append(calls, b.begin(call{name: "more " + strconv.Itoa(more)}))
		b.eventually("runs are accepted while the disk of NATS is full", accepted)
	}

	release()
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}

	b.noneAsked(b.settleAll(nil, calls...)) // the sweeper recreates the stream, because the server rejects writes to the old one
}

// cut describes a partition: the role of the disconnected process, the server that it cannot reach,
// and the point at which the process waits when the partition begins.
type cut struct {
	role    role
	setting string
	at      failpoint.Point
}

// TestPartition disconnects each process from PostgreSQL and from NATS, in one direction or in
// both. When the partition begins, the process is about to use the server. When the partition ends,
// the data that the partition held back arrives.
func TestPartition(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testkit.FaultProxy){
		"requests": (*testkit.FaultProxy).CutRequests, "replies": (*testkit.FaultProxy).CutReplies, "both": (*testkit.FaultProxy).Cut,
	}

	for name, way := range ways {
		for _, c := range []cut{
			{ingress, "DATABASE_URL", failpoint.AcceptBefore},
			{ingress, "NATS_URL", failpoint.AcceptAfter},
			{agent, "DATABASE_URL", failpoint.EffectAfter},
			{agent, "DATABASE_URL", failpoint.FinishBefore},
			{agent, "NATS_URL", failpoint.EffectAfter},
			{agent, "NATS_URL", failpoint.FinishBefore},
			{tool, "DATABASE_URL", failpoint.SendBefore},
			{tool, "DATABASE_URL", failpoint.OutcomeBefore},
			{tool, "NATS_URL", failpoint.OutcomeBefore},
		} {
			t.Run(name+" "+c.setting+" "+string(c.at), func(t *testing.T) {
				t.Parallel()
				testkit.Long(t)
				c.run(t, way)
			})
		}
	}
}

// run executes calls during a partition and checks them after the partition has ended. The function
// way begins the partition in one or both directions.
func (c cut) run(t *testing.T, way func(*testkit.FaultProxy)) {
	t.Helper()
	var proxy *testkit.FaultProxy
	o := options{extra: func(b *testEnv) { proxy = b.withProxy(c.role, c.setting) }}
	if c.setting == "DATABASE_URL" {
		o.dsn = testkit.PostgresProcess(t).DSN()
	}

	b := newTestEnv(t, o)
	release := b.rearm(c.role, c.at)
	calls := []<-chan settled{b.struck(chat, c.role, c.at)}
	way(proxy)
	release()
	calls = append(calls, b.begin(beside), b.begin(plain))
	heal := time.NewTimer(partition)
	defer heal.Stop()

	select {
	case <-heal.C:
	case <-t.Context().Done():
	}

	proxy.Restore()
	b.unkept = c.at == failpoint.OutcomeBefore
	b.settleAll(nil, calls...)
}

// TestTakenOverDuringAPartition disconnects an agent worker from PostgreSQL until another agent
// worker has finished the first worker's run. When the late statements of the first worker arrive,
// they change nothing.
func TestTakenOverDuringAPartition(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(*testkit.FaultProxy){
		"requests": (*testkit.FaultProxy).CutRequests, "both": (*testkit.FaultProxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Long(t)
			var proxy *testkit.FaultProxy
			b := newTestEnv(t, options{dsn: testkit.PostgresProcess(t).DSN(), extra: func(b *testEnv) { proxy = b.withProxy(agent, "DATABASE_URL") }})
			release := b.rearm(agent, failpoint.FinishBefore)
			done := b.struck(chat, agent, failpoint.FinishBefore)
			way(proxy)
			release()
			lonely := b.parts[agent]
			b.settings[agent] = append(b.settings[agent], "DATABASE_URL="+b.dsn)
			b.start(agent, "")
			b.noneAsked(b.settleAll(func() []settled {
				proxy.Restore()
				b.eventually("the worker logs that its run was taken over", func() bool {
					return strings.Contains(lonely.Output(), "taken over")
				})
				return nil
			}, done, b.begin(beside), b.begin(plain)))
		})
	}
}

// TestDatabaseDiskFull fills the disk that holds the tables, while one run is about to finish and
// other runs arrive. Later it frees the disk.
func TestDatabaseDiskFull(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	disk, err := testkit.MemoryDisk(t, 64)
	if err != nil {
		t.Skipf("NOT TESTED: a full disk of PostgreSQL: %v", err)
	}

	server := testkit.PostgresProcess(t)
	putOnDisk(t, server, disk.Dir)
	b := newTestEnv(t, options{dsn: server.DSN()})
	release := b.rearm(agent, failpoint.FinishBefore)
	calls := []<-chan settled{b.struck(chat, agent, failpoint.FinishBefore)}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}

	release()
	for n := range 40 {
		calls = append(calls, b.begin(call{name: "large" + strconv.Itoa(n), padding: strings.Repeat(rand.Text(), 500)}))
	}

	b.eventually("new runs are rejected", func() bool { return b.refused.Load() > 0 })
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}

	b.noneAsked(b.settleAll(nil, calls...))
}

// putOnDisk moves the tables of a server's database to a separate disk. The write-ahead log stays
// on the server's original disk.
func putOnDisk(t *testing.T, server *testkit.PostgresServer, dir string) {
	t.Helper()
	space := filepath.Join(dir, "tables")
	info, err := os.Stat("/proc/" + strconv.Itoa(server.PID()))
	if err != nil {
		t.Fatal(err)
	}

	owner, _ := info.Sys().(*syscall.Stat_t)
	if err := errors.Join(os.Mkdir(space, 0o700), os.Chown(space, int(owner.Uid), int(owner.Gid))); err != nil {
		t.Fatal(err)
	}

	u, err := url.Parse(server.DSN())
	if err != nil {
		t.Fatal(err)
	}

	database := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	admin, err := sql.Open("postgres", u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()

	for _, statement := range []string{
		`CREATE TABLESPACE small LOCATION ` + pq.QuoteLiteral(space),
		`ALTER DATABASE ` + pq.QuoteIdentifier(database) + ` SET TABLESPACE small`,
	} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
