package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/scripts/internal/cluster"
	"parley/shared/lifecycle"
	"parley/shared/store/pg"
	"parley/shared/testkit"
)

// striker injects faults and records their outcomes.
type striker struct {
	t       *testing.T
	cluster *cluster.Cluster
	lease   time.Duration // the lease of the programs
	past    *history
	ledger  *ledger
	seed    uint64
	began   time.Time
	disks   map[string]*testkit.Disk // the servers' disks, by server
	skewed  string                   // path of a worker program with an adjustable clock

	group sync.WaitGroup
	busy  sync.Map // the links and parts that have a lasting fault

	mu     sync.Mutex
	counts map[string]int
}

// linksHarmed counts faults of links, regardless of their kind. The short form requires only this
// total, because the part at a chosen link may be down.
const linksHarmed = "links harmed"

// reach bounds the wait for a part that is starting, before a fault can strike it.
const reach = 15 * time.Second

// all injects the faults of a schedule. It returns when the last fault has ended.
func (s *striker) all(ctx context.Context, faults []fault) {
	for _, f := range faults {
		_ = lifecycle.Sleep(ctx, time.Until(s.began.Add(f.At)))
		s.group.Go(func() { s.strike(ctx, f) })
	}
	s.group.Wait()
}

// count counts an event, such as an injected fault.
func (s *striker) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *striker) announce(f fault, how string) {
	fmt.Printf("%6.1f s  (%s) %s\n", time.Since(s.began).Seconds(), how, f)
}

func (s *striker) part(name string) *cluster.Part {
	for _, p := range s.cluster.Parts {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// strike injects one fault. It counts and logs the outcome: whether the fault was injected, or why
// not.
func (s *striker) strike(ctx context.Context, f fault) {
	p := s.part(f.Part)
	var done bool
	switch f.Kind {
	case kill:
		s.aim(ctx, p)
		done = s.kill(ctx, p, nil)
		if done {
			s.count("kills of " + p.Kind)
		}
	case restart:
		done = eventually(ctx, p.Term)
	case deletion:
		done = s.kill(ctx, p, func() { s.deleteStore() })
	case truncate:
		done = s.kill(ctx, p, func() { s.truncateStream(f) })
	case freeze:
		s.aimAtRuns(ctx, p)
		done = s.lasting(ctx, f, func() bool { return eventually(ctx, p.Stop) }, p.Cont)
	case fill:
		done = s.fill(ctx, f, p)
	case skew:
		done = s.skew(ctx, f, p)
	case lock:
		done = s.lock(ctx, f)
	case snapshot:
		done = s.snapshot(ctx, f)
	default:
		done = s.link(ctx, f, p)
	}

	how := "done"
	switch {
	case done:
		s.count(f.Kind)
		if f.Link != "" {
			s.count(linksHarmed)
		}
	case f.Kind == fill:
		s.count("not done: " + f.Kind)
		how = "NOT DONE: there is no disk, the server has another fault, or the server has not noticed"
	default:
		s.count("not done: " + f.Kind)
		how = "NOT DONE: the part was down, or has another fault"
	}

	s.announce(f, how)
}

// One in four kills of tool workers is aimed: it waits for the right moment, but no longer than
// aimTimeout.
const (
	aimed      = 4
	aimTimeout = time.Second
)

// aim delays one in four kills of tool workers until the ledger is receiving payment of an unsafe
// bill. After such a kill, only a person can find out whether the bill was paid.
func (s *striker) aim(ctx context.Context, p *cluster.Part) {
	s.mu.Lock()
	n := s.counts["kills of "+cluster.Tool]
	s.mu.Unlock()
	if p.Kind != cluster.Tool || n%aimed != 0 {
		return
	}
	for end := time.Now().Add(aimTimeout); s.ledger.unsafe.Load() == 0 && time.Now().Before(end); {
		_ = lifecycle.Sleep(ctx, time.Millisecond)
	}
}

// An agent worker is frozen as soon as at least minRunning runs are in progress, and at the latest
// after runningTimeout.
const (
	minRunning     = 6
	runningTimeout = 5 * time.Second
)

// aimAtRuns delays the freezing of an agent worker until enough runs are in progress, so that the
// worker loses leases while it is frozen. It counts only leases that were renewed in the last
// second and a half, because a run with an older lease may have lost its worker.
func (s *striker) aimAtRuns(ctx context.Context, p *cluster.Part) {
	if p.Kind != cluster.Agent {
		return
	}
	for end := time.Now().Add(runningTimeout); time.Now().Before(end); {
		var running int
		err := s.cluster.DB.QueryRowContext(ctx, `SELECT count(*) FROM open_runs WHERE status = 'running'
			AND lease_until > clock_timestamp() + $1::interval`, pg.Interval(s.lease-1500*time.Millisecond)).Scan(&running)
		if err == nil && running >= minRunning { // an error means that PostgreSQL is down
			return
		}
		_ = lifecycle.Sleep(ctx, 20*time.Millisecond)
	}
}

// eventually calls try until it returns true, for at most the time reach.
func eventually(ctx context.Context, try func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	for !try() {
		if ctx.Err() != nil {
			return false
		}
		_ = lifecycle.Sleep(ctx, 20*time.Millisecond)
	}
	return true
}

func (s *striker) kill(ctx context.Context, p *cluster.Part, meanwhile func()) bool {
	return eventually(ctx, func() bool { return p.Kill9(meanwhile) })
}

// lasting injects a fault and reverts it after the fault's duration.
func (s *striker) lasting(ctx context.Context, f fault, do func() bool, undo func()) bool {
	key := f.Part + " " + f.Link
	if _, taken := s.busy.LoadOrStore(key, true); taken {
		return false
	}
	defer s.busy.Delete(key)
	if !do() {
		return false
	}

	from := time.Now()
	_ = lifecycle.Sleep(ctx, f.For)
	undo()
	s.past.note(func(all *evidence) {
		all.Interrupted = append(all.Interrupted, interruption{Part: f.Part, What: f.Kind, From: from, To: time.Now()})
	})
	return true
}

// link injects a fault into one link of a process.
func (s *striker) link(ctx context.Context, f fault, p *cluster.Part) bool {
	proxy := map[string]*testkit.FaultProxy{"front": p.Front, "db": p.DB, "bus": p.Bus}[f.Link]
	do := map[string]func(){
		cut: proxy.Cut, requests: proxy.CutRequests, replies: proxy.CutReplies, reset: proxy.Reset, delay: func() { proxy.Delay(f.By) },
	}[f.Kind]
	undo := func() {
		proxy.Delay(0)
		proxy.Restore()
	}
	return s.lasting(ctx, f, func() bool { do(); return true }, undo)
}

// store returns the directory of JetStream's data.
func (s *striker) store() string { return filepath.Join(s.cluster.Store, "jetstream") }

// deleteStore deletes all of JetStream's data.
func (s *striker) deleteStore() {
	if _, err := os.Stat(s.store()); err != nil {
		s.t.Errorf("no store to delete: %v", err)
	}
	if err := os.RemoveAll(s.store()); err != nil {
		s.t.Errorf("deleting the store: %v", err)
	}
}

// blocksCut is the name under which the message files that truncateStream truncates are counted.
// Such files exist only while messages wait in the stream.
const blocksCut = "message blocks truncated"

// truncateStream truncates every file of the job stream and of its consumers. The seed determines
// the positions. It does nothing if an earlier fault has deleted the store.
func (s *striker) truncateStream(f fault) {
	random := rand.New(rand.NewPCG(s.seed, uint64(f.At)))
	blocks := 0
	err := filepath.WalkDir(s.store(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		block := filepath.Ext(path) == ".blk"
		if !block && random.IntN(2) == 0 {
			return nil
		}
		if block {
			blocks++
		}
		return os.Truncate(path, random.Int64N(info.Size()))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("truncating the stream: %v", err)
	}

	s.mu.Lock()
	s.counts[blocksCut] += blocks
	s.mu.Unlock()
}

// noSpace is nats-server's log message for a full disk.
const noSpace = "no space left"

// fill fills a server's disk for a while. NATS's disk stays full until the server has logged an
// error. Without this error, the fault does not count. Like an operator, fill frees space before a
// server that has failed is restarted.
func (s *striker) fill(ctx context.Context, f fault, p *cluster.Part) bool {
	disk := s.disks[f.Part]
	if disk == nil {
		return false
	}

	met, before := true, 0
	filled := s.lasting(ctx, f, func() bool {
		p.Excuse()
		before = s.cluster.Count(f.Part, noSpace)
		if err := disk.Fill(); err != nil {
			s.t.Errorf("filling the disk of %s: %v", f.Part, err)
		}
		return true
	}, func() {
		if f.Part == cluster.NATS {
			met = eventually(ctx, func() bool { return s.cluster.Count(f.Part, noSpace) > before })
		}
		if err := disk.Free(); err != nil {
			s.t.Errorf("freeing the disk of %s: %v", f.Part, err)
		}
		// nats-server disables JetStream when its disk is full, and enables it only at its next start.
		if f.Part == cluster.NATS && !s.kill(ctx, p, nil) {
			s.t.Errorf("%s was not restarted after its disk was full", f.Part)
		}
	})
	if filled && met {
		s.count("disk of " + f.Part + " full")
	}
	return filled && met
}

// skew restarts a worker with a wrong clock, and later with the correct one.
func (s *striker) skew(ctx context.Context, f fault, p *cluster.Part) bool {
	return s.lasting(ctx, fault{Part: f.Part, Kind: f.Kind, Link: "clock", For: f.For}, func() bool {
		p.Next(cluster.Extra{Path: s.skewed, Env: []string{cluster.Offset(f.By)}})
		return s.kill(ctx, p, nil)
	}, func() {
		p.Next(cluster.Extra{})
		s.kill(ctx, p, nil)
	})
}

// lockable returns the queries that a lock fault uses. The first query locks the row of a session
// with an open run. The second one locks the row of a run whose lease was renewed recently.
func (s *striker) lockable() []string {
	return []string{
		`SELECT FROM sessions WHERE ref = ANY (ARRAY(SELECT session_ref FROM open_runs)) ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED`,
		`SELECT FROM open_runs WHERE status = 'running' AND lease_until > clock_timestamp() + interval '` + pg.Interval(s.lease/2) + `'
			ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED`,
	}
}

// Names under which the effects of database faults are counted: a statement of the service waited
// for a locked row; an open snapshot kept vacuum from removing dead rows.
const (
	lockedOut = "locked rows that a statement waited for"
	beside    = "transactions during a long snapshot"
)

// lock locks a row in a separate transaction as soon as there is a suitable row. It reports whether
// a statement of the service has waited for the row.
func (s *striker) lock(ctx context.Context, f fault) bool {
	queries := s.lockable()
	query := queries[rand.New(rand.NewPCG(s.seed, uint64(f.At))).IntN(len(queries))]
	return eventually(ctx, func() bool {
		tx, err := s.cluster.DB.BeginTx(ctx, nil)
		if err != nil {
			return false // PostgreSQL may be down
		}
		defer func() { _ = tx.Rollback() }() // an error means that the connection was killed
		var holder int
		if tx.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&holder) != nil {
			return false
		}
		done, err := tx.ExecContext(ctx, query)
		if err != nil {
			return false
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return false
		}
		if s.blocks(ctx, holder, f.For) {
			s.count(lockedOut)
		}
		return true
	})
}

// blocks waits for the duration d and reports whether a statement has waited for a lock of the
// given backend process. It polls often, because the service waits only briefly for locks.
func (s *striker) blocks(ctx context.Context, holder int, d time.Duration) bool {
	found := false
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; _ = lifecycle.Sleep(ctx, 10*time.Millisecond) {
		if found {
			_ = lifecycle.Sleep(ctx, time.Until(end))
			break
		}
		err := s.cluster.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid)))`, holder).Scan(&found)
		if err != nil {
			_ = lifecycle.Sleep(ctx, time.Second) // PostgreSQL is down, and its locks are gone
		}
	}
	return found
}

// snapshot keeps a database snapshot open for the fault's duration. If PostgreSQL is killed
// meanwhile, it takes another snapshot for the remaining time.
func (s *striker) snapshot(ctx context.Context, f fault) bool {
	held := false
	for end := time.Now().Add(f.For); time.Now().Before(end) && ctx.Err() == nil; _ = lifecycle.Sleep(ctx, 100*time.Millisecond) {
		age := s.holdSnapshot(ctx, end)
		held = held || age >= 0
		s.mu.Lock()
		s.counts[beside] += max(0, age)
		s.mu.Unlock()
	}
	return held
}

// holdSnapshot keeps a snapshot open until the time in the argument end, or until PostgreSQL stops
// if that is earlier. It returns the number of transactions that began meanwhile, or -1 if it could
// not take a snapshot.
func (s *striker) holdSnapshot(ctx context.Context, end time.Time) (age int) {
	tx, err := s.cluster.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return -1 // PostgreSQL may be down
	}
	defer func() { _ = tx.Rollback() }()

	for age = -1; ; _ = lifecycle.Sleep(ctx, min(time.Second, time.Until(end))) {
		var pid int
		if tx.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid) != nil {
			return age
		}
		// The age of a snapshot does not change within the transaction that holds it, so another
		// connection reads the age.
		err := s.cluster.DB.QueryRowContext(ctx, `SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&age)
		if err != nil || !time.Now().Before(end) {
			return age
		}
	}
}

// restore reverts all faults that are still in effect.
func (s *striker) restore() {
	for _, p := range s.cluster.Parts {
		p.Cont()
		p.Next(cluster.Extra{})
		for _, proxy := range []*testkit.FaultProxy{p.Front, p.DB, p.Bus} {
			if proxy != nil {
				proxy.Delay(0)
				proxy.Restore()
			}
		}
	}

	var err error
	for _, disk := range s.disks {
		err = errors.Join(err, disk.Free())
	}

	if err != nil && !errors.Is(err, syscall.ENOENT) {
		s.t.Error(err)
	}
}
