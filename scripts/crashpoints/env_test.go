package crashpoints

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/scripts/internal/cluster"
	"parley/shared/failpoint"
	"parley/shared/testkit"

	_ "github.com/lib/pq" // the PostgreSQL driver for the test's own connection
)

const (
	// secretsKey is a key of 32 bytes in base64.
	secretsKey = "Y3Jhc2gtY3Jhc2gtY3Jhc2gtY3Jhc2gtY3Jhc2gtY3I="
	// patience is the maximum time from a fault until the run has finished. It is long enough for
	// leases to expire on a slow machine.
	patience = 4 * time.Minute
)

// role is the role of one of the service's processes.
type role string

const (
	ingress role = "ingress"
	agent   role = "agent"
	tool    role = "tool"
	sweep   role = "sweep"
)

// readyLines contains the message that a worker of each role logs when it is ready.
var readyLines = map[role]string{agent: "agent worker ready", tool: "tool worker ready", sweep: "sweeper ready"}

// testEnv is a service with one process per role, together with the model and the till.
type testEnv struct {
	*testing.T

	outer    *testing.T // owns the processes, which outlive the subtests of an environment
	dsn      string
	bus      *testkit.NATSServer
	store    string // JetStream's data directory
	db       *sql.DB
	till     *till
	model    string // URL of the model provider
	port     string // port of the ingress
	settings map[role][]string
	parts    map[role]*testkit.Process
	key      string // API key of the organization
	agentID  string
	unkept   bool         // whether the tool ledger was unavailable; if so, an outcome may exist only in a run's journal
	settled  int          // number of calls that were checked
	refused  atomic.Int64 // number of responses with status 429 or 503
}

// options describe an environment that differs from the default.
type options struct {
	store    string           // JetStream's data directory; empty: a new one
	dsn      string           // address of an existing database; empty: a new one on the shared server
	settings []string         // additional settings of all processes
	armed    map[role]string  // value of PARLEY_FAILPOINTS, by role
	extra    func(b *testEnv) // called before the service starts; may be nil
}

func newTestEnv(t *testing.T, o options) *testEnv {
	t.Helper()
	b := &testEnv{
		T: t, outer: t, dsn: o.dsn, store: cmp.Or(o.store, t.TempDir()), till: newTill(t), model: newModel(t),
		port:     strconv.Itoa(testkit.FreePort(t)),
		settings: map[role][]string{}, parts: map[role]*testkit.Process{},
	}
	if b.dsn == "" {
		b.dsn = testkit.Postgres(t)
	}

	b.bus = testkit.NATSProcess(t, b.store)
	for _, r := range []role{ingress, agent, tool, sweep} {
		b.settings[r] = append([]string{
			"DATABASE_URL=" + b.dsn, "NATS_URL=" + b.bus.URL, "SECRETS_KEY=" + secretsKey, "OPENAI_BASE_URL=" + b.model,
			"OPENAI_API_KEY=till", "DEFAULT_MODEL=", "SANDBOX=off", "LOG_FORMAT=json", "LOG_LEVEL=info", "OUTBOUND_ALLOW=" + b.till.host,
			"LIMIT_USER=50000", "LIMIT_SYSTEM=60000",
		}, o.settings...)
	}

	if o.extra != nil {
		o.extra(b)
	}

	db, err := sql.Open("postgres", b.dsn)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = db.Close() })
	b.db = db
	b.start(ingress, o.armed[ingress])
	b.signUp()
	for _, r := range []role{sweep, tool, agent} {
		b.start(r, o.armed[r])
	}

	// If a run is accepted before the worker has announced its slots, the ingress does not publish
	// the run's job, and the run waits for the sweeper. So wait until the slots are announced.
	b.eventually("the worker has announced its slots", func() bool { return b.number(`SELECT count(*) FROM worker_slots`) > 0 })
	return b
}

// start starts the process of a role and returns when it is ready. The parameter armed is the value
// of PARLEY_FAILPOINTS.
func (b *testEnv) start(r role, armed string) {
	b.Helper()
	b.parts[r] = testkit.StartProcess(b.outer, b.command(r, armed))
}

// launch starts the process of a role. It does not wait until the process is ready, because the
// process may execute a waiting run, reach a failpoint and die before it is ready.
func (b *testEnv) launch(r role, armed string) {
	b.Helper()
	command := b.command(r, armed)
	command.ReadyURL, command.ReadyLine = "", ""
	b.parts[r] = testkit.StartProcess(b.outer, command)
}

func (b *testEnv) command(r role, armed string) testkit.Command {
	b.Helper()
	command := testkit.Command{Name: string(r), Env: append(slices.Clone(b.settings[r]), "PARLEY_FAILPOINTS="+armed)}
	if r == ingress {
		command.Path = testkit.BuildTagged(b, "ingress/cmd/ingress", "failpoints")
		command.Env = append(command.Env, "HOST=127.0.0.1", "PORT="+b.port)
		command.ReadyURL = b.url() + "/readyz"
	} else {
		command.Path = testkit.BuildTagged(b, "workers/cmd/worker", "failpoints")
		command.Env = append(command.Env, "ROLES="+string(r))
		command.ReadyLine = readyLines[r]
	}
	return command
}

func (b *testEnv) url() string { return "http://127.0.0.1:" + b.port }

// within makes the environment belong to a subtest. The processes of the environment continue after
// the subtest.
func (b *testEnv) within(t *testing.T) *testEnv {
	t.Helper()
	b.T = t
	t.Cleanup(func() { b.T = b.outer })
	return b
}

// awaitUptime waits until the service counts workers whose leases have expired as dead.
func (b *testEnv) awaitUptime() {
	b.Helper()
	b.eventually("PostgreSQL has been up for longer than a lease", func() bool {
		return b.number(`SELECT (pg_postmaster_start_time() < clock_timestamp() - interval '31 seconds')::int`) == 1
	})
}

// signUp creates an organization with an agent whose tools pay bills.
func (b *testEnv) signUp() {
	b.Helper()
	b.key = api.SignUp(b, b.url())
	b.agentID = api.CreateAgent(b, b.url(), b.key, map[string]any{
		"name": "Payer", "systemPrompt": "Pay.", "model": "openai/till",
		"tools": map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": cluster.PayEndpoints("http://" + b.till.host)}},
	})
}

// reached reports whether a process has reached one of the points at which PARLEY_FAILPOINTS makes
// it fail.
func reached(p *testkit.Process, at failpoint.Point) bool {
	return strings.Contains(p.Output(), fmt.Sprintf("failpoint: %s: ", at))
}

// awaitReached waits until the process of a role has reached one of the points at which
// PARLEY_FAILPOINTS makes it fail.
func (b *testEnv) awaitReached(r role, at failpoint.Point) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s comes by %s", r, at), func() bool { return reached(b.parts[r], at) })
}

// awaitDeath waits until the process of a role has died.
func (b *testEnv) awaitDeath(r role) {
	b.Helper()
	if err := b.parts[r].Wait(patience); err == nil {
		b.Fatalf("%s ended unexpectedly", r)
	}
}

// loseLeases makes the leases of all runs expire at once, because waiting for their expiry would
// take half a minute.
func (b *testEnv) loseLeases() {
	b.Helper()
	if _, err := b.db.ExecContext(b.Context(), `UPDATE open_runs SET lease_until = clock_timestamp() WHERE status = 'running'`); err != nil {
		b.Fatal(err)
	}
}

// withProxy puts a fault proxy between the process of a role and PostgreSQL or NATS. The process
// must not be running yet. The name of the setting, such as "DATABASE_URL", selects the server.
func (b *testEnv) withProxy(r role, setting string) *testkit.FaultProxy {
	b.Helper()
	at := slices.IndexFunc(b.settings[r], func(s string) bool { return strings.HasPrefix(s, setting+"=") })
	_, address, _ := strings.Cut(b.settings[r][at], "=")
	u, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	proxy := testkit.Proxy(b, u.Host)
	u.Host = proxy.Addr()
	b.settings[r] = append(b.settings[r], setting+"="+u.String())
	return proxy
}

// number returns the number that an SQL query selects.
func (b *testEnv) number(query string) (n int) {
	b.Helper()
	if err := b.db.QueryRowContext(b.Context(), query).Scan(&n); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// row returns a fingerprint of a run's row, which covers its version and its content.
func (b *testEnv) row(id string) (text string) {
	b.Helper()
	if err := b.db.QueryRowContext(b.Context(), `SELECT xmin::text || ' ' || r::text FROM runs r WHERE id = $1`, id).Scan(&text); err != nil {
		b.Fatal(err)
	}
	return text
}

// eventually polls until done returns true. It fails the test after testkit.Within(patience).
func (b *testEnv) eventually(what string, done func() bool) {
	b.Helper()
	testkit.Poll(b, 20*time.Millisecond, patience, what, done)
}
