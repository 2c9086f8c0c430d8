// Command bench measures Parley beside the floor of the performance page, both as real
// processes on loopback: `make bench`. Its hidden commands are the processes of the floor
// and the client, so that the bench is one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/shared/lifecycle"
)

type commands struct {
	All        everything `cmd:"" default:"withargs" help:"All measurements (the default)."`
	Short      short      `cmd:"" help:"The most telling measurements in three minutes, with fewer and shorter rounds."`
	Automation automation `cmd:"" help:"run-automation beside the floor: runs/s, latency, commits and CPU time a run."`
	Waiting    waiting    `cmd:"" help:"Waiting requests and open streams: the memory that each costs the ingress, whether each is answered, and how fast tokens reach streams."`
	Code       code       `cmd:"" help:"Calls of codeExecution beside a bare bubblewrap with Python."`
	Documents  documents  `cmd:"" help:"Documents: how fast they are ingested, beside pdftotext alone, and searched, beside one indexed query."`
	Voice      voice      `cmd:"" help:"Conversations: what Parley adds to the time until an answer is heard, interruptions, and many at a time."`
	Hooks      hooks      `cmd:"" help:"Signed deliveries to a hook, accepted, beside a process that checks the signature and inserts a row."`
	Replay     replay     `cmd:"" help:"Requests whose runs have ended before, beside a process that reads the answer by an index."`
	Steady     steady     `cmd:"" help:"run-automation by arrivals at a share of the peak, whether or not those before have been answered."`
	Scale      scale      `cmd:"" help:"Several worker processes, and what one organization sees of another's flood."`
	Growth     growth     `cmd:"" help:"What a run costs in a database that has seen many, and while many expire."`
	Soak       soak       `cmd:"" help:"What ingress and worker fill while a day's runs go through as fast as they can."`
	Retrieval  retrieval  `cmd:"" help:"What searches find: questions about manual pages, beside PostgreSQL's ts_rank."`

	FloorIngress floorIngress `cmd:"" hidden:""`
	FloorWorker  floorWorker  `cmd:"" hidden:""`
	FloorParked  floorParked  `cmd:"" hidden:""`
	FloorHooks   floorHooks   `cmd:"" hidden:""`
	FloorReplay  floorReplay  `cmd:"" hidden:""`
	Model        slowModel    `cmd:"" hidden:""`
	Client       client       `cmd:"" hidden:""`
}

type floorIngress struct {
	Address     string `env:"ADDRESS" required:""`
	DatabaseURL string `env:"DATABASE_URL" required:""`
	NATSURL     string `name:"nats-url" env:"NATS_URL" required:""`
}

// Run serves until it is told to stop.
func (f *floorIngress) Run(ctx context.Context) error {
	return floor.RunIngress(ctx, f.Address, f.DatabaseURL, f.NATSURL)
}

type floorWorker struct {
	NATSURL string `name:"nats-url" env:"NATS_URL" required:""`
}

// Run works until it is told to stop.
func (f *floorWorker) Run(ctx context.Context) error { return floor.RunWorker(ctx, f.NATSURL) }

type floorParked struct {
	Address string `env:"ADDRESS" required:""`
}

// Run serves until it is told to stop.
func (f *floorParked) Run(ctx context.Context) error { return floor.RunParked(ctx, f.Address) }

type floorHooks struct {
	Address     string `env:"ADDRESS" required:""`
	DatabaseURL string `env:"DATABASE_URL" required:""`
	Secret      string `env:"SECRET" required:""`
}

// Run serves until it is told to stop.
func (f *floorHooks) Run(ctx context.Context) error {
	return floor.RunHooks(ctx, f.Address, f.DatabaseURL, f.Secret)
}

type floorReplay struct {
	Address     string `env:"ADDRESS" required:""`
	DatabaseURL string `env:"DATABASE_URL" required:""`
}

// Run serves until it is told to stop.
func (f *floorReplay) Run(ctx context.Context) error {
	return floor.RunReplay(ctx, f.Address, f.DatabaseURL)
}

type slowModel struct {
	Address string        `env:"ADDRESS" required:""`
	Delay   time.Duration `env:"DELAY" required:""`
}

// Run serves until it is told to stop.
func (s *slowModel) Run(ctx context.Context) error { return model.Serve(ctx, s.Address, s.Delay) }

type client struct{}

// Run sends what standard input says.
func (*client) Run(ctx context.Context) error { return load.Serve(ctx, os.Stdin, os.Stdout) }

func main() {
	var c commands
	parsed := kong.Parse(&c, kong.Name("bench"), kong.Description("Measures Parley beside the least that it could cost."))
	ctx, stop := lifecycle.Context(context.Background())
	parsed.BindTo(ctx, (*context.Context)(nil))
	err := parsed.Run()
	stop()
	var signalled *lifecycle.SignalError
	switch {
	case errors.As(err, &signalled):
		fmt.Fprintln(os.Stderr, "bench: stopped by", signalled.Signal)
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
