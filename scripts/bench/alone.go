package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/bench/internal/servers"
)

// stage is what a measurement stands on.
type stage struct {
	dir      string
	servers  *servers.Servers
	binaries parley.Binaries
	profiles string // where they are written; empty: not at all
}

// parley starts Parley on a database of that name, with settings that differ from the bench's own, and gives the database's address, too.
func (on stage) parley(ctx context.Context, database string, settings map[string]string) (p *parley.Parley, dsn string, err error) {
	if dsn, err = on.servers.Database(ctx, database); err != nil {
		return nil, "", err
	}
	p, err = parley.Start(ctx, parley.Config{
		Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir, ProfilesDir: on.profiles,
		Settings: settings,
	})
	if err != nil {
		return nil, "", errors.Join(err, on.servers.Err())
	}
	return p, dsn, nil
}

// alone measures on servers of their own: those of other measurements hold their jobs, and have workers that take calls.
func (o *options) alone(ctx context.Context, name string, r *report.Report, measure func(stage) error) (err error) {
	on := stage{dir: filepath.Join(o.Dir, name)}
	if err := os.MkdirAll(on.dir, 0o750); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.WarnLevel)
	if on.servers, err = servers.Start(ctx, servers.Config{Dir: on.dir, NATS: o.nats, Log: log, Statements: o.Statements}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.servers.Stop(context.WithoutCancel(ctx))) }()
	if on.binaries, err = o.binaries(ctx); err != nil {
		return err
	}
	if on.profiles, err = o.profiles(name); err != nil {
		return err
	}
	if r.Setup, err = o.setup(ctx, on.servers, r.Setup); err != nil {
		return err
	}
	return measure(on)
}
