package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/bench/internal/servers"
	"parley/shared/lifecycle"
)

// options are what all measurements share.
type options struct {
	JSON    string `name:"json" default:"bin/bench.json" type:"path" help:"File for the report as JSON."`
	Dir     string `default:".cache/bench" type:"path" help:"Directory for the servers' data, emptied before and after; on a disk, not in memory."`
	NATS    string `name:"nats-server" env:"PARLEY_NATS_SERVER" type:"path" help:"The nats-server binary; by default bin/nats-server, else the one on the PATH."`
	Ingress string `type:"existingfile" help:"An ingress binary to measure instead of this tree's; with --worker."`
	Worker  string `type:"existingfile" help:"A worker binary to measure instead of this tree's; with --ingress."`
	Profile string `type:"path" placeholder:"DIR" help:"Also write profiles of ingress and worker into folders of this directory: of run-automation, deliveries, replays, arrivals and waiting requests. Slows both a little."`

	Statements bool `help:"Also show what each of Parley's SQL statements costs (pg_stat_statements), of run-automation, deliveries, replays and arrivals; slows PostgreSQL a little."`

	started time.Time
	self    string // this program
	nats    string // the nats-server binary
}

// measurement adds its figures to a report.
type measurement interface {
	measure(ctx context.Context, o *options, r *report.Report) error
}

func (o *options) check() error {
	switch {
	case (o.Ingress == "") != (o.Worker == ""):
		return errors.New("--ingress and --worker go together")
	case o.Ingress != "" && o.Profile != "":
		return errors.New("--profile needs the binaries to be built here: not with --ingress")
	}
	return nil
}

// run measures and writes the report: of the parts before it when one fails.
func (o *options) run(ctx context.Context, parts ...measurement) (err error) {
	unlock, err := o.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	o.started = time.Now().UTC()
	if err := o.find(ctx); err != nil {
		return interrupted(ctx, err)
	}
	var out report.Report
	for n, part := range parts {
		if failed := part.measure(ctx, o, &out); failed != nil {
			failed = interrupted(ctx, failed)
			if n == 0 {
				return failed
			}
			return errors.Join(failed, o.tell(&out)) // what took minutes is not lost
		}
	}
	return o.tell(&out)
}

// tell writes the report.
func (o *options) tell(out *report.Report) error {
	if err := out.WriteJSON(o.JSON); err != nil {
		return err
	}
	if err := out.WriteTables(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\n%s; also written to %s\n", time.Since(o.started).Round(time.Second), o.JSON)
	return nil
}

// interrupted names the signal alone when one is why everything else failed.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// prepare empties the directory and takes it: two benches at a time would measure each other.
func (o *options) prepare() (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Dir), 0o750); err != nil {
		return nil, fmt.Errorf("making directory: %w", err)
	}
	lock, err := lifecycle.LockFile(filepath.Clean(o.Dir) + ".lock")
	if err != nil {
		return nil, fmt.Errorf("another bench is running: %w", err)
	}
	clean := func() error { return os.RemoveAll(o.Dir) }
	err = clean()
	if err == nil {
		err = os.MkdirAll(o.Dir, 0o750)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("emptying directory: %w", err), lock.Unlock())
	}
	return func() error { return errors.Join(clean(), lock.Unlock()) }, nil
}

// find finds this program and the nats-server.
func (o *options) find(ctx context.Context) (err error) {
	if o.self, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	scripts, err := parley.Module(ctx, "parley/scripts")
	if err != nil {
		return err
	}
	o.nats, err = servers.FindNATS(o.NATS, filepath.Dir(scripts))
	return err
}

// binaries gives ingress and worker, built unless they were named or built before.
func (o *options) binaries(ctx context.Context) (parley.Binaries, error) {
	if o.Ingress == "" {
		sayf("building ingress and worker")
		built, err := parley.Build(ctx, o.Dir, o.Profile != "")
		if err != nil {
			return parley.Binaries{}, err
		}
		o.Ingress, o.Worker = built.Ingress, built.Worker
	}
	return parley.Binaries{Ingress: o.Ingress, Worker: o.Worker}, nil
}

// profiles gives the directory for those of one part, whose processes are called like another's; none when none are wanted.
func (o *options) profiles(part string) (dir string, err error) {
	if o.Profile == "" {
		return "", nil
	}
	dir = filepath.Join(o.Profile, part)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making directory: %w", err)
	}
	return dir, nil
}

// sayf tells whoever waits what is being done.
func sayf(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
