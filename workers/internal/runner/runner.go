package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/batch"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/configs"
	"parley/workers/internal/llm"
	"parley/workers/internal/toolset"
)

const (
	fetchWait = time.Second // how long a pull stays open; a worker that stops waits for its end
	fetchMax  = 128
	batchMax  = 256
	drainTime = 20 * time.Second // for runs in hand to finish before they are put back
	giveUp    = 4 * time.Second  // for putting back what did not

	checkpointTime = 10 * time.Second // for one batch of checkpoints
	noteTime       = 2 * time.Second  // for noting that another attempt has begun
)

// Runs is where runs are claimed, held and ended.
type Runs interface {
	Claim(ctx context.Context, runIDs []string) ([]executiondb.Claim, error)
	Extend(ctx context.Context, held []lease.Held) (executiondb.Leases, error)
	Finish(ctx context.Context, endings []executiondb.Ending) (executiondb.Finished, error)
	PutBack(ctx context.Context, held lease.Held, backoff time.Duration, cause *domain.RunError) (freed map[queuedb.Lane]int, err error)
}

// Queue hands the slots of ended runs to waiting ones.
type Queue interface {
	HandOver(ctx context.Context, freed map[queuedb.Lane]int, window int) ([]domain.Job, error)
}

// History reads the earlier turns of a run's session. ShortHistory returns the size of a large history instead of its turns.
type History interface {
	ShortHistory(ctx context.Context, org string, sessionRef int64, seq, limit int) (turns []sessiondb.Turn, large int, err error)
	History(ctx context.Context, org string, sessionRef int64, seq, limit int) ([]sessiondb.Turn, error)
}

// Progress reads the recorded steps of a run that ends before an attempt has begun.
type Progress interface {
	Progress(ctx context.Context, org, runID string) (rundb.Progress, error)
}

// Records is what an attempt reads, and the journal and the events it writes.
type Records interface {
	Config(ctx context.Context, org, targetID string, version int) (domain.Config, error)
	RunInput(ctx context.Context, org, runID string) ([]byte, error)
	Steps(ctx context.Context, org, runID string) ([][]byte, error)
	Journal(ctx context.Context, held lease.Held, first int, steps [][]byte) (bool, error)
	SaveEvents(ctx context.Context, checkpoints []executiondb.Checkpoint) (executiondb.SavedEvents, error)
}

// Parking is where a run goes that waits for a person. NoteAttempt records that an attempt has begun behind others.
type Parking interface {
	Park(ctx context.Context, held lease.Held, action domain.RequiredAction, events executiondb.Chunk) (executiondb.Parked, error)
	NoteAttempt(ctx context.Context, claim executiondb.Claimed) error
}

// Toolsets give runs their tools.
type Toolsets interface {
	For(ctx context.Context, run toolset.Run, tools domain.Tools) (toolset.Set, error)
}

// Bus rings, is rung and tells.
type Bus interface {
	Lane(lane domain.Lane) *bus.Lane
	Ring(jobs ...domain.Job)
	Events(runID string, chunk domain.EventChunk)
	Done(runID, replyTo string, result []byte)
	OnCancelled(f func(runID string)) (stop func(), err error)
}

// Changes is where it is told that runs have changed.
type Changes interface {
	Changed(kind domain.ChangeKind, org string)
}

// Config are a runner's settings.
type Config struct {
	Concurrency int // runs carried out at a time, in each lane
	Window      int // dispatched runs of one organization at a time
	Limits      agentloop.Limits
	Price       func(model string, used llm.Usage) int64 // in millionths; nil: free
	SandboxWall time.Duration                            // that a call's code may run
	Retry       func() bool                              // leave for one more model call after a failure; nil: always
	Earn        func()                                   // a model has answered; may be nil
}

// Runner carries out runs. Make it with New and start it with Run.
type Runner struct {
	cfg      Config
	runs     Runs
	records  Records
	queue    Queue
	sessions History
	progress Progress
	parking  Parking
	tools    Toolsets
	budgets  Budgets
	bus      Bus
	changes  Changes
	models   *llm.Registry
	loop     *agentloop.Loop
	log      zerolog.Logger
	tracer   *tracing.Tracer
	claims   *batch.Group[tracing.Of[string], executiondb.Claim]
	finishes *batch.Group[tracing.Of[ended], saving]
	events   *batch.Group[checkpoint, error]
	places   *places
	held     *held
	configs  *configs.Cache
	inputs   *inputs
	metrics  *metrics
}

// Deps are what a runner works with.
type Deps struct {
	Runs     Runs
	Queue    Queue
	History  History
	Progress Progress
	Records  Records
	Parking  Parking
	Tools    Toolsets
	Budgets  Budgets
	Bus      Bus
	Changes  Changes
	Models   *llm.Registry   // where agents' models are found
	Tracer   *tracing.Tracer // nil: runs are not traced
	Metrics  prometheus.Registerer
	Log      zerolog.Logger
}

// New makes a runner.
func New(cfg Config, deps Deps) (*Runner, error) {
	runs := deps.Runs
	r := &Runner{
		cfg: cfg, runs: runs, queue: deps.Queue, sessions: deps.History, progress: deps.Progress, records: deps.Records,
		parking: deps.Parking, tools: deps.Tools, budgets: deps.Budgets, bus: deps.Bus,
		models:  deps.Models,
		changes: deps.Changes, tracer: deps.Tracer, log: deps.Log,
		loop: agentloop.New(agentloop.Config{Retry: cfg.Retry, Earn: cfg.Earn, Panicked: func(name string, err error) {
			deps.Log.Error().Err(err).Str("tool", name).Msg("a tool panicked")
		}}),
		places:  &places{wake: make(chan struct{}, 1)},
		held:    &held{runs: map[string]*holding{}},
		configs: configs.New(deps.Records),
		inputs:  newInputs(),
	}
	waiting := 2 * cfg.Concurrency * len(domain.Lanes)
	r.claims = batch.New(batchMax, waiting, tracing.Batched(deps.Tracer, "run.claim batch", runs.Claim))
	r.finishes = batch.New(batchMax, waiting, tracing.Batched(deps.Tracer, "run.finish batch", r.saveAll)).
		Sized(executiondb.MaxBatchBytes, func(e tracing.Of[ended]) int { return e.Request.size() })
	r.events = batch.New(batchMax, waiting, r.saveEvents).Sized(executiondb.MaxBatchBytes, checkpoint.size)
	var err error
	r.metrics, err = newMetrics(deps.Metrics, r.held.count)
	return r, err
}

// Run carries out runs until ctx ends; then it fetches no more, lets those in hand finish for a while and
// puts the rest back for other workers.
func (r *Runner) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	stopCancelled, err := r.bus.OnCancelled(func(runID string) { r.held.cancel(runID, errTaken) })
	if err != nil {
		return fmt.Errorf("receiving cancellations: %w", err)
	}
	defer stopCancelled()

	var groups sync.WaitGroup
	for _, run := range []func(context.Context){r.claims.Run, r.finishes.Run, r.events.Run, r.handOver, r.heartbeat, r.held.watch} {
		groups.Go(func() { run(work) })
	}
	var lanes, attempts sync.WaitGroup
	for _, lane := range domain.Lanes {
		lanes.Go(func() { r.serve(ctx, work, lane, &attempts) })
	}
	r.log.Info().Int("concurrency", r.cfg.Concurrency).Msg("agent worker ready")
	lanes.Wait()
	r.drain(&attempts)
	stop()
	groups.Wait()
	return nil
}

// drain waits for the attempts in hand, and past drainTime has them put back.
func (r *Runner) drain(attempts *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { attempts.Wait(); close(done) }()
	if within(drainTime, done) {
		return
	}
	r.held.cancelAll(errDraining)
	if !within(giveUp, done) {
		r.log.Warn().Int("runs", r.held.count()).Msg("runs were still being executed when the worker stopped; their leases will expire")
	}
}

// within reports whether done was closed before d had passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// serve pulls a lane's doorbells, never more than it has free slots for, until ctx ends.
func (r *Runner) serve(ctx, work context.Context, lane domain.Lane, attempts *sync.WaitGroup) {
	doorbells := r.bus.Lane(lane)
	slots := make(chan struct{}, r.cfg.Concurrency)
	for {
		free := acquire(ctx, slots)
		if free == 0 {
			return
		}
		err := doorbells.Fetch(ctx, free, fetchWait, func(d *bus.Doorbell) {
			if ctx.Err() != nil { // the pull was open when the worker was told to stop
				d.Nak(0)
				return
			}
			free--
			attempts.Go(func() {
				defer func() { <-slots }()
				r.carry(work, d)
			})
		})
		for ; free > 0; free-- {
			<-slots
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Str("lane", string(lane)).Msg("cannot fetch jobs, retrying")
			_ = lifecycle.Sleep(ctx, time.Second)
		}
	}
}

// acquire takes the slots that are free, at least one, up to fetchMax; zero once ctx has ended.
func acquire(ctx context.Context, slots chan struct{}) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1
	for n < fetchMax {
		select {
		case slots <- struct{}{}:
			n++
		default:
			return n
		}
	}
	return n
}
