package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"parley/deploy/standalone/internal/console"
)

// Prove is the command `parley prove`. Its fields are the flags.
type Prove struct {
	Triggers int           `name:"triggers" default:"1000" help:"Number of keyed triggers to send, at most 100000."`
	Workers  int           `name:"workers" default:"2" help:"Number of workers to start, at most 16."`
	Seed     *uint64       `name:"seed" placeholder:"N" help:"Seed of the random kills, to repeat a trial; default: a new seed."`
	Kill     []string      `name:"kill" default:"worker,nats,ingress,postgres" enum:"worker,nats,ingress,postgres" help:"Parts to kill: ${enum}."`
	Timeout  time.Duration `name:"timeout" default:"5m" help:"Time limit for answering all triggers."`
	Sabotage string        `name:"sabotage" default:"" enum:",keys,ledger" placeholder:"KIND" help:"Break the trial on purpose: \"keys\" sends retries with new keys, \"ledger\" forgets bookings."`
	Keep     bool          `name:"keep" help:"Keep the directory with all data and logs."`
	JSON     bool          `name:"json" help:"Print only one JSON object, at the end."`
}

// Upper limits of the flags' values.
const (
	maxTriggers = 100_000
	maxWorkers  = 16
)

// drainTime is the time limit for sending the replays and listing the runs, which follow the last
// answer.
const drainTime = 2 * time.Minute

// ErrFailed reports that the service has broken a promise, either by itself or because the user
// sabotaged it.
var ErrFailed = errors.New("the trial failed")

// Help returns the description for the manual page of the command.
func (*Prove) Help() string {
	return "Starts its own service, on loopback ports and in a temporary directory; your settings, keys and data are not read. " +
		"While clients send keyed triggers, and repeat them until they are answered, workers, NATS, the ingress and PostgreSQL " +
		"are killed with kill -9, at points that the seed selects. For each trigger, an agent books an effect in a ledger that " +
		"ignores repeated keys. Status 0 means that every trigger was answered by one run with one effect. docs/prove.md explains each " +
		"line of the output, and what the command does not prove."
}

// Examples returns the examples on the manual page of the command.
func (*Prove) Examples() string {
	return "parley prove\nparley prove --triggers 100 --seed 7\nparley prove --triggers 100 --kill ingress --sabotage keys"
}

// Run runs the proof and prints the verdict. It returns ErrFailed if the verdict contains faults.
// If the service has failed without sabotage, the directory with its data and logs is kept.
func (p *Prove) Run(ctx context.Context, c *console.Console) error {
	seed := uint64(rand.Uint32()) //nolint:gosec // G404: short enough to type; not a secret
	if p.Seed != nil {
		seed = *p.Seed
	}

	dir, err := os.MkdirTemp("", "parley-prove-")
	if err != nil {
		return fmt.Errorf("creating directory: %w", err)
	}

	report := p.reporter(c)
	report.begin(p, seed, dir)
	result, err := p.prove(ctx, report, seed, dir)
	report.done()
	// After a failure, the logs show what happened.
	kept := p.Keep || err == nil && !result.OK && p.Sabotage == ""
	if !kept {
		err = errors.Join(err, os.RemoveAll(dir))
	} else {
		result.Kept = dir
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the trial could not be completed: %w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if err := report.result(result); err != nil {
		return err
	}
	if !result.OK {
		return fmt.Errorf("%w: %d lost, %d duplicated, %d unanswered, %d other faults",
			ErrFailed, result.Lost, result.Doubled, result.Unanswered, result.faults-result.Lost-result.Doubled-result.Unanswered)
	}
	return nil
}

// Validate returns an error that describes the first invalid flag.
func (p *Prove) Validate() error {
	switch {
	case p.Triggers < 1 || p.Triggers > maxTriggers:
		return fmt.Errorf("--triggers must be between 1 and %d, not %d", maxTriggers, p.Triggers)
	case p.Workers < 1 || p.Workers > maxWorkers:
		return fmt.Errorf("--workers must be between 1 and %d, not %d", maxWorkers, p.Workers)
	case p.Timeout < time.Second:
		return fmt.Errorf("--timeout must be at least 1s, not %s", p.Timeout)
	}
	return nil
}

// prove starts the service, runs the trial and returns its result. An error means that the trial
// could not be completed; a broken promise is a fault in the result. Before prove returns, it stops
// everything that it has started.
func (p *Prove) prove(ctx context.Context, report *reporter, seed uint64, dir string) (r Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	book, err := startLedger(ctx, p.Sabotage == "ledger")
	if err != nil {
		return r, err
	}
	defer book.close()

	size := sizesFor(p.Triggers, p.Workers)
	parts, stopParts := context.WithCancelCause(ctx)
	s, err := startService(parts, dir, p.Workers, size, book.address, cancel)
	if s != nil {
		defer s.end()
	}
	defer stopParts(nil)
	if err != nil {
		return r, preferCause(ctx, err)
	}

	a := newAPI(s.base, size.clients)
	if err := a.signUp(ctx, book.address); err != nil {
		return r, preferCause(ctx, err)
	}

	report.ready(p.Workers)
	t := &trial{load: newLoad(a, p.Triggers, p.Sabotage == "keys"), service: s, ledger: book, report: report}
	kills := schedule(seed, p.Triggers, p.Workers, p.Kill)
	if err := t.run(ctx, kills, p.Timeout); err != nil {
		return r, preferCause(ctx, err)
	}

	r = t.result()
	r.Seed, r.Sabotage, r.Workers = seed, p.Sabotage, p.Workers
	return r, nil
}

// preferCause returns the cause of ctx if ctx was canceled, because err is then only a consequence.
// Otherwise it returns err.
func preferCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
