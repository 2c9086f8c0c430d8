package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver of the test's own database connection

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// sandboxed is the setting for tests that run code or read documents. The workers of other tests
// have no sandbox, because opening a sandbox starts several Python interpreters.
const sandboxed = "SANDBOX=bubblewrap"

// secretsKey is 32 bytes in base64.
const secretsKey = "ZTJlLWUyZS1lMmUtZTJlLWUyZS1lMmUtZTJlLWUyZSE="

// cluster is the set of servers for the ingresses and workers of one test.
type cluster struct {
	postgres *testkit.PostgresServer // nil, like nats, if the test does not start the servers itself
	nats     *testkit.NATSServer
	dsn, bus string // URLs of the servers
	store    string // JetStream's directory
	model    *ledger
	db       *sql.DB
	settings []string // settings of every ingress and worker, as "KEY=value"
	tree     string   // source tree from which ingresses and workers are built; "" means this repository
}

func newCluster(t *testing.T, settings ...string) *cluster {
	t.Helper()
	store := t.TempDir()
	c := newClusterOn(t, testkit.NATSProcess(t, store), settings...)
	c.store = store
	return c
}

// newClusterOn is like newCluster, but uses an existing bus.
func newClusterOn(t *testing.T, bus *testkit.NATSServer, settings ...string) *cluster {
	t.Helper()
	return newClusterFor(t, testkit.PostgresProcess(t), bus, settings...)
}

// newClusterFor is like newCluster, but uses an existing PostgreSQL and an existing bus.
func newClusterFor(t *testing.T, postgres *testkit.PostgresServer, bus *testkit.NATSServer, settings ...string) *cluster {
	t.Helper()
	c := newClusterAt(t, postgres.DSN(), bus.URL, settings...)
	c.postgres, c.nats = postgres, bus
	return c
}

// newGivenCluster is like newCluster, but uses servers that the test must not kill: those of the
// test's settings, or containers.
func newGivenCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterAt(t, testkit.Postgres(t), testkit.NATS(t))
}

func newClusterAt(t *testing.T, dsn, bus string, settings ...string) *cluster {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &cluster{dsn: dsn, bus: bus, model: newLedger(t), db: db, settings: settings}
}

// environment returns the environment variables of a process: those of the cluster and the given
// settings. The settings take precedence.
func (c *cluster) environment(settings []string) []string {
	env := []string{
		"DATABASE_URL=" + c.dsn, "NATS_URL=" + c.bus, "SECRETS_KEY=" + secretsKey,
		"OPENAI_BASE_URL=" + c.model.url, "OPENAI_API_KEY=ledger", "DEFAULT_MODEL=",
		"SANDBOX=off", "LOG_FORMAT=json", "LOG_LEVEL=info",
	}
	return append(append(env, c.settings...), settings...)
}

// edge is an ingress process and its URL.
type edge struct {
	*testkit.Process
	url  string
	port int
}

// awaitReady waits until the ingress reports that it is ready. It repeats the check, because a
// check may time out on a busy machine.
func (e *edge) awaitReady(t *testing.T) {
	t.Helper()
	testkit.Poll(t, 200*time.Millisecond, 20*time.Second, "the ingress is ready", func() bool {
		return api.Send(t.Context(), http.MethodGet, e.url+"/readyz", nil, nil).Status == http.StatusOK
	})
}

// awaitConnections waits until n connections to the ingress are open and accepted.
func (e *edge) awaitConnections(t *testing.T, n int) {
	t.Helper()
	suffix := fmt.Sprintf(":%04X", e.port)
	eventually(t, 20*time.Second, strconv.Itoa(n)+" open connections", func() bool {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for line := range strings.Lines(string(table)) {
			// The columns of the file are number, local address, remote address and state. State 01
			// means established.
			field := strings.Fields(line)
			if len(field) > 3 && strings.HasSuffix(field[1], suffix) && field[3] == "01" {
				open++
			}
		}
		return open >= n
	})

	// The ingress accepts connections in order. After it has served a request on a newer
	// connection, it has accepted all n connections.
	api.Send(t.Context(), http.MethodGet, e.url+"/healthz", nil, nil).Want(t, http.StatusOK)
}

// ingress starts an ingress process and waits until it is ready.
func (c *cluster) ingress(t *testing.T) *edge {
	t.Helper()
	port := testkit.FreePort(t)
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	process := testkit.StartProcess(t, testkit.Command{
		Name: "ingress", Path: testkit.BuildBinary(t, filepath.Join(c.tree, "ingress/cmd/ingress")),
		Env:      append(c.environment(nil), "HOST=127.0.0.1", "PORT="+strconv.Itoa(port)),
		ReadyURL: url + "/readyz",
	})
	return &edge{Process: process, url: url, port: port}
}

// worker starts a worker process and waits until it is ready. The worker has all roles unless the
// settings contain ROLES.
func (c *cluster) worker(t *testing.T, settings ...string) *testkit.Process {
	t.Helper()
	ready := "agent worker ready"
	for role, line := range map[string]string{
		"sweep": "sweeper ready", "tool": "tool worker ready", "ingest": "ingest worker ready", "voice": "voice worker ready",
		"notify": "notify worker ready",
	} {
		if slices.Contains(settings, "ROLES="+role) {
			ready = line
		}
	}

	return testkit.StartProcess(t, testkit.Command{
		Name: "worker", Path: testkit.BuildBinary(t, filepath.Join(c.tree, "workers/cmd/worker")), Env: c.environment(settings), ReadyLine: ready,
	})
}

// number returns the number that a query selects.
func (c *cluster) number(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := c.db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// text returns the only value that a query selects, as text.
func (c *cluster) text(t *testing.T, query string, args ...any) string {
	t.Helper()
	var value any
	if err := c.db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if raw, ok := value.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}
