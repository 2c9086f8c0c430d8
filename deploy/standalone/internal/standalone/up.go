package standalone

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress"
	"parley/shared/config"
	"parley/shared/lifecycle"
	"parley/shared/secrets"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers"
)

// Up is the command that runs the whole service in one process. All settings have defaults.
type Up struct {
	config.Servers
	config.Logging
	config.Telemetry
	config.Runs
	config.Secrets
	config.Documents
	config.Ingress
	config.Workers
	DataDir string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"Directory for PostgreSQL, the job stream and credentials.json."`
	JSON    bool   `name:"json" help:"Print the credentials as one line of JSON instead of the banner."`
}

// Help returns the description for the manual page of the command.
func (*Up) Help() string {
	return `Starts PostgreSQL, NATS, the workers and the HTTP service. The first start also creates an organization, an API key and a demo agent. When everything is ready, the command prints the URLs and runs until Ctrl-C or SIGTERM, after which it exits with 0. Runs in progress continue at the next start.

DATA_DIR/credentials.json (mode 0600) has the values for scripts: baseUrl, apiKey, organizationId, agentId, loginUrl. If the port is in use, the next free port is used, and the banner names the process that uses it.`
}

// Examples returns the examples on the manual page of the command.
func (*Up) Examples() string {
	return `parley up
OPENAI_API_KEY=sk-... parley up --port 9000
parley up --json | head -1 | jq -r .baseUrl`
}

// Run starts the service, prints the banner when it is ready, and serves until ctx ends. It then
// stops the parts in reverse order. Runs in progress are requeued and continue at the next start.
// The error joins the errors of all parts.
func (u *Up) Run(ctx context.Context) (err error) {
	began := time.Now()
	dir, err := filepath.Abs(u.DataDir)
	if err != nil {
		return fmt.Errorf("finding data directory: %w", err)
	}

	// The lock is taken first, because everything below writes to the directory.
	lock, err := lockData(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if u.SecretsKey == "" {
		if u.SecretsKey, err = secretsKey(filepath.Join(dir, "secrets.key")); err != nil {
			return err
		}
	}

	log := telemetry.Logger(u.Logging, "parley")
	telemetry.WarnOfRemovedSettings(log)

	// Starting the servers takes seconds, so the settings are checked first.
	if err := u.check(); err != nil {
		return err
	}

	// The port is reserved before the servers start, so that a port in use is noticed at once.
	listener, busy, err := listen(ctx, u.Host, u.Port)
	if err != nil {
		return err
	}

	tracer, err := tracing.Open(ctx, u.Telemetry, "parley", log)
	if err != nil {
		return err
	}
	defer tracer.Close(ctx)

	group := &lifecycle.Group{StopTimeout: u.StopGrace + 3*stopTime}
	b, err := u.assemble(ctx, dir, listener, tracer, log, group)
	if err != nil {
		return stopStarted(ctx, group, err)
	}

	b.busy, b.began, b.json = busy, began, u.JSON
	group.Add("banner", func(ctx context.Context) error {
		if err := b.present(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	return group.Run(ctx)
}

// stopStarted stops the parts of a service whose start has failed, as after a signal. It returns the
// errors of the parts, joined with err unless ctx has ended, which explains err.
func stopStarted(ctx context.Context, group *lifecycle.Group, err error) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	stopped := group.Run(ended)
	if ctx.Err() != nil {
		return stopped
	}
	return errors.Join(err, stopped)
}

// check returns an error for the first invalid setting.
func (u *Up) check() error {
	if err := config.Invalid(u.Telemetry.Check(), u.Servers.Check()); err != nil {
		return err
	}
	return cmp.Or(workers.Check(u.workers(nil)), ingress.Check(u.ingress()))
}

// workers returns the settings of the workers.
func (u *Up) workers(ownPorts []int) workers.Config {
	return workers.Config{
		Runs: u.Runs, Secrets: u.Secrets, Documents: u.Documents, Workers: u.Workers, Telemetry: u.Telemetry, Roles: workers.Roles,
		OwnPorts: ownPorts,
	}
}

// ingress returns the settings of the ingress.
func (u *Up) ingress() ingress.Config {
	return ingress.Config{
		Runs: u.Runs, Secrets: u.Secrets, Documents: u.Documents, Outbound: u.Outbound, Ingress: u.Ingress,
		OpenAIBaseURL: u.OpenAIBaseURL,
	}
}

// assemble adds the servers, the workers and the ingress to the group, and returns the banner. The
// workers and the ingress do not run before group.Run. If assemble fails, the group contains the
// parts that must be stopped.
func (u *Up) assemble(
	ctx context.Context, dir string, listener net.Listener, tracer *tracing.Tracer, log zerolog.Logger, group *lifecycle.Group,
) (*banner, error) {
	srv, err := startServers(ctx, u.Servers, u.Secrets, dir, tracer, log, group)
	if err != nil {
		return nil, err
	}

	metrics := srv.Metrics(true)
	w, err := workers.New(u.workers(ownPorts(u.Servers, listener.Addr())), //nolint:contextcheck // it has its own timeouts
		workers.Deps{Store: srv.Store, Bus: srv.Bus, Log: log, Metrics: metrics, Tracer: tracer})
	if err != nil {
		return nil, err
	}

	group.Add("workers", w.Run)
	u.DefaultModel = w.DefaultModel()
	in, err := ingress.New(u.ingress(), ingress.Deps{
		Store: srv.Store, Bus: srv.Bus, Log: log, Metrics: metrics, Tracer: tracer, Listener: listener,
		Owner: ownerEmail, Program: programName(os.Args[0]),
	})
	if err != nil {
		return nil, err
	}

	group.Add("ingress", in.Run)
	return &banner{
		seeds: seeder{
			store: srv.Store, baseURL: localURL(listener.Addr()), publicURL: u.PublicURL,
			file: filepath.Join(dir, "credentials.json"),
		},
		model: w.DefaultModel(), hints: hintsFor(&u.Workers), search: u.SearchEngine(), dataDir: dir,
		can: w.Capabilities(), //nolint:contextcheck // its checks have their own timeouts
	}, nil
}

// programName returns how the operator's shell finds this program, given the name by which it was
// started. A relative path stays as it is. Of an absolute path, only the last part is returned,
// because the login page shows the name to strangers.
func programName(arg string) string {
	if filepath.IsAbs(arg) {
		return filepath.Base(arg)
	}
	return arg
}

// localURL returns the URL of a listener for clients on this machine. If the listener accepts
// connections on all addresses, the URL contains the loopback address. The URL has no slash at its
// end.
func localURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + address.String()
}

// secretsKey reads the key that encrypts stored secrets from the file at path. At the first start
// there is no key, and secretsKey creates one. Without this file, the stored secrets are lost.
func secretsKey(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		if _, err = secrets.NewBox(string(raw)); err == nil {
			return string(raw), nil
		}
		return "", fmt.Errorf("%s contains no valid key; restore it from a backup: %w", path, err)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading secrets key: %w", err)
	}

	key := make([]byte, 32)
	_, _ = rand.Read(key) // this never fails
	text := base64.StdEncoding.EncodeToString(key)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing secrets key: %w", err)
	}
	return text, nil
}
