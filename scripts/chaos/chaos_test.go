package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/cluster"
	"parley/shared/lifecycle"
	"parley/shared/store/lease"
	"parley/shared/testkit"
)

var (
	chaosFor   = flag.Duration("chaos.for", 0, "how long to inject faults; 0: a short form")
	chaosClock = flag.Bool("chaos.clock", true, "include workers built with an adjustable clock, and set their clocks wrong")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "seed for load and faults; 0: a different one each time")
)

const (
	runDeadline = 3 * time.Minute
	// drained is the time after the faults within which all runs must finish. It covers the
	// deadline of runs, the tolerance after the deadline, and the delay on a busy machine.
	drained = runDeadline + afterDeadline + time.Minute
	// postgresDisk and natsDisk are disk sizes in MiB that are large enough for normal operation.
	postgresDisk, natsDisk = 1024, 48 // MiB
	// wholeRun is the default duration of the faults in the long form. A chaos run of this or a
	// longer duration must contain at least manyKills kills.
	wholeRun, manyKills = 10 * time.Minute, 300
)

// form contains the size of a chaos run and the events that must happen in it.
type form struct {
	options cluster.Options
	lease   time.Duration // the lease of the programs
	plan    plan
	clients int
	needs   []string // names of the events that must happen
}

// short returns the form that every test run includes: some seconds of faults. Its programs have a
// short lease, so that leases expire during the faults.
func short() form {
	return form{
		options: cluster.Options{Ingresses: 2, Agents: 3, Tools: 2, Sweepers: 1, Tag: "shortlease"},
		lease:   5 * time.Second,
		plan:    plan{total: 12 * time.Second, kills: 2 * time.Second, frozen: 6 * time.Second},
		clients: 10,
		needs: []string{
			"kills of agent", "kills of tool", "kills of ingress", "kills of nats", "kills of sweep", "kills of postgres",
			linksHarmed, deletion, truncate, lock, freeze, "runs taken over",
			"answers that were replays", "keys answered more than once",
		},
	}
}

// long is the form of `make chaos`. Its programs have the lease of releases.
func long(total time.Duration) form {
	f := short()
	f.options.Tag, f.lease = "", lease.Lease
	f.clients = 20
	f.plan = plan{
		total: total, kills: 1650 * time.Millisecond, postgres: 100 * time.Second, restarts: 75 * time.Second, freezes: 30 * time.Second,
		frozen: 34 * time.Second, links: 5 * time.Second, store: 40 * time.Second, disks: 70 * time.Second, clocks: 40 * time.Second, clock: *chaosClock,
		locks: 6 * time.Second,
	}
	f.needs = append(f.needs, cut, requests, replies, delay, reset, restart, snapshot, beside, "runs with repeated job messages")
	if total >= wholeRun {
		f.needs = append(f.needs, "decisions of a person", "attempts that woke up and were void", "bills sent again, idempotent", blocksCut, lockedOut, judged, judgedLong)
	}
	return f
}

// TestChaos injects faults into all parts while clients start runs, and then checks every run.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}

	f := short()
	if *chaosFor > 0 {
		f = long(*chaosFor)
	}

	t.Logf("seed %d", seed)
	fmt.Printf("chaos: seed %d, faults for %s; to repeat the schedule: -chaos.seed=%d -chaos.for=%s\n", seed, f.plan.total, seed, *chaosFor)
	r := newTrial(t, f, seed)
	r.run(t)
	v := check(&r.past.all)
	r.report(t, v)
}

// trial is one chaos run: the service, the clients, the faults and the evidence.
type trial struct {
	form
	seed    uint64
	past    *history
	cluster *cluster.Cluster
	striker *striker
	watcher *watcher
	load    *load
	person  *person
	names   map[string]string // names of the organizations, by ID
	notDone []string
}

func newTrial(t *testing.T, f form, seed uint64) *trial {
	t.Helper()
	r := &trial{form: f, seed: seed, past: &history{all: evidence{Seen: map[string]string{}, Deadline: runDeadline}}, names: map[string]string{}}
	disks := r.mount(t)
	receiver, provider := newLedger(t, r.past), newModel(t, r.past)
	f.options.Settings = []string{
		"OPENAI_BASE_URL=" + provider.url, "OPENAI_API_KEY=chaos", "OUTBOUND_ALLOW=" + receiver.host,
		"LIMIT_USER=500000", "LIMIT_SYSTEM=600000",
		"WAIT_DEFAULT=" + waitDefault.String(), "RUN_DEADLINE=" + runDeadline.String(),
	}

	f.options.PostgresSettings = map[string]string{"max_connections": "400", "max_wal_size": "256MB"}
	if disks[cluster.NATS] != nil {
		f.options.NATSDir = disks[cluster.NATS].Dir
	}
	if disks[cluster.Postgres] != nil {
		f.options.PostgresDir = disks[cluster.Postgres].Dir
	}

	skewed := ""
	if r.plan.clock {
		var err error
		if skewed, err = cluster.Skewed(t); err != nil {
			t.Fatalf("building a worker with an adjustable clock: %v", err)
		}
		r.needs = append(r.needs, skew)
	} else if r.plan.clocks > 0 {
		r.notDone = append(r.notDone, "workers with wrong clocks: -chaos.clock=false")
	}

	r.cluster = cluster.Start(t, f.options)
	var urls []string
	for _, p := range r.cluster.Of(cluster.Ingress) {
		urls = append(urls, p.URL)
	}

	accounts := []account{signUp(t, urls[0], "one", receiver), signUp(t, urls[1], "two", receiver)}
	for _, a := range accounts {
		var org string
		if err := r.cluster.DB.QueryRowContext(t.Context(), "SELECT org_id FROM agents WHERE id = $1", a.agent).Scan(&org); err != nil {
			t.Fatal(err)
		}
		r.names[org] = a.name
	}

	for _, p := range r.cluster.Of(cluster.Ingress, cluster.Agent, cluster.Tool, cluster.Sweep) {
		r.plan.parts = append(r.plan.parts, p.Name)
	}

	r.striker = &striker{t: t, cluster: r.cluster, lease: f.lease, past: r.past, ledger: receiver, seed: seed, disks: disks, skewed: skewed, counts: map[string]int{}}
	r.watcher = &watcher{cluster: r.cluster, past: r.past, rungAgain: map[string]bool{}}
	r.load = &load{accounts: accounts, urls: urls, past: r.past, seed: seed}
	r.person = &person{accounts: accounts, ledger: receiver, urls: urls, past: r.past}
	return r
}

// mount creates small disks for the servers, so that faults can fill them. It creates them only if
// the form includes such faults and the machine allows mounts.
func (r *trial) mount(t *testing.T) map[string]*testkit.Disk {
	t.Helper()
	disks := map[string]*testkit.Disk{}
	if r.plan.disks == 0 {
		r.notDone = append(r.notDone, "full disks, a wrong clock, the lease of releases: only with -chaos.for")
		return disks
	}

	var err error
	if disks[cluster.NATS], err = testkit.MemoryDisk(t, natsDisk); err == nil {
		r.plan.natsDisk = true
		r.needs = append(r.needs, "disk of nats full")
	} else {
		r.notDone = append(r.notDone, fmt.Sprintf("a full disk of NATS: %v", err))
	}
	if disks[cluster.Postgres], err = testkit.ImageDisk(t, postgresDisk); err == nil {
		r.plan.postgresDisk = true
		r.needs = append(r.needs, "disk of postgres full")
	} else {
		r.notDone = append(r.notDone, fmt.Sprintf("a full disk of PostgreSQL: %v", err))
	}
	return disks
}

// run injects faults while clients start runs, waits until all runs have finished, replays every
// key, and collects the evidence.
func (r *trial) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	until := make(chan struct{})
	r.striker.began = time.Now()
	var others sync.WaitGroup
	others.Go(func() { r.watcher.work(ctx) })
	others.Go(func() { r.person.work(ctx) })
	r.load.run(ctx, r.clients, until)
	r.striker.all(ctx, schedule(r.seed, r.plan))
	_ = lifecycle.Sleep(ctx, time.Until(r.striker.began.Add(r.plan.total)))
	close(until)
	r.past.note(func(all *evidence) { all.LoadUntil = time.Now() })
	r.striker.restore()
	began := time.Now()
	r.progress("all faults have ended; waiting for runs in progress")
	for _, p := range r.cluster.AwaitReady(ctx, drained) {
		t.Errorf("%s did not restart: %s", p.Name, p.History().LastFailure)
	}

	r.drain(ctx, t, began.Add(drained))
	r.progress("replaying every key")
	r.load.replayAll(ctx, r.clients)
	cancel()
	others.Wait()
	r.load.group.Wait() // ctx has ended, so clients that have no response abort their requests
	r.progress("reading the database")
	r.collect(t)
}

func (r *trial) progress(what string) {
	fmt.Printf("%6.1f s  %s\n", time.Since(r.striker.began).Seconds(), what)
}

// drain waits until all clients have their responses and all runs have finished.
func (r *trial) drain(ctx context.Context, t *testing.T, until time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()

	answered := make(chan struct{})
	go func() {
		r.load.group.Wait()
		close(answered)
	}()

	select {
	case <-answered:
	case <-ctx.Done():
		t.Error("some clients got no response")
	}

	for ctx.Err() == nil {
		if left, err := r.watcher.open(ctx); err == nil && len(left) == 0 {
			return
		}
		_ = lifecycle.Sleep(ctx, 200*time.Millisecond)
	}
}

// collect adds the rows of the database and the unexpected ends of parts to the evidence.
func (r *trial) collect(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	left, err := r.watcher.open(ctx)
	if err != nil {
		t.Fatal(err)
	}

	rows, err := r.watcher.rows(ctx, r.names)
	if err != nil {
		t.Fatal(err)
	}

	r.past.note(func(all *evidence) {
		all.Open, all.Rows = left, rows
		for _, p := range r.cluster.Parts {
			all.Ends = append(all.Ends, p.History().Ended...)
		}
	})
}

// figures returns the number of occurrences of each event, by the event's name.
func (r *trial) figures(v *verdict) map[string]int {
	all := maps.Clone(v.Checked)
	r.striker.mu.Lock()
	maps.Copy(all, r.striker.counts)
	r.striker.mu.Unlock()
	e := &r.past.all
	for _, row := range e.Rows {
		all["runs "+row.Status]++
		all["runs of "+strings.Fields(row.Message + " ?")[0]]++
		if row.Attempts > 1 {
			all["runs taken over"]++
			all["attempts beyond the first"] += row.Attempts - 1
		}
	}

	for _, request := range e.Requests {
		all[fmt.Sprintf("requests answered with %d", request.Status)]++
		if request.Replayed {
			all["answers that were replays"]++
		}
		if request.Left {
			all["requests that a client broke off"]++
		}
	}

	for _, d := range e.Decisions {
		all["decisions of a person"]++
		all["decisions of a person: "+d.Said]++
	}

	for name, n := range all {
		if strings.HasPrefix(name, "kills of ") {
			all["kills"] += n
		}
	}

	all["runs with repeated job messages"] = len(r.watcher.rungAgain)
	all["attempts that woke up and were void"] = r.cluster.Count(cluster.Agent, "taken over")
	all["looks at the database"] = r.watcher.looks
	for _, p := range r.cluster.Parts {
		history := p.History()
		all["starts"] += history.Starts
		all["starts that failed while servers were down"] += history.FailedStarts
	}
	return all
}

func (r *trial) report(t *testing.T, v *verdict) {
	t.Helper()
	figures := r.figures(v)
	var names []string
	for name := range figures {
		names = append(names, name)
	}

	sort.Strings(names)
	fmt.Println("events and checks:")
	for _, name := range names {
		fmt.Printf("%9d  %s\n", figures[name], name)
	}

	for _, what := range r.notDone {
		fmt.Println("NOT DONE: " + what)
	}

	if r.plan.total >= wholeRun && figures["kills"] < manyKills {
		t.Errorf("kills = %d, want at least %d", figures["kills"], manyKills)
	}

	for _, need := range r.needs {
		if figures[need] == 0 {
			t.Errorf("the test proves nothing: %s = 0", need)
		}
	}

	for _, what := range always {
		if figures[what] == 0 {
			t.Errorf("the test checked nothing: %s = 0", what)
		}
	}

	for _, rule := range slices.Sorted(maps.Keys(v.Violations)) {
		found := v.Violations[rule]
		t.Errorf("VIOLATED: %s: %d times", rule, len(found))
		for _, text := range found[:min(len(found), maxShown)] {
			t.Errorf("  %s", text)
		}
	}

	verdict := "PASSED"
	if t.Failed() {
		verdict = "FAILED; logs and history: " + r.keep(t)
	}

	fmt.Printf("chaos: seed %d: %d kills, %d runs, %d violations: %s\n", r.seed, figures["kills"], figures["runs in the database"], len(v.Violations), verdict)
}

// always lists the checks that every chaos run must have made at least once.
var always = []string{
	"accepted runs", "runs in the database", "ends in time", "keys with one run", "answers that name their key's run", "answers compared",
	"terminal rows watched", "bills paid, none", "bills paid, idempotent", "bills paid, unsafe", "bills whose run says that they were paid",
	"completed runs with calls of both kinds of tools", "results of clients that were taken",
	"turns that follow another", "model calls of turns", "requests answered", "requests whose connection broke", "accepted runs that completed",
}

// keep copies the history and the logs to a new directory, for diagnosis after the test, and
// returns the directory's path.
func (r *trial) keep(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parley-chaos-") //nolint:usetesting // it is kept after the test
	if err != nil {
		return err.Error()
	}

	e := &r.past.all
	raw, err := json.MarshalIndent(map[string]any{
		"requests": e.Requests, "rows": e.Rows, "open": e.Open, "seen": e.Seen, "effects": e.Effects, "decisions": e.Decisions, "results": e.Results, "turns": e.Turns,
		"samples": e.Samples, "interrupted": e.Interrupted, "ends": e.Ends,
	}, "", " ")
	if err != nil {
		return err.Error()
	}
	if err := os.WriteFile(filepath.Join(dir, "history.json"), raw, 0o600); err != nil {
		return err.Error()
	}
	if err := r.cluster.Keep(filepath.Join(dir, "logs")); err != nil {
		return err.Error()
	}
	return dir
}
