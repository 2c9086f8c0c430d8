package parley

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"parley/migrations"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
	"parley/shared/store"
)

const startTimeout = 60 * time.Second

// Overrides are the settings that differ from the defaults: limits that would end a measurement.
var Overrides = map[string]string{
	"LIMIT_USER": "99999999", "LIMIT_SYSTEM": "100000000", "STREAMS_PER_CREDENTIAL": "1000000", "STREAMS_PER_ORGANIZATION": "1000000",
}

// Config says what to start and what to start it on.
type Config struct {
	Binaries    Binaries
	DatabaseURL string
	NATSURL     string
	LogsDir     string
	ProfilesDir string // where processes built with Profile write theirs

	Model    string            // of the agent; offline/echo by default
	Roles    string            // of the worker; agent,tool,sweep by default
	Tools    map[string]any    // of the agent
	Settings map[string]string // besides Overrides
}

// Parley is a running ingress and a running worker.
type Parley struct {
	process.Group
	config Config
	base   string
	port   int
	key    string
	agent  string
}

// Start brings the schema up, starts both processes and makes the agent; the first run has been answered when it
// returns.
func Start(ctx context.Context, c Config) (*Parley, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := Migrate(ctx, c.DatabaseURL); err != nil {
		return nil, err
	}
	c.Model = cmp.Or(c.Model, "offline/echo")
	c.Roles = cmp.Or(c.Roles, "agent,tool,sweep")
	p := &Parley{config: c}
	err := p.start(ctx)
	if err == nil {
		err = p.seed(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Migrate brings a database to this tree's schema.
func Migrate(ctx context.Context, dsn string) (err error) {
	st, err := store.OpenOwner(dsn, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return migrations.Up(ctx, st.DB())
}

func (p *Parley) start(ctx context.Context) error {
	port, err := process.FreePort(ctx)
	if err != nil {
		return err
	}
	p.port, p.base = port, fmt.Sprintf("http://127.0.0.1:%d", port)
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("making secrets key: %w", err)
	}
	env := map[string]string{
		"DATABASE_URL": p.config.DatabaseURL, "NATS_URL": p.config.NATSURL, "HOST": "127.0.0.1", "PORT": strconv.Itoa(port),
		"SECRETS_KEY": hex.EncodeToString(secret),
	}
	if p.config.ProfilesDir != "" {
		env[profilesVariable] = p.config.ProfilesDir
	}
	maps.Copy(env, Overrides)
	maps.Copy(env, p.config.Settings)
	ingress, err := p.Group.Start(ctx, process.Config{Name: "ingress", Path: p.config.Binaries.Ingress, Env: env, LogsDir: p.config.LogsDir})
	if err != nil {
		return err
	}
	_, err = p.Group.Start(ctx, process.Config{
		Name: "worker", Path: p.config.Binaries.Worker, Args: []string{"--roles=" + p.config.Roles}, Env: env, LogsDir: p.config.LogsDir,
	})
	if err != nil {
		return err
	}
	return ingress.AwaitOK(ctx, p.base+"/readyz")
}

// Fresh starts the ingress anew: passwords that were hashed when the agent was made have filled a lot of memory, which
// the process would keep for a while.
func (p *Parley) Fresh(ctx context.Context) (ingress *process.Process, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if ingress, err = p.Restart(ctx, p.Processes()[0]); err != nil {
		return nil, err
	}
	return ingress, ingress.AwaitOK(ctx, p.base+"/readyz")
}

// Load is run-automation of the echo agent; how long and by how many is the caller's to say.
func (p *Parley) Load() load.Spec {
	return load.Spec{
		Address: p.Address(), Path: "/api/internal/run-automation",
		Headers: map[string]string{"x-api-key": p.key, "x-trigger-type": "schedule", "x-automation-id": "bench"},
		Body:    load.Body(p.agent), Expect: `"status":"completed"`,
	}
}

// Completed counts the runs that have their result on disk.
const Completed = `SELECT count(*) FROM runs WHERE status = 'completed'`
