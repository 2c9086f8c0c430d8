// Package workers contains the worker processes. Agent workers execute runs, tool workers execute
// the tool calls of runs, and sweepers repair the consequences of failures; see [Role] for all
// kinds of work. A process may have several roles. New and Run start a process. Survey reports the
// capabilities of a machine.
//
// The package is the facade of this module: the command worker and the standalone program import
// only it. It reads the settings, creates the parts that the roles need, and passes the stores and
// the bus to them. The parts are in internal packages, which declare the interfaces that they need.
//
// PostgreSQL has the state of all runs, documents and notifications. So any number of processes may
// have the same role, and a process may stop at any time.
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
	"parley/workers/internal/checkserver"
	"parley/workers/internal/embed"
	"parley/workers/internal/embedserver"
	"parley/workers/internal/ingest"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/observed"
	"parley/workers/internal/llm/providers"
	"parley/workers/internal/notify"
	"parley/workers/internal/pageserver"
	"parley/workers/internal/runner"
	"parley/workers/internal/searchserver"
	"parley/workers/internal/sweep"
	"parley/workers/internal/toolserver"
	"parley/workers/internal/toolset"
)

// Role is a kind of work that a process performs.
type Role string

// The roles.
const (
	RoleAgent  Role = "agent"  // executes runs
	RoleTool   Role = "tool"   // executes tool calls
	RoleIngest Role = "ingest" // processes documents
	RoleSweep  Role = "sweep"  // requeues lost runs and removes expired data
	RoleVoice  Role = "voice"  // transcribes and synthesizes speech
	RoleNotify Role = "notify" // sends notifications
)

// Roles lists all roles.
var Roles = []Role{RoleAgent, RoleTool, RoleIngest, RoleSweep, RoleVoice, RoleNotify}

// retryBudget is the number of model calls that may be retried in succession. After that, answered
// calls must first refill the budget.
const retryBudget = 20

// sandboxQueueTime is the maximum time that a call waits for a sandbox.
const sandboxQueueTime = 90 * time.Second

// stopTime is the time limit for a shutdown. It is long enough to finish or requeue the running
// runs, and then to finish tool calls for the runs of other workers.
const stopTime = 50 * time.Second

// Config contains the settings of a worker process. Zero values select defaults; see package
// config.
type Config struct {
	config.Runs
	config.Secrets // required by all roles except sweep
	config.Documents
	config.Workers
	config.Telemetry
	Roles []Role
	// OwnPorts contains the ports of this service and of its servers. Agents must not send requests
	// to these ports of this machine.
	OwnPorts []int
	// ColdSandboxes means that no sandboxes are started in advance. It is for tests.
	ColdSandboxes bool
}

// Deps are a worker process's dependencies. The caller closes them after Run. Store and Bus are
// required.
type Deps struct {
	Store *store.Store
	Bus   *bus.Bus
	Log   zerolog.Logger
	// Tracer records the traces of this process. If it is nil, there are no traces.
	Tracer *tracing.Tracer
	// Metrics registers the metrics of this process. If it is nil, the metrics are not exposed.
	Metrics *prometheus.Registry
}

// Workers is a worker process with its configured roles. Create it with New and start it with Run,
// once.
type Workers struct {
	cfg    Config
	deps   Deps
	models *llm.Registry
	runner *runner.Runner       // nil without the role agent
	caller *bus.ToolCaller      // nil without the role agent
	tools  *toolserver.Server   // nil without the role tool
	search *searchserver.Server // nil without the role tool
	pages  *pageserver.Server   // nil without the role tool or without a sandbox

	embeddings  *embedserver.Server // nil without the role tool
	toolChecks  *checkserver.Server // nil without the role tool
	modelChecks *checkserver.Server // nil without the role agent
	modelList   *checkserver.ListServer

	isolation *isolation       // nil without the roles tool and ingest
	outbound  *outbound.Client // nil without the roles tool, ingest and notify
	embedder  *embed.Embedder  // nil without the roles tool and ingest, or if no model is configured
	ingester  *ingest.Ingester // nil without the role ingest or without a sandbox
	extractor *documentReader  // nil without the roles tool and ingest, or without a sandbox
	speech    *voiceParts      // nil without the role voice
	notifier  *notify.Notifier // nil without the role notify
	sealed    *sealed.Watch    // nil if sweep is the only role
}

// New checks the settings and sets up the configured roles. It opens sandboxes and starts
// interpreters, which may take seconds, but fetches no work. If it fails, nothing is left open. An
// error about a setting names the setting.
func New(cfg Config, deps Deps) (*Workers, error) {
	if err := Check(cfg); err != nil {
		return nil, err
	}

	if cfg.WorkerConcurrency == 0 {
		cfg.WorkerConcurrency = defaultConcurrency()
	}
	if cfg.ToolConcurrency == 0 {
		cfg.ToolConcurrency = callsPerCore * runtime.GOMAXPROCS(0)
	}

	// Create a private registry, so that no other code needs to check whether metrics are enabled.
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
	}

	w := &Workers{cfg: cfg, deps: deps}

	// The observer wraps all providers, so that every model call is measured and traced.
	observer, err := observed.New(deps.Metrics, cfg.CaptureContent)
	if err != nil {
		return nil, fmt.Errorf("setting up models: %w", err)
	}

	models := providerSettings(cfg.Runs, cfg.Workers)
	models.Around = observer.Provider
	if w.models, err = providers.New(models); err != nil {
		return nil, fmt.Errorf("setting up models: %w", err)
	}

	if err := w.setUpServices(); err != nil {
		// Close the parts that are already set up, because they hold processes and connections.
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// setUpServices sets up the parts that the configured roles need. If it fails, the parts that were
// set up must be closed.
func (w *Workers) setUpServices() error {
	if err := w.setUpSecrets(); err != nil {
		return err
	}

	// Open the sandbox only once, because both roles use it.
	if w.has(RoleTool) || w.has(RoleIngest) {
		if err := w.setUpShared(); err != nil {
			return err
		}
	}

	for _, part := range []struct {
		role  Role
		setUp func() error
	}{
		{RoleTool, w.setUpTools}, {RoleIngest, w.setUpIngest}, {RoleVoice, w.setUpVoice}, {RoleNotify, w.setUpNotify}, {RoleAgent, w.setUpAgent},
	} {
		if w.has(part.role) {
			if err := part.setUp(); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether this process has a role.
func (w *Workers) has(role Role) bool { return slices.Contains(w.cfg.Roles, role) }

// setUpShared sets up the parts that tools and documents share: the sandbox, the embeddings model,
// and the HTTP client for requests to other servers.
func (w *Workers) setUpShared() error {
	if err := w.setUpOutbound(); err != nil {
		return err
	}

	var err error
	w.embedder, err = embed.New(embed.Config{
		Model: w.cfg.EmbeddingsModel, OpenAIAPIKey: w.cfg.OpenAIAPIKey, OpenAIBaseURL: w.cfg.OpenAIBaseURL,
	})
	if err != nil {
		return fmt.Errorf("setting up embeddings: %w", err)
	}

	w.setUpSandbox()
	w.setUpReader()
	return nil
}

// setUpOutbound creates the HTTP client for requests to other servers.
func (w *Workers) setUpOutbound() (err error) {
	if w.outbound != nil {
		return nil
	}
	w.outbound, err = outbound.New(outbound.Config{Allow: w.cfg.OutboundAllow, OwnPorts: w.ownPorts(), Around: tracing.Transport})
	if err != nil {
		return fmt.Errorf("reading OUTBOUND_ALLOW: %w", err)
	}
	return nil
}

// setUpNotify sets up the notifier, which sends webhooks and therefore needs the outbound client.
func (w *Workers) setUpNotify() error {
	if err := w.setUpOutbound(); err != nil {
		return err
	}
	var err error
	w.notifier, err = notify.New(w.deps.Store.Notifications, w.deps.Bus, w.outbound, w.sealed, w.deps.Metrics, w.deps.Log)
	return err
}

// setUpSecrets sets up the encryption of stored contents. From then on, the process logs failures
// to decrypt a secret or a content.
func (w *Workers) setUpSecrets() error {
	if !needsSecrets(w.cfg.Roles) {
		return nil
	}
	box, err := secrets.NewBox(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	if w.cfg.EncryptContents {
		w.deps.Store.Seals.SealContents(box)
	} else {
		w.deps.Store.Seals.OpenContents(box) // the keys are needed to read contents that were encrypted before encryption was disabled
	}
	if w.sealed, err = sealed.NewWatch(box, w.deps.Metrics, w.deps.Log); err != nil {
		return err
	}
	w.deps.Store.Seals.ReportUnopened(w.sealed.UnopenedBytes)
	return nil
}

// needsSecrets reports whether any of the roles needs the setting SECRETS_KEY.
func needsSecrets(roles []Role) bool {
	return slices.ContainsFunc(roles, func(role Role) bool { return role != RoleSweep })
}

// close releases the resources that New has opened, after all parts have stopped.
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

// Check returns a *config.InvalidError for the first invalid setting of the configured roles. It
// opens no connections.
func Check(cfg Config) error {
	if err := config.Invalid(cfg.Runs.Check(), cfg.Documents.Check(), cfg.Workers.Check(), CheckModels(cfg.Runs, cfg.Workers)); err != nil {
		return err
	}
	for _, role := range cfg.Roles {
		if !slices.Contains(Roles, role) {
			return config.Invalid(fmt.Errorf("unknown worker role %q", role))
		}
	}
	if needsSecrets(cfg.Roles) {
		return config.Invalid(cfg.Secrets.Check())
	}
	return nil
}

// CheckModels returns an error if MODEL_PRICES cannot be parsed, or if DEFAULT_MODEL does not exist.
// config.Workers.Check leaves both settings to this function, because only workers know the models.
func CheckModels(runs config.Runs, w config.Workers) error {
	if err := checkPrices(w); err != nil {
		return err
	}
	if _, err := providers.New(providerSettings(runs, w)); err != nil {
		return fmt.Errorf("setting up models: %w", err)
	}
	return nil
}

// checkPrices returns an error if MODEL_PRICES cannot be parsed.
func checkPrices(w config.Workers) error {
	if _, err := llm.ParsePrices(w.ModelPrices); err != nil {
		return fmt.Errorf("reading MODEL_PRICES: %w", err)
	}
	return nil
}

// providerSettings returns the settings of the model providers.
func providerSettings(runs config.Runs, w config.Workers) providers.Config {
	return providers.Config{
		OpenAIAPIKey: w.OpenAIAPIKey, OpenAIBaseURL: w.OpenAIBaseURL,
		AnthropicAPIKey: w.AnthropicAPIKey, AnthropicBaseURL: w.AnthropicBaseURL, DefaultModel: runs.DefaultModel,
	}
}

// setUpAgent sets up the runner of the role agent, and the servers that check models and list them.
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

	w.modelList = checkserver.NewList(w.models, w.checkDeps(signer))
	w.modelChecks = checkserver.NewModels(w.models, w.deps.Store.Budgets, prices.Cost, w.checkDeps(signer))

	budget, limits := llm.NewBudget(retryBudget), sandboxLimits(w.cfg.Sandbox)
	st := w.deps.Store
	st.Budgets.SetCurrency(w.cfg.Currency())
	w.runner, err = runner.New(runner.Config{
		Concurrency: w.cfg.WorkerConcurrency,
		Limits: agentloop.Limits{
			MaxTurns: w.cfg.RunMaxTurns, MaxTokens: w.cfg.RunMaxTokens, MaxCostMicros: w.cfg.RunMaxCostMicros(), MaxBytes: w.cfg.RunMaxBytes,
		},
		Price: prices.Cost, SandboxWall: cmp.Or(limits.Wall, sandboxQueueTime), Retry: budget.Spend, OnAnswer: budget.Earn,
	}, runner.Deps{
		Runs: st.Executions, Queue: st.Queue, History: st.Sessions, Progress: st.Runs, Records: st.Executions, ParkStore: st.Executions,
		Clients: st.Executions,
		Tools: toolset.New(w.caller, signer, st.Executions, st.Executions, toolset.Code{
			Limits: limits, CallTime: limits.Wall + sandboxQueueTime,
		}),
		Budgets: st.Budgets, Attachments: st.Blobs,
		Bus: w.deps.Bus, Changes: w.deps.Bus, Models: w.models, Tracer: w.deps.Tracer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// DefaultModel returns the model string for agents without a model.
func (w *Workers) DefaultModel() string { return w.models.Default() }

// Run executes the roles until ctx ends. It returns after all running work has finished or was
// requeued, at most stopTime later. If a part fails, Run stops the other parts and returns the
// error of the failed part.
func (w *Workers) Run(ctx context.Context) error {
	defer func() { _ = w.close() }() // runs after all parts have stopped

	group := lifecycle.Group{StopTimeout: stopTime}
	if err := w.addStatus(ctx, &group); err != nil {
		return err
	}

	if w.sealed != nil {
		group.Add("secrets", func(ctx context.Context) error { return w.sealed.Run(ctx, w.deps.Store.Seals) })
	}
	// The parts stop in reverse order. Tools stop last, because the runs of an agent worker may
	// need them until they finish.
	if w.tools != nil {
		group.Add("tool", w.tools.Run)
		group.Add("search", w.search.Run)
		if w.pages != nil {
			group.Add("pages", w.pages.Run)
		}
		group.Add("embeddings", w.embeddings.Run)
		group.Add("tool checks", w.toolChecks.Run)
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
		group.Add("model checks", w.modelChecks.Run)
		group.Add("model list", w.modelList.Run)
		group.Add("agent", w.runner.Run)
	}
	if w.has(RoleSweep) {
		sweeper := sweep.New(w.deps.Store, w.deps.Bus, w.deps.Log)
		if err := sweeper.Register(w.deps.Metrics); err != nil {
			return err
		}
		group.Add("sweep", sweeper.Run)
	}
	return group.Run(ctx)
}
