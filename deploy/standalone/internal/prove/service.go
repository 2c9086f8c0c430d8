package prove

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/store/pgserver"
)

const (
	// readyWithin bounds the time until a process is ready. It allows for a slow or busy machine.
	readyWithin  = 90 * time.Second
	databaseName = "parley"
	// connsPerProcess is the number of connections that PostgreSQL allows for each process of the
	// service. A process opens fewer. The others are spare, because the connections of a killed
	// process stay open for a moment while its successor connects.
	connsPerProcess = 50
)

// service is a complete Parley that only the proof uses. Its parts are restarted until the context
// of startService ends.
type service struct {
	partSet

	dir   string
	exe   string
	base  string // base URL of the ingress
	sizes sizes
	env   []string
}

// startService starts PostgreSQL, NATS, the ingress and the workers, with their data below dir. It
// returns when all of them are ready. If it returns an error, it may also return a partly started
// service, which the caller must end.
func startService(ctx context.Context, dir string, workers int, size sizes, ledger string, fail context.CancelCauseFunc) (*service, error) {
	s := &service{partSet: partSet{fail: fail}, dir: dir, sizes: size}
	var err error
	if s.exe, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}

	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("creating log directory: %w", err)
	}

	ports, err := childproc.FreePorts(ctx, 3)
	if err != nil {
		return nil, err
	}

	dsn, err := s.startPostgres(ctx, ports[0], workers+1)
	if err != nil {
		return s, err
	}

	s.base = "http://127.0.0.1:" + strconv.Itoa(ports[2])
	s.env = settings(dsn, "nats://127.0.0.1:"+strconv.Itoa(ports[1]), ledger, size)
	if err := run(ctx, s.program("migrate", "migrate")); err != nil {
		return s, err
	}

	store := filepath.Join(dir, "nats")
	if err := s.addAndWait(ctx, s.part(kindNATS, natsReady, "nats", "--port", strconv.Itoa(ports[1]), "--dir", store)); err != nil {
		return s, err
	}

	s.add(ctx, s.part(kindIngress, "ingress ready", "serve", "--roles=ingress", "--port", strconv.Itoa(ports[2])))
	for _, name := range partsFor(kindWorker, workers) {
		s.add(ctx, s.part(name, "agent worker ready", "serve", "--roles=agent,tool,sweep"))
	}

	return s, s.awaitAll(ctx)
}

// startPostgres starts a server and creates a database. The database's address stays the same when
// the server is restarted.
func (s *service) startPostgres(ctx context.Context, port, processes int) (dsn string, err error) {
	config := pgserver.Config{
		Dir: filepath.Join(s.dir, "postgres"), Port: port, Log: zerolog.Nop(),
		Settings: map[string]string{"max_connections": strconv.Itoa(connsPerProcess * (processes + 1))},
	}
	var first *pgserver.Server
	err = s.addAndWait(ctx, newPart(kindPostgres, func(ctx context.Context) (*supervise.Instance, error) {
		l, started, err := pgserver.StartInstance(ctx, config)
		if first == nil {
			first = started
		}
		return l, err
	}))
	if err != nil {
		return "", err
	}
	if err := first.CreateDatabase(ctx, databaseName); err != nil {
		return "", fmt.Errorf("creating database: %w", err)
	}
	return first.DSN(databaseName), nil
}

// part returns a part that runs a process of the service. ready is the text in its output that
// signals readiness, and args are the arguments of this program.
func (s *service) part(name, ready string, args ...string) *supervise.Part {
	program := s.program(strings.ReplaceAll(name, " ", "-"), args...)
	return newPart(name, func(ctx context.Context) (*supervise.Instance, error) {
		return supervise.Process(ctx, program, ready, readyWithin)
	})
}

// program describes a process of the service. Its output goes to a log file with the given name.
func (s *service) program(log string, args ...string) childproc.Program {
	return childproc.Program{Name: args[0], Path: s.exe, Args: args, Env: s.env, Dir: s.dir, Log: filepath.Join(s.dir, "logs", log+".log")}
}

// settings returns the complete environment of the processes. It contains no setting of Parley from
// the environment of this process, because that may be the key or the URL of a real service.
func settings(dsn, nats, ledger string, size sizes) []string {
	key := make([]byte, 32)
	_, _ = crand.Read(key) // this never fails
	env := []string{
		"DATABASE_URL=" + dsn, "NATS_URL=" + nats, "SECRETS_KEY=" + base64.StdEncoding.EncodeToString(key),
		"HOST=127.0.0.1", "DEFAULT_MODEL=offline", "SANDBOX=off", "LOG_FORMAT=json", "LOG_LEVEL=info",
		"OUTBOUND_ALLOW=" + ledger, "LIMIT_USER=1000000", "LIMIT_SYSTEM=2000000",
		"WORKER_CONCURRENCY=" + strconv.Itoa(size.slots),
	}

	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "LD_LIBRARY_PATH", "GOCOVERDIR"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// end waits until every process has ended. The caller must first cancel the context of the
// processes.
func (s *service) end() { s.wg.Wait() }
