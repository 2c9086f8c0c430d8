// Package parley runs Parley for the benchmarks: the production binaries of the ingress and the
// worker, built from this repository. It creates an organization, a key and an echo agent through
// the HTTP API, as a customer would.
//
// All settings have their default values except those in Overrides.
package parley

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	_ "github.com/lib/pq" // the PostgreSQL driver of migrations

	"parley/migrations"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle/childproc"
)

// startTimeout bounds the start of all processes, and each restart.
const startTimeout = 60 * time.Second

// Overrides are the settings that differ from the defaults. With the default limits, Parley would
// reject most requests of a load.
var Overrides = map[string]string{
	"LIMIT_USER": "99999999", "LIMIT_SYSTEM": "100000000", "CONNECTIONS_PER_ADDRESS": "0",
}

// Completed is an SQL query that returns the number of runs whose result is on disk.
const Completed = `SELECT count(*) FROM runs WHERE status = 'completed'`

// Accepted is an SQL query that returns the number of all runs.
const Accepted = `SELECT count(*) FROM runs`

// Config configures Start: the programs, their settings and the servers that they use.
type Config struct {
	Binaries    Binaries
	DatabaseURL string
	NATSURL     string
	LogsDir     string
	ProfilesDir string // directory for CPU profiles, if the binaries serve profiles

	Model    string            // model of the agent; default offline/echo
	Roles    string            // roles of the workers; default agent,tool,sweep
	Settings map[string]string // settings in addition to Overrides
}

// Parley is a running ingress and its running workers. Its methods must not be called concurrently,
// except those that build requests.
type Parley struct {
	process.Group
	*Organization // the organization that Start creates

	config  Config
	env     map[string]string
	port    int
	ingress *process.Process
	workers []*process.Process

	profiles map[string]string // addresses of the processes' profiles, by process
}

// Start migrates the database, starts the processes and creates an organization with an agent.
func Start(ctx context.Context, c Config) (*Parley, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := sql.Open("postgres", c.DatabaseURL)
	if err == nil {
		err = errors.Join(migrations.Up(ctx, db), db.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("migrating database: %w", err)
	}

	c.Model = cmp.Or(c.Model, "offline/echo")
	c.Roles = cmp.Or(c.Roles, "agent,tool,sweep")
	p := &Parley{config: c, profiles: map[string]string{}}
	err = p.start(ctx)
	if err == nil {
		p.Organization, err = p.SignUp(ctx, "bench", c.Model)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// start starts the ingress and one worker with a new secrets key, and returns when both are ready.
func (p *Parley) start(ctx context.Context) (err error) {
	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	p.port = ports[0]

	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	p.env = map[string]string{
		"DATABASE_URL": p.config.DatabaseURL, "NATS_URL": p.config.NATSURL, "HOST": "127.0.0.1", "PORT": strconv.Itoa(p.port),
		"SECRETS_KEY": hex.EncodeToString(secret),
	}
	maps.Copy(p.env, Overrides)
	maps.Copy(p.env, p.config.Settings)
	if err := p.startIngress(ctx); err != nil {
		return err
	}
	return p.SetWorkers(ctx, 1)
}

// startIngress starts the ingress and waits until it is ready.
func (p *Parley) startIngress(ctx context.Context) (err error) {
	p.ingress, err = p.startProcess(ctx, childproc.Program{Name: "ingress", Path: p.config.Binaries.Ingress}, nil)
	if err != nil {
		return err
	}
	return p.ingress.AwaitOK(ctx, p.Base()+"/readyz")
}

// startProcess starts a process with the settings of all processes and its own settings. If
// profiling is enabled, it also starts to write CPU profiles of the process.
func (p *Parley) startProcess(ctx context.Context, program childproc.Program, own map[string]string) (*process.Process, error) {
	env := maps.Clone(p.env)
	maps.Copy(env, own)
	if p.config.ProfilesDir == "" {
		return p.Group.Start(ctx, program, p.config.LogsDir, env)
	}

	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	env[profilesVariable], p.profiles[program.Name] = address, address
	started, err := p.Group.Start(ctx, program, p.config.LogsDir, env)
	if err == nil {
		err = started.AwaitOK(ctx, "http://"+address+"/debug/pprof/cmdline")
	}
	if err == nil {
		go p.profileCPU(context.WithoutCancel(ctx), program.Name, address)
	}
	return started, err
}

// Address returns the address of the ingress, as host:port.
func (p *Parley) Address() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Base returns the base URL of the ingress.
func (p *Parley) Base() string { return "http://" + p.Address() }

// RestartIngress restarts the ingress, so that its memory can be measured. Otherwise the process
// would still hold the memory in which it hashed the passwords of new accounts.
func (p *Parley) RestartIngress(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return errors.Join(p.End(p.ingress), p.startIngress(ctx))
}

// SetWorkers starts or stops worker processes until exactly n are running, and waits until all of
// them are ready.
func (p *Parley) SetWorkers(ctx context.Context, n int) error {
	for len(p.workers) > n {
		last := p.workers[len(p.workers)-1]
		p.workers = p.workers[:len(p.workers)-1]
		if err := p.End(last); err != nil {
			return err
		}
	}

	for len(p.workers) < n {
		if err := p.startWorker(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startWorker starts another worker. The first is named worker, the next worker-2.
func (p *Parley) startWorker(ctx context.Context) error {
	name := "worker"
	if n := len(p.workers) + 1; n > 1 {
		name = fmt.Sprintf("worker-%d", n)
	}

	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return err
	}

	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	program := childproc.Program{Name: name, Path: p.config.Binaries.Worker, Args: []string{"--roles=" + p.config.Roles}}
	worker, err := p.startProcess(ctx, program, map[string]string{"METRICS_ADDR": address})
	if err != nil {
		return err
	}

	p.workers = append(p.workers, worker)
	return worker.AwaitOK(ctx, "http://"+address+"/readyz")
}
