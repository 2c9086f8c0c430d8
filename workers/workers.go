// Package workers is everything that happens after a job is on the bus: agent workers carry
// out runs, tool workers their tool calls, and the sweeper repairs what was lost. New and Run,
// and what the machine can do, are its only exported API; the roles may run in one process or in many.
package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/lifecycle"
	"parley/shared/outbound"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/embed"
	"parley/workers/internal/ingest"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/observed"
	"parley/workers/internal/llm/providers"
	"parley/workers/internal/notify"
	"parley/workers/internal/runner"
	"parley/workers/internal/searchserver"
	"parley/workers/internal/sweep"
	"parley/workers/internal/toolserver"
	"parley/workers/internal/toolset"
)

// Role is a part of the work that a process takes on.
type Role string

// The roles.
const (
	RoleAgent  Role = "agent"  // carries out runs
	RoleTool   Role = "tool"   // carries out tool calls
	RoleIngest Role = "ingest" // processes documents
	RoleSweep  Role = "sweep"  // repairs what was lost and ends what is over
	RoleVoice  Role = "voice"  // understands and makes speech
	RoleNotify Role = "notify" // sends notifications
)

// Roles lists all roles.
var Roles = []Role{RoleAgent, RoleTool, RoleIngest, RoleSweep, RoleVoice, RoleNotify}

// How much a process takes on for each core, unless it is set.
const (
	runsPerCore  = 64
	callsPerCore = 32
	retryBudget  = 20 // model calls that are made again, in a row, before successes must earn more
)

// sandboxQueueTime is how long a call may wait for a sandbox.
const sandboxQueueTime = 90 * time.Second

// stopTime is enough for runs in hand to finish or be put back, and then for the tool calls of others.
const stopTime = 50 * time.Second

// Config are the settings of a worker process.
type Config struct {
	config.Runs
	config.Secrets // of every role but sweep
	config.Documents
	config.Workers
	config.Telemetry
	Roles []Role
	// OwnPorts are the ports of this service and its servers: what agents request never reaches them on this machine.
	OwnPorts []int
}

// Deps are what a worker process works with. The caller closes them after Run.
type Deps struct {
	Store *store.Store
	Bus   *bus.Bus
	Log   zerolog.Logger
	// Tracer begins the traces of this process's part of runs; nil for none.
	Tracer *tracing.Tracer
	// Metrics is where the process's metrics are shown; nil for nowhere.
	Metrics *prometheus.Registry
}

// Workers is a worker process's part of the service.
type Workers struct {
	cfg    Config
	deps   Deps
	models *llm.Registry
	runner *runner.Runner       // of the role agent, else nil
	caller *bus.ToolCaller      // of the role agent, else nil
	tools  *toolserver.Server   // of the role tool, else nil
	search *searchserver.Server // of the role tool, else nil

	isolation *isolation       // of the roles tool and ingest, else nil
	outside   *outbound.Client // of the same, and of the role notify
	embedder  *embed.Embedder  // of the same; nil: no model is set
	ingester  *ingest.Ingester // of the role ingest, where there is a sandbox
	extractor *reading         // of the same
	speech    *voiceParts      // of the role voice, else nil
	notifier  *notify.Notifier // of the role notify, else nil
	sealed    *sealed.Watch    // of every role but sweep, else nil
}

// New checks the settings.
func New(cfg Config, deps Deps) (*Workers, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	if cfg.WorkerConcurrency == 0 {
		// One organization has no more than half of the places, however few cores there are.
		cfg.WorkerConcurrency = max(runsPerCore*runtime.GOMAXPROCS(0), 2*cfg.OrgDispatchWindow)
	}
	if cfg.ToolConcurrency == 0 {
		cfg.ToolConcurrency = callsPerCore * runtime.GOMAXPROCS(0)
	}
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
	}
	w := &Workers{cfg: cfg, deps: deps}
	observer, err := observed.New(deps.Metrics, cfg.CaptureContent)
	if err != nil {
		return nil, fmt.Errorf("setting up models: %w", err)
	}
	w.models, err = providers.New(providers.Config{
		Around:       observer.Provider,
		OpenAIAPIKey: cfg.OpenAIAPIKey, OpenAIBaseURL: cfg.OpenAIBaseURL,
		AnthropicAPIKey: cfg.AnthropicAPIKey, AnthropicBaseURL: cfg.AnthropicBaseURL, DefaultModel: cfg.DefaultModel,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up models: %w", err)
	}
	if err := w.setUpServices(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// setUpServices makes the roles' parts.
func (w *Workers) setUpServices() error {
	if err := w.watchSecrets(); err != nil {
		return err
	}
	if w.has(RoleTool) || w.has(RoleIngest) {
		if err := w.setUpShared(); err != nil {
			return err
		}
	}
	if w.has(RoleTool) {
		if err := w.setUpTools(); err != nil {
			return err
		}
	}
	if w.has(RoleIngest) {
		if err := w.setUpIngest(); err != nil {
			return err
		}
	}
	if w.has(RoleVoice) {
		if err := w.setUpVoice(); err != nil {
			return err
		}
	}
	if w.has(RoleNotify) {
		if err := w.setUpNotify(); err != nil {
			return err
		}
	}
	if w.has(RoleAgent) {
		return w.setUpAgent()
	}
	return nil
}

func (w *Workers) has(role Role) bool { return slices.Contains(w.cfg.Roles, role) }

// setUpShared makes what tools and documents need alike: the one client for what lies outside, the sandbox, the embeddings' model.
func (w *Workers) setUpShared() error {
	if err := w.setUpOutside(); err != nil {
		return err
	}
	var err error
	w.embedder, err = embed.New(embed.Config{
		Model: w.cfg.EmbeddingsModel, OpenAIAPIKey: w.cfg.OpenAIAPIKey, OpenAIBaseURL: w.cfg.OpenAIBaseURL,
	})
	if err != nil {
		return fmt.Errorf("setting up embeddings: %w", err)
	}
	box, err := secrets.NewBox(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	if w.cfg.EncryptContents {
		w.deps.Store.Seals.SealContents(box)
	} else {
		w.deps.Store.Seals.OpenContents(box) // that were kept while it was set
	}
	w.setUpSandbox()
	return nil
}

// setUpOutside makes the one client for what lies outside.
func (w *Workers) setUpOutside() (err error) {
	if w.outside != nil {
		return nil
	}
	w.outside, err = outbound.New(outbound.Config{Allow: w.cfg.OutboundAllow, OwnPorts: w.ownPorts(), Around: tracing.Transport})
	if err != nil {
		return fmt.Errorf("reading OUTBOUND_ALLOW: %w", err)
	}
	return nil
}

// setUpNotify makes what sends notifications.
func (w *Workers) setUpNotify() error {
	if err := w.setUpOutside(); err != nil {
		return err
	}
	var err error
	w.notifier, err = notify.New(w.deps.Store.Notifications, w.deps.Bus, w.outside, w.sealed, w.deps.Metrics, w.deps.Log)
	return err
}

// watchSecrets reports stored secrets and contents that this process cannot open.
func (w *Workers) watchSecrets() error {
	if !needsSecrets(w.cfg.Roles) {
		return nil
	}
	box, err := secrets.NewBox(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	if w.sealed, err = sealed.NewWatch(box, w.deps.Metrics, w.deps.Log); err != nil {
		return err
	}
	w.deps.Store.Seals.ReportUnopened(w.sealed.UnopenedBytes)
	return nil
}

// needsSecrets reports whether any of the roles needs SECRETS_KEY.
func needsSecrets(roles []Role) bool {
	return slices.ContainsFunc(roles, func(role Role) bool { return role != RoleSweep })
}

// close gives back what New has opened.
func (w *Workers) close() error {
	if w.caller != nil {
		w.caller.Close()
	}
	if w.embedder != nil {
		w.embedder.Close()
	}
	if w.speech != nil {
		w.speech.backends.Close()
	}
	var errs []error
	if w.extractor != nil {
		errs = append(errs, w.extractor.by.Close())
	}
	if w.isolation != nil {
		errs = append(errs, w.isolation.close())
	}
	return errors.Join(errs...)
}

func check(cfg Config) error {
	if err := cfg.Runs.Check(); err != nil {
		return err
	}
	if err := cmp.Or(cfg.Documents.Check(), cfg.Workers.Check()); err != nil {
		return err
	}
	for _, role := range cfg.Roles {
		if !slices.Contains(Roles, role) {
			return fmt.Errorf("unknown worker role %q", role)
		}
	}
	if needsSecrets(cfg.Roles) {
		return cfg.Secrets.Check()
	}
	return nil
}

func (w *Workers) setUpAgent() error {
	prices, err := llm.ParsePrices(w.cfg.ModelPrices)
	if err != nil {
		return fmt.Errorf("reading MODEL_PRICES: %w", err)
	}
	signer, err := secrets.NewSigner(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	if w.caller, err = w.deps.Bus.NewToolCaller(); err != nil {
		return fmt.Errorf("setting up tools: %w", err)
	}
	budget, limits := llm.NewBudget(retryBudget), sandboxLimits(w.cfg.Sandbox)
	st := w.deps.Store
	w.runner, err = runner.New(runner.Config{
		Concurrency: w.cfg.WorkerConcurrency, Window: w.cfg.OrgDispatchWindow,
		Limits: agentloop.Limits{
			MaxTurns: w.cfg.RunMaxTurns, MaxTokens: w.cfg.RunMaxTokens, MaxCostMicros: w.cfg.RunMaxCostMicros(), MaxBytes: w.cfg.RunMaxBytes,
		},
		Price: prices.Cost, SandboxWall: cmp.Or(limits.Wall, sandboxQueueTime), Retry: budget.Spend, Earn: budget.Earn,
	}, runner.Deps{
		Runs: st.Executions, Queue: st.Queue, History: st.Sessions, Progress: st.Runs, Records: st.Executions, Parking: st.Executions,
		Tools: toolset.New(w.caller, signer, st.Executions, st.Executions, toolset.Code{
			Limits: limits, CallTime: limits.Wall + sandboxQueueTime,
		}),
		Budgets: st.Budgets,
		Bus:     w.deps.Bus, Changes: w.deps.Bus, Models: w.models, Tracer: w.deps.Tracer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// DefaultModel is what agents that name no model run on.
func (w *Workers) DefaultModel() string { return w.models.Default() }

// Run takes on the roles until ctx ends and what is in hand was finished or given back.
func (w *Workers) Run(ctx context.Context) error {
	defer func() { _ = w.close() }() // what it ends has ended with the calls and the documents
	group := lifecycle.Group{StopTimeout: stopTime}
	if err := w.addStatus(ctx, &group); err != nil {
		return err
	}
	if w.sealed != nil {
		group.Add("secrets", func(ctx context.Context) error { return w.sealed.Run(ctx, w.deps.Store.Seals) })
	}
	// What is added first stops last: an agent worker's runs may need tools until they are finished.
	if w.tools != nil {
		group.Add("tool", w.tools.Run)
		group.Add("search", w.search.Run)
	}
	if w.speech != nil && w.speech.server != nil {
		group.Add("voice", w.speech.server.Run)
	}
	if w.ingester != nil {
		group.Add("ingest", w.ingester.Run)
	}
	if w.notifier != nil {
		group.Add("notify", w.notifier.Run)
	}
	if w.runner != nil {
		group.Add("agent", w.runner.Run)
	}
	if w.has(RoleSweep) {
		sweeper := sweep.New(w.cfg.OrgDispatchWindow, w.deps.Store, w.deps.Bus, w.deps.Log)
		if err := sweeper.Show(w.deps.Metrics); err != nil {
			return err
		}
		group.Add("sweep", sweeper.Run)
	}
	return group.Run(ctx)
}
