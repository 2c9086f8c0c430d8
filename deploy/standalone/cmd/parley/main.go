// Command parley is Parley in one binary: everything in one process with `parley up`, or the
// parts against servers of your own with `parley serve`.
//
// It exits with 0 after a clean stop, 1 after a failure and 80 when its arguments are wrong.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/standalone"
	"parley/shared/lifecycle"
	"parley/workers"
)

type commands struct {
	Up      standalone.Up      `cmd:"" help:"Start everything in one process, with its own PostgreSQL and NATS unless DATABASE_URL and NATS_URL name others."`
	Serve   standalone.Serve   `cmd:"" help:"Start some parts of the service against the servers at DATABASE_URL and NATS_URL."`
	Migrate standalone.Migrate `cmd:"" help:"Bring the database at DATABASE_URL to this release's schema and templates."`
	Doctor  standalone.Doctor  `cmd:"" help:"Say what this machine has for the service and what it lacks, and the command that mends it."`
	Reset   standalone.Reset   `cmd:"" help:"Delete DATA_DIR with everything in it, after asking."`

	ResetPassword standalone.ResetPassword `cmd:"" help:"Print a link by which the person of an address sets a new password, once and within a day."`
}

func main() {
	workers.Extractor()
	var c commands
	k := newParser(&c)
	chosen, err := k.Parse(os.Args[1:])
	k.FatalIfErrorf(err)
	ctx, stop := lifecycle.Context(context.Background())
	chosen.BindTo(ctx, (*context.Context)(nil))
	err = chosen.Run()
	stop()
	k.FatalIfErrorf(err)
}

// newParser reads arguments and the environment. What it does not understand it says last, after a line or two on usage: a
// whole page of settings would hide it.
func newParser(c *commands, options ...kong.Option) *kong.Kong {
	own := []kong.Option{kong.Name("parley"), kong.Description("A self-hosted service for AI agents."), kong.ShortUsageOnError()}
	return kong.Must(c, append(own, options...)...)
}
