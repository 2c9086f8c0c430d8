package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

// options are the flags of all loads.
type options struct {
	JSON    string `name:"json" default:"bin/bench.json" type:"path" help:"File for the report as JSON."`
	Dir     string `default:".cache/bench" type:"path" help:"Directory for the servers' data, which is emptied before and after. It must be on a disk, not in memory."`
	NATS    string `name:"nats-server" env:"PARLEY_NATS_SERVER" default:"bin/nats-server" type:"path" help:"The nats-server binary."`
	Ingress string `type:"existingfile" help:"An ingress binary to measure instead of this repository's; requires --worker."`
	Worker  string `type:"existingfile" help:"A worker binary to measure instead of this repository's; requires --ingress."`
	Profile string `type:"path" placeholder:"DIR" help:"Also write profiles of ingress and worker into this directory. This slows both a little."`

	Statements bool `help:"Also report what each of Parley's SQL statements costs (pg_stat_statements). This slows PostgreSQL a little."`
}

// Validate returns an error if the flags contradict each other. Kong calls it after parsing.
func (o *options) Validate() error {
	switch {
	case (o.Ingress == "") != (o.Worker == ""):
		return errors.New("--ingress and --worker must be set together")
	case o.Ingress != "" && o.Profile != "":
		return errors.New("--profile needs binaries that the bench builds: omit --ingress")
	}
	return nil
}

// Load is one measurement of the bench. Its method Measure adds rows to the report.
type Load interface {
	Measure(ctx context.Context, s *loadEnv) error
}

// namedLoad is a load and its name. The load's command and its rows in the report have this name.
type namedLoad struct {
	name string
	Load
}

// errNoSandbox is the error of a load that needs bubblewrap on a machine on which it is not
// installed.
var errNoSandbox = errors.New("bwrap is not installed")

// bench is one execution of the command, with its flags and its report. Only one bench runs at a
// time on a machine; see prepare.
type bench struct {
	*options

	report report
}

// loadEnv contains the servers and processes of one load. They are stopped when the load ends, in
// the reverse order of their start.
type loadEnv struct {
	*bench

	load     string
	dir      string
	servers  *process.Servers
	stops    []func() error            // stop functions of the servers and processes that the load has started
	deployed map[string]*parley.Parley // by database
}

// collectPercent is the garbage collector's target percentage in the bench's process. It is high so
// that collections are rare: with thousands of connections, one collection occupies both CPU cores
// for a tenth of a second. The clients and models under measurement run in the same process.
const collectPercent = 400

// measure executes the given loads and writes the report. If a load fails, the report contains the
// results of the loads that ran before it.
func (o *options) measure(ctx context.Context, loads ...namedLoad) (err error) {
	debug.SetGCPercent(collectPercent)
	unlock, err := o.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	b := &bench{options: o}
	began := time.Now()
	err = b.build(ctx)
	for _, load := range loads {
		if err == nil {
			err = b.measureLoad(ctx, load)
		}
	}

	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the cause of all other errors
	}
	if len(b.report.Rows) == 0 {
		return err
	}

	err = errors.Join(err, b.report.writeJSON(o.JSON), b.report.writeText(os.Stdout))
	fmt.Printf("\n%s; also written to %s\n", time.Since(began).Round(time.Second), o.JSON)
	return err
}

// prepare locks and empties the directory. Two concurrent benches would distort each other's
// measurements. unlock empties the directory again and releases the lock.
func (o *options) prepare() (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Dir), 0o750); err != nil {
		return nil, fmt.Errorf("creating directory: %w", err)
	}
	lock, err := lifecycle.LockFile(filepath.Clean(o.Dir) + ".lock")
	if err != nil {
		return nil, fmt.Errorf("another bench is running: %w", err)
	}
	clean := func() error { return os.RemoveAll(o.Dir) }
	if err := errors.Join(clean(), os.MkdirAll(o.Dir, 0o750)); err != nil {
		return nil, errors.Join(fmt.Errorf("emptying directory: %w", err), lock.Unlock())
	}
	return func() error { return errors.Join(clean(), lock.Unlock()) }, nil
}

// build builds Parley unless flags name its binaries. With --profile, the binaries serve profiles.
func (b *bench) build(ctx context.Context) error {
	if b.Ingress != "" {
		return nil
	}
	progressf("building ingress and worker")
	built, err := parley.Build(ctx, b.Dir, b.Profile != "")
	b.Ingress, b.Worker = built.Ingress, built.Worker
	return err
}

// measureLoad executes a load with its own PostgreSQL and NATS servers.
func (b *bench) measureLoad(ctx context.Context, load namedLoad) (err error) {
	s := &loadEnv{bench: b, load: load.name, dir: filepath.Join(b.Dir, load.name), deployed: map[string]*parley.Parley{}}
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return fmt.Errorf("creating directory: %w", err)
	}

	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.WarnLevel)
	s.servers, err = process.StartServers(ctx, process.ServersConfig{Dir: s.dir, NATS: b.NATS, Log: log, Statements: b.Statements})
	if err != nil {
		return err
	}

	s.stops = append(s.stops, func() error { return s.servers.Stop(context.WithoutCancel(ctx)) })
	defer func() {
		for _, stop := range slices.Backward(s.stops) {
			err = errors.Join(err, stop())
		}
	}()
	if err := b.setUp(ctx, s.servers); err != nil {
		return err
	}

	before := len(b.report.Rows)
	err = load.Measure(ctx, s)
	for _, database := range slices.Sorted(maps.Keys(s.deployed)) {
		if err == nil {
			err = s.inspect(ctx, database)
		}
	}
	switch {
	case errors.Is(err, errNoSandbox) || errors.Is(err, process.ErrNoProc):
		progressf("%s is not measured: %s", s.load, err)
		return nil
	case err != nil:
		return errors.Join(fmt.Errorf("measuring %s: %w", s.load, err), s.servers.Err())
	case len(b.report.Rows) == before:
		return fmt.Errorf("measuring %s: no figures; check its flags", s.load)
	}
	return nil
}

// setUp describes the machine and the servers in the report.
func (b *bench) setUp(ctx context.Context, servers *process.Servers) error {
	s := &b.report.Setup
	if s.PostgreSQL != "" {
		return nil
	}

	s.Started, s.Cores, s.System, s.Go = time.Now().UTC(), runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, runtime.Version()
	s.Overrides = parley.Overrides
	var err error
	if s.PostgreSQL, err = servers.Version(ctx); err != nil {
		return err
	}

	version, err := exec.CommandContext(ctx, b.NATS, "--version").Output()
	if err != nil {
		return fmt.Errorf("asking nats-server for its version: %w", err)
	}

	s.NATS = strings.TrimPrefix(strings.TrimSpace(string(version)), "nats-server: v")
	return nil
}

// floor starts the floor's processes and returns them with the address of their database. They run
// until the end of the load.
func (s *loadEnv) floor(ctx context.Context, c floor.Config, kinds ...string) (f *floor.Floor, dsn string, err error) {
	self, err := os.Executable()
	if err == nil {
		dsn, err = s.servers.Database(ctx, "floor")
	}
	if err != nil {
		return nil, "", err
	}
	c.DatabaseURL, c.NATSURL = dsn, s.servers.NATSURL
	if f, err = floor.Start(ctx, self, s.dir, c, kinds...); err == nil {
		s.stops = append(s.stops, f.Stop)
	}
	return f, dsn, err
}

// both starts two services, the floor and Parley. It also returns the addresses of their databases.
func (s *loadEnv) both(
	ctx context.Context, fc floor.Config, pc parley.Config, kinds ...string,
) (bare *floor.Floor, p *parley.Parley, dsns [2]string, err error) {
	if bare, dsns[0], err = s.floor(ctx, fc, kinds...); err == nil {
		p, dsns[1], err = s.parley(ctx, "parley", pc)
	}
	return bare, p, dsns, err
}

// keep registers a server of package model and returns the server. The end of the load stops
// registered servers.
func keep[S interface{ Stop() }](s *loadEnv, server S) S {
	s.stops = append(s.stops, func() error { server.Stop(); return nil })
	return server
}

// parley creates a database, starts Parley on it and returns the database's address. It adds the
// servers, binaries and directories to the given configuration.
//
// Parley runs until the end of the load, unless the load stops it earlier. At the end, its costs
// are inspected. Two deployments that run at the same time need separate nats-servers, because
// their workers would take each other's jobs.
func (s *loadEnv) parley(ctx context.Context, database string, c parley.Config) (p *parley.Parley, dsn string, err error) {
	if dsn, err = s.servers.Database(ctx, database); err != nil {
		return nil, "", err
	}
	c.LogsDir = filepath.Join(s.dir, database)
	err = os.MkdirAll(c.LogsDir, 0o750)
	if s.Profile != "" {
		c.ProfilesDir = filepath.Join(s.Profile, s.load)
		err = errors.Join(err, os.MkdirAll(c.ProfilesDir, 0o750))
	}
	if err != nil {
		return nil, "", fmt.Errorf("creating directory: %w", err)
	}

	c.Binaries, c.DatabaseURL = parley.Binaries{Ingress: s.Ingress, Worker: s.Worker}, dsn
	if c.NATSURL == "" {
		c.NATSURL = s.servers.NATSURL
	}
	if p, err = parley.Start(ctx, c); err == nil {
		s.stops, s.deployed[database] = append(s.stops, p.Stop), p
	}
	return p, dsn, err
}

// inspect collects the costs of SQL statements if --statements is set, and profiles of Parley's
// processes if --profile is set. It inspects each deployment once, even if it is called again.
func (s *loadEnv) inspect(ctx context.Context, database string) error {
	p := s.deployed[database]
	delete(s.deployed, database)
	if s.Statements {
		found, err := s.servers.Statements(ctx, s.load, database)
		if err != nil {
			return err
		}
		s.report.Statements = append(s.report.Statements, found...)
	}
	if s.Profile == "" {
		return nil
	}
	return p.WriteProfiles(ctx)
}

// progressf writes a progress message to standard error.
func progressf(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
