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
	"CONNECTIONS_PER_ADDRESS": "0",
}

// Config says what to start and what to start it on.
type Config struct {
	Binaries    Binaries
	DatabaseURL string
	NATSURL     string
	LogsDir     string
	ProfilesDir string // where processes built with Profile write theirs

	Model    string            // of the agent; offline/echo by default
	Roles    string            // of the workers; agent,tool,sweep by default
	Workers  int               // processes; 1 by default
	Tools    map[string]any    // of the agent
	Settings map[string]string // besides Overrides
}

// Parley is a running ingress and its running workers.
type Parley struct {
	process.Group
	config  Config
	env     map[string]string
	base    string
	port    int
	workers []*process.Process
	metrics map[string]string // where processes tell theirs, by name
	account
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
	c.Roles, c.Workers = cmp.Or(c.Roles, "agent,tool,sweep"), cmp.Or(c.Workers, 1)
	p := &Parley{config: c, metrics: map[string]string{}}
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
	return migrations.Up(ctx, st.SQL())
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
	p.env = map[string]string{
		"DATABASE_URL": p.config.DatabaseURL, "NATS_URL": p.config.NATSURL, "HOST": "127.0.0.1", "PORT": strconv.Itoa(port),
		"SECRETS_KEY": hex.EncodeToString(secret),
	}
	if p.config.ProfilesDir != "" {
		p.env[profilesVariable] = p.config.ProfilesDir
	}
	maps.Copy(p.env, Overrides)
	maps.Copy(p.env, p.config.Settings)
	ingress, err := p.Group.Start(ctx, process.Config{
		Name: ingressName, Path: p.config.Binaries.Ingress, Env: p.env, LogsDir: p.config.LogsDir,
	})
	if err != nil {
		return err
	}
	p.metrics[ingressName] = p.base + metricsPath
	if err := p.SetWorkers(ctx, p.config.Workers); err != nil {
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
func (p *Parley) Load() load.Spec { return p.automation(p.account) }

func (p *Parley) automation(of account) load.Spec {
	return load.Spec{
		Address: p.Address(), Path: "/api/internal/run-automation",
		Headers: map[string]string{"x-api-key": of.key, "x-trigger-type": "schedule", "x-automation-id": "bench"},
		Body:    load.Body(of.agent), Expect: `"status":"completed"`,
	}
}

// Completed counts the runs that have their result on disk.
const Completed = `SELECT count(*) FROM runs WHERE status = 'completed'`
