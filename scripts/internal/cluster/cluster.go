package cluster

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq" // the PostgreSQL driver for DB
	"github.com/rs/zerolog"

	"parley/migrations"
	"parley/shared/lifecycle"
	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/store/pgserver"
	"parley/shared/testkit"
)

// The kinds of parts: roles of Parley's processes, and the two servers.
const (
	Ingress  = "ingress"
	Agent    = "agent"
	Tool     = "tool"
	Sweep    = "sweep"
	NATS     = "nats"
	Postgres = "postgres"
)

const (
	// readyWithin is the time within which all parts must be ready. It is long enough for a slow or
	// busy machine.
	readyWithin  = 3 * time.Minute
	readyPoll    = 20 * time.Millisecond
	databaseName = "parley"
	// secretsKey is a key of 32 bytes in base64.
	secretsKey = "Y2x1c3RlcmNsdXN0ZXJjbHVzdGVyY2x1c3RlcmNsdXM="
)

// Options configure a cluster.
type Options struct {
	Ingresses, Agents, Tools, Sweepers int

	// Tag is a build tag of the programs. An empty tag means no tag.
	Tag string
	// Settings are environment variables of every process, as "KEY=value".
	Settings []string
	// PostgresSettings are additional server settings, by name. They cannot replace the settings
	// that make commits durable.
	PostgresSettings map[string]string
	// PostgresDir and NATSDir are the servers' data directories. If a field is empty, the server
	// uses a temporary directory.
	PostgresDir, NATSDir string
}

// Cluster is a running Parley with its servers. Start creates it. Its methods may be called from
// any goroutine.
type Cluster struct {
	Parts []*Part // all parts, in the order in which they were started
	DB    *sql.DB // a direct connection to PostgreSQL, without a fault proxy
	Store string  // JetStream's data directory

	options  Options
	dir      string        // directory of the log files
	add      func(p *Part) // starts a part and restarts it whenever it ends, until the test ends
	wg       sync.WaitGroup
	natsPort int
	pgPort   int
	dsn      string
}

// Start starts a cluster and returns when all parts are ready. The cluster stops when the test
// ends.
func Start(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	c := &Cluster{options: options, dir: tb.TempDir()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	tb.Cleanup(func() {
		cancel()
		c.wg.Wait()
	})

	c.add = func(p *Part) {
		c.Parts = append(c.Parts, p)
		c.wg.Go(func() { _ = p.Run(ctx) }) // AwaitReady reports an error
	}

	c.startPostgres(tb)
	c.startNATS(tb)
	ingress := testkit.BuildTagged(tb, "ingress/cmd/ingress", options.Tag)
	worker := testkit.BuildTagged(tb, "workers/cmd/worker", options.Tag)
	for _, crew := range []struct {
		kind, program, ready string
		count                int
	}{
		{Sweep, worker, "sweeper ready", options.Sweepers},
		{Tool, worker, "tool worker ready", options.Tools},
		{Agent, worker, "agent worker ready", options.Agents},
		{Ingress, ingress, "ingress ready", options.Ingresses},
	} {
		for n := range crew.count {
			c.startProcess(tb, fmt.Sprintf("%s %d", crew.kind, n+1), crew.kind, crew.program, crew.ready)
		}
	}

	if slow := c.AwaitReady(tb.Context(), readyWithin); len(slow) > 0 {
		for _, p := range slow {
			tb.Error(p.problem())
		}
		tb.FailNow()
	}
	return c
}

// Of returns the parts of the given kinds, in the order in which they were started.
func (c *Cluster) Of(kinds ...string) (found []*Part) {
	for _, p := range c.Parts {
		for _, kind := range kinds {
			if p.Kind == kind {
				found = append(found, p)
			}
		}
	}
	return found
}

// AwaitReady waits until all parts are ready. After a timeout, it returns the parts that are not
// ready.
func (c *Cluster) AwaitReady(ctx context.Context, within time.Duration) (slow []*Part) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	for {
		slow = nil
		for _, p := range c.Parts {
			if !p.Ready() {
				slow = append(slow, p)
			}
		}
		if len(slow) == 0 || ctx.Err() != nil {
			return slow
		}
		_ = lifecycle.Sleep(ctx, readyPoll)
	}
}

// Count returns the number of occurrences of a text in the logs of all parts of a kind.
func (c *Cluster) Count(kind, text string) (lines int) {
	for _, p := range c.Of(kind) {
		lines += bytes.Count(p.output(), []byte(text))
	}
	return lines
}

// Keep copies all logs into a directory, for example after a failed test.
func (c *Cluster) Keep(dir string) error {
	return os.CopyFS(dir, os.DirFS(c.dir))
}

// startPostgres starts PostgreSQL, creates the database and migrates it. The data survives restarts
// of the server.
func (c *Cluster) startPostgres(tb testing.TB) {
	tb.Helper()
	dir := c.options.PostgresDir
	if dir == "" {
		dir = tb.TempDir()
	}

	c.pgPort = testkit.FreePort(tb)
	config := pgserver.Config{Dir: filepath.Join(dir, "postgres"), Port: c.pgPort, Log: zerolog.Nop(), Settings: c.options.PostgresSettings}
	first, server, err := pgserver.StartInstance(tb.Context(), config)
	if err != nil {
		tb.Fatalf("starting PostgreSQL: %v", err)
	}

	p := &Part{Part: supervise.Part{Name: Postgres}, Kind: Postgres, log: filepath.Join(config.Dir, "server.log")}
	p.Launch = func(ctx context.Context) (*supervise.Instance, error) {
		if started := first; started != nil {
			first = nil
			return started, nil
		}
		l, _, err := pgserver.StartInstance(ctx, config)
		return l, err
	}

	c.add(p)
	if err := c.migrate(tb.Context(), server); err != nil {
		tb.Fatalf("creating the database: %v", err)
	}

	tb.Cleanup(func() { _ = c.DB.Close() })
}

// migrate creates the database, opens DB and applies all migrations.
func (c *Cluster) migrate(ctx context.Context, server *pgserver.Server) (err error) {
	if err := server.CreateDatabase(ctx, databaseName); err != nil {
		return err
	}
	c.dsn = server.DSN(databaseName)
	if c.DB, err = sql.Open("postgres", c.dsn); err != nil {
		return err
	}
	return migrations.Up(ctx, c.DB)
}

// startNATS starts the nats-server and waits until it is ready.
func (c *Cluster) startNATS(tb testing.TB) {
	tb.Helper()
	dir := c.options.NATSDir
	if dir == "" {
		dir = tb.TempDir()
	}

	c.Store, c.natsPort = filepath.Join(dir, "store"), testkit.FreePort(tb)
	// max_file_store is set explicitly. Its default is the free disk space when the server starts.
	// With this default, a server that starts on a full disk would have no room for its streams.
	config := fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q, max_file_store: 1GB }\n", c.natsPort, c.Store)
	path := filepath.Join(c.dir, "nats.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}

	p := &Part{Part: supervise.Part{Name: NATS}, Kind: NATS, log: filepath.Join(c.dir, "nats.log")}
	p.runs(childproc.Program{Path: testkit.NATSBinary(tb), Args: []string{"--config", path}}, "Server is ready")
	c.add(p)
	if slow := c.AwaitReady(tb.Context(), readyWithin); len(slow) > 0 {
		tb.Fatal(p.problem())
	}
}

// startProcess starts one of Parley's processes behind its own fault proxies. It does not wait
// until the process is ready.
func (c *Cluster) startProcess(tb testing.TB, name, kind, program, ready string) {
	tb.Helper()
	database, bus := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.pgPort)), net.JoinHostPort("127.0.0.1", strconv.Itoa(c.natsPort))
	p := &Part{
		Part: supervise.Part{Name: name}, Kind: kind, DB: testkit.Proxy(tb, database), Bus: testkit.Proxy(tb, bus),
		log: filepath.Join(c.dir, strings.ReplaceAll(name, " ", "-")+".log"),
	}

	env := append([]string{
		"DATABASE_URL=" + strings.Replace(c.dsn, database, p.DB.Addr(), 1), "NATS_URL=nats://" + p.Bus.Addr(), "SECRETS_KEY=" + secretsKey,
		"DEFAULT_MODEL=", "SANDBOX=off", "LOG_FORMAT=json", "LOG_LEVEL=info",
	}, c.options.Settings...)
	if kind == Ingress {
		port := strconv.Itoa(testkit.FreePort(tb))
		p.Front = testkit.Proxy(tb, net.JoinHostPort("127.0.0.1", port))
		p.URL = "http://" + p.Front.Addr()
		env = append(env, "HOST=127.0.0.1", "PORT="+port)
	} else {
		env = append(env, "ROLES="+kind)
	}

	p.runs(childproc.Program{Path: program, Env: env}, ready)
	c.add(p)
}
