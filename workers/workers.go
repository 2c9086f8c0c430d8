// Package workers is everything that happens after a job is on the bus: agent workers carry
// out runs, tool workers their tool calls, and the sweeper repairs what was lost. New and Run
// are its only exported API; the roles may run in one process or in many.
package workers

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/lifecycle"
	"parley/shared/store"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/providers"
	"parley/workers/internal/runner"
	"parley/workers/internal/sweep"
)

// Role is a part of the work that a process takes on.
type Role string

// The roles.
const (
	RoleAgent Role = "agent" // carries out runs
	RoleTool  Role = "tool"  // carries out tool calls
	RoleSweep Role = "sweep" // repairs what was lost and ends what is over
)

// Roles lists all roles.
var Roles = []Role{RoleAgent, RoleTool, RoleSweep}

const slotsPerCore = 64

// Config are the settings of a worker process.
type Config struct {
	config.Runs
	config.Workers
	Roles []Role
}

// Deps are what a worker process works with. The caller closes them after Run.
type Deps struct {
	Store *store.Store
	Bus   *bus.Bus
	Log   zerolog.Logger
	// Metrics is where the process's metrics are shown; nil for nowhere.
	Metrics *prometheus.Registry
}

// Workers is a worker process's part of the service.
type Workers struct {
	cfg    Config
	deps   Deps
	models *llm.Registry
	runner *runner.Runner
}

// New checks the settings.
func New(cfg Config, deps Deps) (*Workers, error) {
	if err := cfg.Runs.Check(); err != nil {
		return nil, err
	}
	if err := cfg.Workers.Check(); err != nil {
		return nil, err
	}
	for _, role := range cfg.Roles {
		if !slices.Contains(Roles, role) {
			return nil, fmt.Errorf("no such worker role: %q", role)
		}
	}
	if cfg.WorkerConcurrency == 0 {
		cfg.WorkerConcurrency = slotsPerCore * runtime.GOMAXPROCS(0)
	}
	models, err := providers.New(providers.Config{
		OpenAIAPIKey: cfg.OpenAIAPIKey, OpenAIBaseURL: cfg.OpenAIBaseURL, DefaultModel: cfg.DefaultModel,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up models: %w", err)
	}
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
	}
	agent, err := runner.New(runner.Config{Concurrency: cfg.WorkerConcurrency, Window: cfg.OrgDispatchWindow},
		deps.Store, deps.Store, deps.Bus, models, deps.Metrics, deps.Log)
	if err != nil {
		return nil, err
	}
	return &Workers{cfg: cfg, deps: deps, models: models, runner: agent}, nil
}

// DefaultModel is what agents that name no model run on.
func (w *Workers) DefaultModel() string { return w.models.Default() }

// Run takes on the roles until ctx ends and what is in hand was finished or given back.
func (w *Workers) Run(ctx context.Context) error {
	var group lifecycle.Group
	for _, role := range w.cfg.Roles {
		switch role {
		case RoleAgent:
			group.Add("agent", w.runner.Run)
		case RoleSweep:
			group.Add("sweep", sweep.New(w.cfg.OrgDispatchWindow, w.deps.Store, w.deps.Bus, w.deps.Log).Run)
		case RoleTool:
			group.Add("tool", w.serveTools)
		}
	}
	return group.Run(ctx)
}

// serveTools is the tool worker's part. This release has no tools, so it has nothing to subscribe to: the
// role is accepted so that deployments can name it, and says so.
func (w *Workers) serveTools(ctx context.Context) error {
	w.deps.Log.Info().Int("tools", 0).Msg("tool worker ready; this release has no tools to serve")
	<-ctx.Done()
	return nil
}
