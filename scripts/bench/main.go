// Command bench compares Parley with the floor, the baseline that docs/performance.md defines. Both
// run as real processes on loopback. `make bench` starts it.
//
// Each measurement is a Load in its own file. A Load has its own PostgreSQL and NATS servers and
// adds rows to the report. A row contains Parley's value, the floor's value from the same rounds,
// their ratio, and the goal.
//
// A hidden command of this program runs the floor's processes, so that the bench is one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"

	"parley/scripts/bench/internal/floor"
	"parley/shared/lifecycle"
)

// commands are the command-line commands: one for each load, and a hidden one for the floor.
type commands struct {
	options

	All   struct{} `cmd:"" default:"1" help:"All loads (the default)."`
	Short struct{} `cmd:"" help:"The most informative loads, with fewer and shorter rounds: three minutes."`

	Answers    answers    `cmd:"" help:"Streamed chats with a model that takes a second, compared with a minimal baseline (floor): time to the first piece, answers/s, CPU time."`
	Streams    streams    `cmd:"" help:"Many streamed chats with a model that sends a piece every 100 ms, compared with the floor: answers/s."`
	Inflight   inflight   `cmd:"" help:"Number of streamed runs that can be in flight with default settings, and the memory that each needs."`
	Fairness   fairness   `cmd:"" help:"Streamed chats while another organization has thousands of runs, compared with the same chats alone."`
	Tools      tools      `cmd:"" help:"Runs that call an HTTP tool twice, compared with runs without tools."`
	Automation automation `cmd:"" help:"run-automation compared with a minimal baseline (floor): runs/s, latency, commits and CPU time per run."`
	Waiting    waitMemory `cmd:"" help:"Memory per request that waits for a run, compared with a bare handler."`
	Hooks      hooks      `cmd:"" help:"Signed webhook deliveries, compared with a process that verifies the signature and inserts a row."`
	Replay     replay     `cmd:"" help:"Requests whose run has finished, compared with a process that reads the answer through an index."`
	Scale      scale      `cmd:"" help:"Runs per second with several workers, compared with a multiple of the rate of one worker."`
	Code       code       `cmd:"" help:"Duration of calls to codeExecution."`
	Search     searches   `cmd:"" help:"Recall and latency of searches, compared with PostgreSQL's ts_rank."`
	Growth     growth     `cmd:"" help:"Cost of a run in a database with many runs, compared with a database with few runs."`
	Soak       soak       `cmd:"" help:"Memory of ingress and worker after many runs, compared with the memory after 30 % of them."`

	Floor floorProcess `cmd:"" hidden:""`
}

// shortLoads returns the loads for comparing two commits. Their results are not in
// docs/performance.md.
func shortLoads() []namedLoad {
	return []namedLoad{
		{"answers", &answers{Clients: []int{64, 512}, Each: 3, Rounds: 2}},
		{"tools", &tools{Clients: []int{64}, Rounds: 1, Seconds: 1}},
		{"automation", &automation{closedLoop{Clients: []int{1, 16, 128}, Rounds: 2, Seconds: 1}}},
		{"replay", &replay{closedLoop: closedLoop{Clients: []int{1, 64}, Rounds: 2, Seconds: 1}, Keys: 1000}},
		{"hooks", &hooks{closedLoop{Clients: []int{1, 64}, Rounds: 2, Seconds: 1}}},
		{"waiting", &waitMemory{Waiters: 2000, Rounds: 1}},
	}
}

// floorProcess is the hidden command that runs one process of the floor.
type floorProcess struct {
	Kind string `arg:""`

	floor.Config
}

// Run runs one process of the floor until ctx ends.
func (f *floorProcess) Run(ctx context.Context) error { return floor.Serve(ctx, f.Kind, f.Config) }

// run executes the selected command.
func (c *commands) run(ctx context.Context, parsed *kong.Context) error {
	var all []namedLoad // in the order of the fields of commands
	for _, command := range parsed.Model.Children {
		if load, ok := reflect.TypeAssert[Load](command.Target.Addr()); ok {
			all = append(all, namedLoad{command.Name, load})
		}
	}

	name := parsed.Command()
	switch at := slices.IndexFunc(all, func(load namedLoad) bool { return load.name == name }); {
	case at >= 0:
		return c.measure(ctx, all[at])
	case name == "all":
		return c.measure(ctx, all...)
	case name == "short":
		return c.measure(ctx, shortLoads()...)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run() // the floor
}

func main() {
	var c commands
	parsed := kong.Parse(&c, kong.Name("bench"), kong.Description("Compares Parley with a baseline that does as little work as possible."))
	ctx, stop := lifecycle.Context(context.Background())
	err := c.run(ctx, parsed)
	stop()
	if signalled, ok := errors.AsType[*lifecycle.SignalError](err); ok {
		fmt.Fprintln(os.Stderr, "bench: stopped by", signalled.Signal)
		os.Exit(130)
	}
	parsed.FatalIfErrorf(err)
}
