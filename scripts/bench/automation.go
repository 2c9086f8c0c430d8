package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/shared/lifecycle"
)

// automation measures run-automation.
type automation struct {
	Clients []int    `default:"1,16,128" help:"Numbers of clients, each with one request at a time."`
	Rounds  int      `default:"3" help:"Rounds of each side at each number of clients."`
	Seconds float64  `default:"2.5" help:"Measured time of a round."`
	WarmUp  float64  `name:"warm-up" default:"0.7" help:"Seconds before that, not measured."`
	Sides   []string `default:"floor,parley" enum:"floor,parley" help:"What to measure: floor, parley, or both."`
	JSON    string   `name:"json" default:"bin/bench.json" type:"path" help:"File for the report as JSON."`
	Dir     string   `default:".cache/bench" type:"path" help:"Directory for the servers' data, emptied before and after; on a disk, not in memory."`
	NATS    string   `name:"nats-server" env:"PARLEY_NATS_SERVER" type:"path" help:"The nats-server binary; by default bin/nats-server, else the one on the PATH."`
	Ingress string   `type:"existingfile" help:"An ingress binary to measure instead of this tree's; with --worker."`
	Worker  string   `type:"existingfile" help:"A worker binary to measure instead of this tree's; with --ingress."`

	Statements bool   `help:"Also show what each of Parley's SQL statements costs (pg_stat_statements); slows PostgreSQL a little."`
	Profile    string `type:"path" placeholder:"DIR" help:"Also write CPU profiles of ingress and worker into this directory; slows both a little."`
}

// Validate is called by kong.
func (a *automation) Validate() error {
	switch {
	case a.Rounds < 1 || a.Seconds <= 0 || a.WarmUp < 0:
		return errors.New("--rounds and --seconds must be above zero, --warm-up not below")
	case len(a.Clients) == 0 || slices.Min(a.Clients) < 1:
		return errors.New("--clients takes numbers above zero")
	case (a.Ingress == "") != (a.Worker == ""):
		return errors.New("--ingress and --worker go together")
	case a.Ingress != "" && a.Profile != "":
		return errors.New("--profile needs the binaries to be built here: not with --ingress")
	}
	return nil
}

// Run measures and writes the report.
func (a *automation) Run(ctx context.Context) (err error) {
	release, err := a.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	b := &bench{automation: a, started: time.Now().UTC()}
	defer func() { err = errors.Join(err, b.stop(ctx)) }()
	if err := b.start(ctx); err != nil {
		return interrupted(ctx, err)
	}
	result, err := b.measure(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := result.WriteJSON(a.JSON); err != nil {
		return err
	}
	if err := result.WriteTables(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\n%s; also written to %s\n", time.Since(b.started).Round(time.Second), a.JSON)
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
func (a *automation) prepare() (release func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(a.Dir), 0o750); err != nil {
		return nil, fmt.Errorf("making directory: %w", err)
	}
	lock, err := lifecycle.LockFile(filepath.Clean(a.Dir) + ".lock")
	if err != nil {
		return nil, fmt.Errorf("another bench is running: %w", err)
	}
	if a.Profile != "" {
		if err := os.MkdirAll(a.Profile, 0o750); err != nil {
			return nil, errors.Join(fmt.Errorf("making directory: %w", err), lock.Unlock())
		}
	}
	clean := func() error { return os.RemoveAll(a.Dir) }
	err = clean()
	if err == nil {
		err = os.MkdirAll(a.Dir, 0o750)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("emptying directory: %w", err), lock.Unlock())
	}
	return func() error { return errors.Join(clean(), lock.Unlock()) }, nil
}
