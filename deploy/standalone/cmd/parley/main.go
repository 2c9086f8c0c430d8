// Command parley is Parley in one binary. `parley up` runs the whole service in one process.
// `parley serve` runs selected roles and uses existing servers. Other commands call a running
// service.
//
// This package only parses the arguments and calls the selected command. The commands are in
// packages standalone, cli and prove. Each command is a struct with a method Run; the fields of the
// struct are the command's options.
//
// docs/cli.md lists the commands and exit statuses.
package main

import (
	"context"
	"io"
	"os"
	"reflect"
	"strconv"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/cli"
	"parley/deploy/standalone/internal/console"
	"parley/deploy/standalone/internal/prove"
	"parley/deploy/standalone/internal/standalone"
	"parley/shared/lifecycle"
	"parley/workers"
)

// commands lists the commands. The parser reads their names, help texts and groups from the tags.
// Other programs call the commands with the tag hidden.
type commands struct {
	Up     standalone.Up     `cmd:"" group:"serve" help:"Start everything in one process, with its own PostgreSQL and NATS unless DATABASE_URL and NATS_URL name other servers."`
	Serve  standalone.Serve  `cmd:"" group:"serve" help:"Start selected parts of the service against the servers at DATABASE_URL and NATS_URL."`
	Doctor standalone.Doctor `cmd:"" group:"serve" help:"Check what the service needs on this machine, with the command to install what is missing."`
	Config cli.Config        `cmd:"" group:"serve" help:"Print every setting, its value, and the source of the value."`
	Prove  prove.Prove       `cmd:"" group:"serve" help:"Kill parts of a test service while keyed triggers arrive, and check that each trigger has exactly one effect."`
	NATS   prove.NATS        `cmd:"" hidden:"" name:"nats"`

	Chat    cli.Chat    `cmd:"" group:"use" help:"Chat with an agent or a template; the answer is streamed."`
	Trigger cli.Trigger `cmd:"" group:"use" help:"Run an agent as a scheduler would, once per idempotency key."`
	Runs    cli.Runs    `cmd:"" group:"use" help:"List, show and cancel runs."`
	Agents  cli.Agents  `cmd:"" group:"use" help:"List agents and templates."`
	Keys    cli.Keys    `cmd:"" group:"use" help:"Create, list and revoke API keys."`

	Migrate       standalone.Migrate       `cmd:"" group:"keep" help:"Migrate the database at DATABASE_URL to this release's schema and templates."`
	ResetPassword standalone.ResetPassword `cmd:"" group:"keep" help:"Print a one-time link, valid for one day, to set a new password for an account."`
	Secrets       standalone.Secrets       `cmd:"" group:"keep" help:"Show which keys of SECRETS_KEY the database needs, and retire old ones."`
	Reset         standalone.Reset         `cmd:"" group:"keep" help:"Delete DATA_DIR and everything in it, after a confirmation."`

	Completion cli.Completion `cmd:"" group:"learn" help:"Print a shell completion script."`
	Help       cli.Help       `cmd:"" group:"learn" help:"Print the manual page of a command."`
	Version    cli.Version    `cmd:"" group:"learn" help:"Print the release and the build."`
	Complete   cli.Complete   `cmd:"" hidden:"" help:"Print completions for a command line, for shells."`
}

// groups are the headings under which the overview and the manual pages list commands and settings.
var groups = []kong.Group{
	{Key: "serve", Title: "Run the service"},
	{Key: "use", Title: "Use a running service"},
	{Key: "keep", Title: "Manage its data"},
	{Key: "learn", Title: "Learn more"},
}

// main runs the selected command and exits with its status. If a worker has started this process as
// its document reader, Extractor reads the document and does not return.
func main() {
	workers.Extractor()
	var c commands
	k := newParser(&c)
	if len(os.Args) < 2 {
		_, _ = io.WriteString(os.Stdout, cli.Overview(k.Model)) // an error is ignored, because the overview is only help
		return
	}

	chosen, err := k.Parse(words(os.Args[1:]))
	ctx, stop := lifecycle.Context(context.Background())
	if err == nil {
		chosen.BindTo(ctx, (*context.Context)(nil))
		err = chosen.Run(console.Standard())
	}

	code := cli.Code(ctx, err)
	stop()
	cli.Complain(k, err)
	os.Exit(code)
}

// words returns the arguments to parse. It replaces a leading --version by the command "version".
func words(args []string) []string {
	if args[0] != "--version" {
		return args
	}
	return append([]string{"version"}, args[1:]...)
}

// newParser returns the parser of arguments and environment variables. For a usage error it prints
// the short usage before the error, because a complete manual page would hide the error.
func newParser(c *commands, options ...kong.Option) *kong.Kong {
	own := []kong.Option{
		kong.Name("parley"), kong.Description("A self-hosted service for AI agents."), kong.ExplicitGroups(groups),
		kong.Help(cli.PrintHelp), kong.ShortHelp(cli.PrintUsage), kong.ShortUsageOnError(),
		cli.Texts(), cli.Pairs(), cli.WholeNumbers(reflect.Int, strconv.IntSize), cli.WholeNumbers(reflect.Int64, 64),
	}
	c.Config.CheckModels = workers.CheckModels
	return kong.Must(c, append(own, options...)...)
}
