package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	_ "github.com/lib/pq" // the driver that counts the rows
	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/measure"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/bench/internal/servers"
)

// bench is what is started to measure run-automation, in the order it is started.
type bench struct {
	*options
	*automationFlags

	servers *servers.Servers
	floor   *floor.Floor
	parley  *parley.Parley
	sides   []measure.Side
	counts  map[string]count // by side
}

// count says where a side's answered requests are kept.
type count struct{ dsn, query string }

func (b *bench) start(ctx context.Context) (err error) {
	sayf("starting PostgreSQL and nats-server")
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.WarnLevel)
	if b.servers, err = servers.Start(ctx, servers.Config{Dir: b.Dir, NATS: b.nats, Log: log, Statements: b.Statements}); err != nil {
		return err
	}
	b.counts = map[string]count{}
	if slices.Contains(b.Sides, report.Floor) {
		if err := b.startFloor(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(b.Sides, report.Parley) {
		return b.startParley(ctx)
	}
	return nil
}

func (b *bench) startFloor(ctx context.Context) error {
	dsn, err := b.servers.Database(ctx, report.Floor)
	if err != nil {
		return err
	}
	b.floor, err = floor.Start(ctx, floor.Config{Command: b.self, DatabaseURL: dsn, NATSURL: b.servers.NATSURL(), LogsDir: b.Dir})
	if err != nil {
		return err
	}
	b.sides = append(b.sides, measure.Side{Name: report.Floor, Load: b.floor.Load(), Database: report.Floor, Processes: b.floor})
	b.counts[report.Floor] = count{dsn, "SELECT count(*) FROM " + floor.Table}
	return nil
}

func (b *bench) startParley(ctx context.Context) error {
	binaries, err := b.binaries(ctx)
	if err != nil {
		return err
	}
	dsn, err := b.servers.Database(ctx, report.Parley)
	if err != nil {
		return err
	}
	profiles, err := b.profiles("automation")
	if err != nil {
		return err
	}
	b.parley, err = parley.Start(ctx, parley.Config{
		Binaries: binaries, DatabaseURL: dsn, NATSURL: b.servers.NATSURL(), LogsDir: b.Dir, ProfilesDir: profiles,
	})
	if err != nil {
		return err
	}
	b.sides = append(b.sides, measure.Side{
		Name: report.Parley, Load: b.parley.Load(), Database: report.Parley, Processes: b.parley, Allocated: b.parley.Allocated,
	})
	b.counts[report.Parley] = count{dsn, parley.Completed}
	return nil
}

func (b *bench) stop(ctx context.Context) error {
	var errs []error
	if b.parley != nil {
		errs = append(errs, b.parley.Stop())
	}
	if b.floor != nil {
		errs = append(errs, b.floor.Stop())
	}
	if b.servers != nil {
		errs = append(errs, b.servers.Stop(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

func (b *bench) measure(ctx context.Context, r *report.Report) error {
	setup, err := b.options.setup(ctx, b.servers, r.Setup)
	if err != nil {
		return err
	}
	setup.Rounds, setup.Seconds, setup.WarmUp = b.Rounds, b.Seconds, b.WarmUp
	if b.parley != nil {
		setup.Overrides = parley.Overrides
	}
	outcome, err := measure.Run(ctx, measure.Config{
		Clients: b.Clients, Rounds: b.Rounds, WarmUp: seconds(b.WarmUp), Duration: seconds(b.Seconds), Command: b.self,
		Progress: func(round int, s report.Sample) {
			sayf("%d clients, round %d of %d: %-6s %6.0f runs/s, p50 %.2f ms, p99 %.2f ms", s.Clients, round, b.Rounds, s.Side,
				s.Round.RunsPerSecond, s.Round.P50, s.Round.P99)
		},
	}, b.servers, b.sides)
	if err != nil {
		return errors.Join(err, b.servers.Err())
	}
	if setup.Stored, err = stored(ctx, b.counts, outcome.Answered); err != nil {
		return err
	}
	r.Setup = setup
	r.AddSamples(outcome.Samples)
	if b.parley == nil {
		return nil
	}
	return b.closer(ctx, b.servers, b.parley, report.Parley, outcome.Answered[report.Parley], r)
}

// closer adds what was asked for beside the figures: what statements cost, and profiles.
func (o *options) closer(
	ctx context.Context, on *servers.Servers, p *parley.Parley, database string, answered int64, r *report.Report,
) error {
	if o.Statements {
		found, err := on.Statements(ctx, database, answered)
		if err != nil {
			return err
		}
		r.Statements = append(r.Statements, found...)
	}
	if o.Profile == "" {
		return nil
	}
	files, err := p.WriteProfiles(ctx)
	for _, file := range files {
		sayf("go tool pprof -top %s", file)
	}
	return err
}

// stored counts what each side has on disk: it must not have answered more.
func stored(ctx context.Context, counts map[string]count, answered map[string]int64) (map[string]int64, error) {
	out := map[string]int64{}
	for side, c := range counts {
		db, err := sql.Open("postgres", c.dsn)
		if err != nil {
			return nil, fmt.Errorf("opening database of %s: %w", side, err)
		}
		var n int64
		err = db.QueryRowContext(ctx, c.query).Scan(&n)
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, fmt.Errorf("counting rows of %s: %w", side, err)
		}
		if n < answered[side] {
			return nil, fmt.Errorf("%s has answered %d requests, and %d are in its database", side, answered[side], n)
		}
		out[side] = n
	}
	return out, nil
}

// setup says what a measurement stands on; what is known of it already stays.
func (o *options) setup(ctx context.Context, running *servers.Servers, s report.Setup) (report.Setup, error) {
	if s.PostgreSQL != nil {
		return s, nil
	}
	s.Started, s.Cores, s.System, s.Go = o.started, runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, runtime.Version()
	s.PostgreSQL = map[string]string{}
	for _, name := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"} {
		value, err := running.Setting(ctx, name)
		if err != nil {
			return s, err
		}
		s.PostgreSQL[name] = value
	}
	version, err := exec.CommandContext(ctx, o.nats, "--version").Output()
	if err != nil {
		return s, fmt.Errorf("asking nats-server for its version: %w", err)
	}
	s.NATS = strings.TrimPrefix(strings.TrimSpace(string(version)), "nats-server: v")
	disk, err := machine.SyncTime(o.Dir)
	if err != nil {
		return s, err
	}
	if disk < machine.InMemory {
		sayf("warning: a sync takes %s: %s is not on a disk, and what is durable costs nothing there (--dir)", disk, o.Dir)
	}
	s.SyncMillis = disk.Seconds() * 1e3
	return s, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
