package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/migrations"
	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

const (
	// releaseBefore is the commit of the previous release, from which services are upgraded.
	releaseBefore = "e60d096f58af5257faaa3bb49d1c06759e39965a"
	// upgradeClients is the number of clients that post keyed triggers during the upgrade.
	upgradeClients = 4
)

// TestUpgradeFromTheReleaseBefore upgrades a service under load: first the schema, then one process
// at a time, so that both releases run side by side. It then downgrades one process at a time, but
// leaves the schema upgraded. Every request must get status 200 or 202, every idempotency key must
// have exactly one run, and no run may be lost.
func TestUpgradeFromTheReleaseBefore(t *testing.T) {
	t.Parallel()
	tree := treeBefore(t)
	wantNewerSchema(t, tree)
	c := newClusterFor(t, testkit.EmptyPostgresProcess(t), testkit.NATSProcess(t, ""), sandboxed, "LIMIT_USER=50000", "LIMIT_SYSTEM=100000")
	before := *c
	before.tree = tree
	if err := migrations.UpFrom(t.Context(), c.db, os.DirFS(filepath.Join(tree, "migrations"))); err != nil {
		t.Fatal(err)
	}

	r := &rollout{answers: map[string][]api.Answer{}, last: map[int]int{}}
	r.start(t, &before)
	r.start(t, &before)
	r.owner = signUp(t, r.edges[0].url)
	r.begin(t)
	r.await(t, "the previous release", 40)

	began := time.Now()
	if err := migrations.Up(t.Context(), c.db); err != nil {
		t.Fatal(err)
	}

	t.Logf("the schema was migrated under load in %s", time.Since(began).Round(time.Millisecond))
	r.await(t, "the previous release on this release's schema", 40)
	r.roll(t, c, "this release beside the previous one")
	r.await(t, "this release", 40)
	r.roll(t, &before, "the previous release beside this one again")
	r.await(t, "the previous release again", 40)
	r.start(t, c)
	r.end(t)
	r.check(t, c)
}

// treeBefore returns the source tree of the previous release from the repository's history.
func treeBefore(t *testing.T) (dir string) {
	t.Helper()
	if os.Getenv("PARLEY_E2E_UPGRADE") == "" {
		skipLoudly(t, "the test builds the previous release; make test-upgrade runs it")
	}

	root := testkit.Root(t)
	if said, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", releaseBefore+"^{commit}").CombinedOutput(); err != nil {
		skipLoudly(t, fmt.Sprintf("the repository's history here does not have %.7s: %v: %s", releaseBefore, err, bytes.TrimSpace(said)))
	}

	cache, err := testkit.CacheDir()
	if err != nil {
		t.Fatal(err)
	}

	// The source tree stays in this directory, so that later builds of the release can use Go's
	// build cache.
	dir = filepath.Join(cache, "release-"+releaseBefore[:12])
	if !testkit.Used(dir) {
		unpack(t, root, dir)
	}
	return dir
}

// wantNewerSchema fails the test if an SQL function has changed since the previous release and
// there is no new numbered migration. Without a newer number, a binary of the previous release
// would replace the changed functions with its own functions.
func wantNewerSchema(t *testing.T, before string) {
	t.Helper()
	now := testkit.Root(t)
	was, is := sqlFiles(t, before, "functions/*.sql"), sqlFiles(t, now, "functions/*.sql")
	newest := func(tree string) string { return slices.Max(slices.Collect(maps.Keys(sqlFiles(t, tree, "*.sql")))) }
	if !maps.Equal(was, is) && newest(now) <= newest(before) {
		t.Errorf("functions have changed since the previous release: add a numbered migration, see CONTRIBUTING.md")
	}
}

// sqlFiles returns the contents of the migration files whose names match a pattern, by file name.
func sqlFiles(t *testing.T, tree, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(tree, "migrations", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no migrations in %s: %v", tree, err)
	}

	files := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(content)
	}
	return files
}

// skipLoudly skips the test and prints the reason, even without the flag -v.
func skipLoudly(t *testing.T, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "e2e: %s is skipped: %s\n", t.Name(), why)
	t.Skip(why)
}

// unpack writes the source tree of the previous release to dir. The directory appears only when it
// is complete, because other test processes may use it.
func unpack(t *testing.T, root, dir string) {
	t.Helper()
	draft := filepath.Join(t.TempDir(), "tree")
	for _, err := range []error{os.Mkdir(draft, 0o700), os.MkdirAll(filepath.Dir(dir), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, command := range [][]string{
		{"git", "-C", root, "archive", "--format=tar", "--output=" + draft + ".tar", releaseBefore},
		{"tar", "-x", "-f", draft + ".tar", "-C", draft},
		{"mv", "-T", draft, dir}, // mv also works if the directories are on different file systems
	} {
		if said, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, said)
		}
	}
}

// rollout is a service whose processes are replaced while clients post triggers with idempotency
// keys. Each trigger is posted twice simultaneously, to two ingresses if there are two.
type rollout struct {
	owner   account
	edges   []*edge // in rotation
	workers []*testkit.Process
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	phase   string
	turn    int
	using   map[*edge]int // requests in progress
	asked   []trigger
	answers map[string][]api.Answer // by key
	last    map[int]int             // number of each client's latest trigger
	failed  []string
}

// start starts a worker and an ingress, and adds the ingress to the rotation.
func (r *rollout) start(t *testing.T, of *cluster) {
	t.Helper()
	worker, in := of.worker(t), of.ingress(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.edges = append(r.workers, worker), append(r.edges, in)
}

// begin starts the clients, which post triggers until end is called.
func (r *rollout) begin(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r.stop, r.using = stop, map[*edge]int{}
	for n := range upgradeClients {
		r.clients.Go(func() { r.client(ctx, n) })
	}
}

// upgradeTrigger returns the nth trigger of a client. A client's triggers belong to one session.
func upgradeTrigger(client, n int) trigger {
	text := fmt.Sprintf("%d-%d", client, n)
	return trigger{message: "sleep 100ms: upgrade " + text, key: text, session: fmt.Sprintf("client %d", client)}
}

func (r *rollout) client(ctx context.Context, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		tr := upgradeTrigger(client, n)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { r.post(context.WithoutCancel(ctx), tr) })
		}
		both.Wait()
		r.mu.Lock()
		r.asked, r.last[client] = append(r.asked, tr), n
		r.mu.Unlock()
	}
}

// post sends a trigger to the next ingress in the rotation, and records the response.
func (r *rollout) post(ctx context.Context, tr trigger) {
	r.mu.Lock()
	r.turn++
	in := r.edges[r.turn%len(r.edges)]
	r.using[in]++
	r.mu.Unlock()
	got := r.owner.at(in).post(ctx, tr)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.using[in]--
	r.keep(tr.key, got)
}

// keep records the response to the trigger with the given key. The caller must hold r.mu.
func (r *rollout) keep(key string, got api.Answer) {
	if got.Err != nil || got.Status != http.StatusOK && got.Status != http.StatusAccepted {
		r.failed = append(r.failed, fmt.Sprintf("%s: %s: status %d, error %v: %s", r.phase, key, got.Status, got.Err, got.Body))
	}
	r.answers[key] = append(r.answers[key], got)
}

// await waits until the triggers of the given number of further keys have been answered.
func (r *rollout) await(t *testing.T, phase string, more int) {
	t.Helper()
	count := func() (keys, failed int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.phase = phase
		return len(r.answers), len(r.failed)
	}
	had, _ := count()
	eventually(t, 2*api.Timeout, fmt.Sprintf("%d more keys are done: %s", more, phase), func() bool {
		keys, failed := count()
		return keys >= had+more || failed > 0
	})
}

// roll replaces all workers and ingresses, one by one, with processes of another cluster, which may
// run another release.
func (r *rollout) roll(t *testing.T, to *cluster, phase string) {
	t.Helper()
	for n, leaving := range slices.Clone(r.edges) {
		r.start(t, to)
		r.await(t, phase, 10)
		endsWell(t, r.workers[0])
		r.workers = r.workers[1:]
		asked := trigger{message: fmt.Sprintf("sleep 3s: %s %d", phase, n), key: fmt.Sprintf("%s %d", phase, n)}
		waiting := r.owner.at(leaving).start(t.Context(), asked)
		to.model.awaitCalls(t, asked.message, 1)
		r.leave(t, leaving)
		endsWell(t, leaving.Process)
		got := awaitAnswer(t, waiting, api.Timeout)
		r.mu.Lock()
		r.asked = append(r.asked, asked)
		r.keep(asked.key, got)
		r.mu.Unlock()
	}
}

// leave removes an ingress from the rotation before its shutdown, as a load balancer does.
func (r *rollout) leave(t *testing.T, leaving *edge) {
	t.Helper()
	r.mu.Lock()
	r.edges = slices.DeleteFunc(r.edges, func(e *edge) bool { return e == leaving })
	r.mu.Unlock()
	eventually(t, api.Timeout, "no request waits at the stopping ingress", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.using[leaving] == 0
	})
}

// endsWell stops a process, which must exit with status 0.
func endsWell(t *testing.T, p *testkit.Process) {
	t.Helper()
	p.Term()
	if err := p.Wait(time.Minute); err != nil {
		t.Fatalf("after SIGTERM the process did not exit with 0: %v", err)
	}
}

// end stops the clients and waits for the requests in progress. It fails the test if a request has
// failed.
func (r *rollout) end(t *testing.T) {
	t.Helper()
	r.stop()
	r.clients.Wait()
	for _, failed := range r.failed {
		t.Error(failed)
	}
}

// check compares the responses with the runs in the database, the model calls in the ledger, and
// the stored responses that both releases return for repeated triggers.
func (r *rollout) check(t *testing.T, c *cluster) {
	t.Helper()
	waited := 0
	for _, asked := range r.asked {
		var first []byte // the response
		id := r.answers[asked.key][0].Run(t).ID
		for _, a := range r.answers[asked.key] {
			if a.Status == http.StatusAccepted {
				waited++
			} else if first == nil {
				first = a.Body
			}
			if a.Run(t).ID != id || a.Status == http.StatusOK && !bytes.Equal(a.Body, first) {
				t.Errorf("%s got two different responses: %s\n%s", asked.key, first, a.Body)
			}
		}
		r.owner.at(r.edges[0]).result(t, id, api.Timeout)
		for _, in := range r.edges {
			replay := r.owner.at(in).post(t.Context(), asked).Replayed(t)
			if done := replay.Run(t); done.ID != id || done.Status != "completed" || first != nil && !bytes.Equal(replay.Body, first) {
				t.Errorf("%s: the replay differs from the first response:\n%s\n%s", asked.key, replay.Body, first)
			}
		}
		if calls := c.model.count(asked.message); calls != 1 {
			t.Errorf("%s: %d model calls", asked.key, calls)
		}
	}

	if rows, open := c.number(t, "SELECT count(*) FROM runs"), c.number(t, "SELECT count(*) FROM open_runs"); rows != len(r.asked) || open != 0 {
		t.Errorf("%d runs, %d of them open, for %d keys", rows, open, len(r.asked))
	}

	for client, last := range r.last {
		r.wantHistory(t, c.model, client, last)
	}

	t.Logf("%d keys, each posted twice, %d responses with status 202", len(r.asked), waited)
}

// wantHistory checks that the last model call of a session received the session's newest user
// messages, in order. Both releases have executed runs for these messages.
func (r *rollout) wantHistory(t *testing.T, model *ledger, client, last int) {
	t.Helper()
	history, at := model.historyFor(upgradeTrigger(client, last).message), 0
	const shown = 200 // maximum number of earlier turns that the service sends with a model call
	for n := max(0, last-shown); n < last; n++ {
		said := strings.Index(history[at:], "user: "+upgradeTrigger(client, n).message+"\n")
		if said < 0 {
			t.Errorf("message %d from client %d is missing or out of order", n, client)
			return
		}
		at += said
	}
}
