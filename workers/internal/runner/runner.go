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
	"parley/workers/internal/tool/attachment"
	"parley/workers/internal/toolset"
)

const (
	fetchWait = time.Second // maximum duration of one fetch of job messages; a shutdown waits until the fetch ends
	maxFetch  = 128
	maxBatch  = 256
	// The sum of drainTime, requeueTime and fillTime is less than Kubernetes' default grace period of 30 s.
	drainTime   = 20 * time.Second // time for running attempts to finish at shutdown, before they are requeued
	requeueTime = 6 * time.Second  // time to requeue the remaining attempts; two cores requeue about 1,200 in a second

	checkpointTime = 10 * time.Second // time limit for saving one batch of checkpoints
	noteTime       = 2 * time.Second  // time limit for recording or reading notes about attempts
	announceTime   = 2 * time.Second  // time limit for announcing slots
	fillTime       = 3 * time.Second  // time limit for dispatching runs to released slots
	slowClaim      = 2 * time.Second  // duration of a claim after which the worker stops fetching jobs
	claimTime      = 10 * time.Second // time limit for repeating a claim; afterwards, the sweeper publishes the job again
)

// Runs is the store that claims, leases, finishes and requeues runs. Each method changes many runs
// with one statement. Methods that take a lease.Held compare its fence with the fence of the run,
// and change nothing if the fences differ. Package executiondb implements it.
type Runs interface {
	// Claim returns one result per id, in the same order. It does not wait for row locks.
	Claim(ctx context.Context, runIDs []string) ([]executiondb.Claim, error)

	// Extend renews leases. If a run was neither extended nor locked, it no longer belongs to this
	// worker.
	Extend(ctx context.Context, held []lease.Held) (executiondb.Leases, error)

	// Finish saves at most one outcome per run. If it returns an error, it has saved no outcome.
	Finish(ctx context.Context, outcomes []executiondb.Outcome) (executiondb.Finished, error)

	// Requeue requeues runs. It returns one result per run, in the same order.
	Requeue(ctx context.Context, runs []executiondb.Requeue) ([]executiondb.Requeued, error)
}

// Queue fills the slots of finished runs with queued runs.
type Queue interface {
	// DispatchNext dispatches queued runs and returns their jobs.
	DispatchNext(ctx context.Context, freed queuedb.FreedSlots) ([]domain.Job, error)

	// AnnounceSlots records for the duration ttl that the worker has n slots for runs of each lane.
	// If n is 0, it removes the record.
	AnnounceSlots(ctx context.Context, workerID string, n int, ttl time.Duration) error
}

// History reads the earlier turns of a run's session. If the history is large, ShortHistory returns
// its size instead of its turns.
type History interface {
	ShortHistory(ctx context.Context, org string, sessionRef int64, seq, limit int) (turns []sessiondb.Turn, large int, err error)
	History(ctx context.Context, org string, sessionRef int64, seq, limit int) ([]sessiondb.Turn, error)
}

// Progress reads the recorded steps of a run that finishes before the attempt has read the journal.
type Progress interface {
	Progress(ctx context.Context, org, runID string) (rundb.Progress, error)
}

// PromptData reads the data from which an attempt builds its prompt.
type PromptData interface {
	// Config returns one version of an agent's configuration. A version never changes.
	Config(ctx context.Context, org, targetID string, version int) (domain.Config, error)

	// OrganizationName returns an organization's name, for system prompts.
	OrganizationName(ctx context.Context, org string) (string, error)

	// RunInput returns an input that was too large for the claim.
	RunInput(ctx context.Context, org, runID string) ([]byte, error)
}

// Records is the store of an attempt's configuration, input, steps and events.
type Records interface {
	PromptData

	// Steps returns the recorded steps in the order of their numbers.
	Steps(ctx context.Context, org, runID string) ([][]byte, error)

	// Journal records step n. It returns false if the run no longer belongs to this worker.
	Journal(ctx context.Context, held lease.Held, n int, step []byte) (bool, error)

	// SaveEvents saves the events of checkpoints. It is harmless to save a checkpoint twice.
	SaveEvents(ctx context.Context, checkpoints []executiondb.Checkpoint) (executiondb.SavedEvents, error)
}

// ParkStore stores the actions for which runs wait, and notes about attempts.
type ParkStore interface {
	// Park saves the action and the events, and releases the run's slot, in one transaction.
	Park(ctx context.Context, held lease.Held, action domain.RequiredAction, events executiondb.Chunk) (executiondb.Parked, error)

	// NoteAttempts records in the timeline that second or later attempts have begun. The result
	// locked has one value for each claim, in the same order. The value is true if the run is
	// locked; nothing was recorded for such a run. NoteAttempts does not wait for row locks.
	NoteAttempts(ctx context.Context, claims []executiondb.Claimed) (locked []bool, err error)

	// NoteRefusal records the response of a provider that refused the attempt's model call.
	NoteRefusal(ctx context.Context, held lease.Held, refusal domain.ProviderError) error

	// FailedSinceStep counts the earlier attempts that have failed with the code since the last
	// recorded step.
	FailedSinceStep(ctx context.Context, held lease.Held, code string) (executiondb.Failures, error)
}

// ClientCalls stores the tool calls that clients execute. Package executiondb implements it.
type ClientCalls interface {
	// PrepareEffect inserts a call into the effect ledger, or returns the entry from an earlier
	// attempt. If ask is true, a new entry waits for the client's result. PrepareEffect returns
	// false if the run no longer belongs to this worker.
	PrepareEffect(ctx context.Context, held lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error)

	// Journals returns the recorded steps of runs. If the steps are larger in total than the given
	// number of bytes, Journals omits the oldest steps.
	Journals(ctx context.Context, org string, runIDs []string, bytes int) (map[string][][]byte, error)
}

// Toolsets resolves the tools of a run and prepares its attachments, by calls to tool workers.
// Package toolset implements it.
type Toolsets interface {
	For(ctx context.Context, run toolset.Run, tools domain.Tools) (toolset.Set, error)

	// PrepareAttachment fails with a *tool.Error that is not retryable if the attachment is
	// unusable.
	PrepareAttachment(ctx context.Context, run toolset.Run, args attachment.Arguments) error
}

// Bus receives job messages and cancellations, and publishes job messages, events and results. The
// methods that publish return no errors: the sweeper repeats a lost job message, and clients read
// lost events and results from the database.
type Bus interface {
	Lane(lane domain.Lane) *bus.Lane
	// PublishJobs notifies workers of jobs. If a message is lost, the sweeper publishes it again.
	PublishJobs(jobs ...domain.Job)

	// Events publishes events to the current subscribers. It does not store them.
	Events(runID string, chunk domain.EventChunk)
	Results

	// OnCancelled calls f for every cancelled run of the deployment, including runs of other
	// workers.
	OnCancelled(f func(runID string)) (stop func(), err error)
}

// Results publishes the results of runs.
type Results interface {
	// Done publishes a result to the caller that waits on replyTo. If the result is nil, the caller
	// reads the run from the database.
	Done(runID, replyTo string, result []byte)

	// Ended does the same as Done. It also notifies the subscribers of the run's events that the
	// run has ended. The argument at is the position of the run's last event in its event log.
	Ended(runID, replyTo string, result []byte, at domain.EventID, status domain.RunStatus)
}

// Changes publishes that an organization's runs have changed.
type Changes interface {
	Changed(kind domain.ChangeKind, org string)
}

// Config contains the settings of a runner. Concurrency is required.
type Config struct {
	Concurrency int // slots of each lane, without the reserved slots; see queuedb.Reserve
	Limits      agentloop.Limits
	Price       func(model string, used llm.Usage) int64 // price of a model call in millionths of the currency unit; nil if calls are free
	SandboxWall time.Duration                            // maximum run time of a call's code
	Retry       func() bool                              // reports whether a failed model call may be retried once more; nil: always
	OnAnswer    func()                                   // called after each answer of a model; may be nil
}

// Runner executes runs. Create it with New and start it with Run. A process has at most one Runner.
// The fields of a Runner do not change after New.
type Runner struct {
	cfg      Config
	runs     Runs
	records  Records
	queue    Queue
	sessions History
	progress Progress
	parking  ParkStore
	clients  ClientCalls
	tools    Toolsets
	budgets  Budgets
	bus      Bus
	changes  Changes
	models   *llm.Registry
	loop     *agentloop.Loop
	log      zerolog.Logger
	tracer   *tracing.Tracer
	// Each group combines the requests of concurrent attempts into batches of one statement.
	claims   *batch.Group[tracing.Of[string], executiondb.Claim]
	finishes *batch.Group[tracing.Of[endedRun], saveResult]
	requeues *batch.Group[executiondb.Requeue, executiondb.Requeued]
	notes    *batch.Group[executiondb.Claimed, bool]
	events   *batch.Group[checkpoint, error]
	// freeSlots is filled by attempts and emptied by dispatchFreed.
	freeSlots *freeSlots
	// held contains the running attempts. The heartbeat extends their leases. When a run is
	// cancelled, its attempt is looked up here.
	held    *heldRuns
	configs *configs.Cache
	inputs  *inputs
	images  *inputs // limits the memory for the images in prompts

	attachments Attachments
	// database is the gate that is open while the database answers.
	database *gate
	metrics  *metrics
	epoch    time.Time // start of the clock for the checkpoints of all runs
	pace     pace
}

// Deps are a runner's dependencies. All are required except Tracer.
type Deps struct {
	Runs      Runs
	Queue     Queue
	History   History
	Progress  Progress
	Records   Records
	ParkStore ParkStore
	Clients   ClientCalls
	Tools     Toolsets
	Budgets   Budgets

	Attachments Attachments

	Bus     Bus
	Changes Changes
	Models  *llm.Registry   // resolves the models of agents
	Tracer  *tracing.Tracer // nil: runs are not traced
	Metrics prometheus.Registerer
	Log     zerolog.Logger
}

// New creates a runner and registers its metrics. It starts nothing.
func New(cfg Config, deps Deps) (*Runner, error) {
	runs := deps.Runs
	r := &Runner{
		cfg: cfg, runs: runs, queue: deps.Queue, sessions: deps.History, progress: deps.Progress, records: deps.Records,
		parking: deps.ParkStore, clients: deps.Clients, tools: deps.Tools, budgets: deps.Budgets, bus: deps.Bus,
		models:  deps.Models,
		changes: deps.Changes, tracer: deps.Tracer, log: deps.Log,
		loop: agentloop.New(agentloop.Config{Retry: cfg.Retry, Earn: cfg.OnAnswer, OnPanic: func(name string, err error) {
			deps.Log.Error().Err(err).Str("tool", name).Msg("a tool panicked")
		}}),
		freeSlots: &freeSlots{wake: make(chan struct{}, 1)},
		held:      newHeldRuns(),
		configs:   configs.New(deps.Records),
		inputs:    newInputs(),
		images:    newInputs(), attachments: deps.Attachments,
		database: newGate(),
		epoch:    time.Now(),
	}

	// A full queue rejects requests, so each queue has room for two requests of every attempt.
	waiting := 2 * cfg.Concurrency * len(domain.Lanes)

	r.claims = batch.New(maxBatch, waiting, tracing.Batched(deps.Tracer, "run.claim batch", runs.Claim))
	// Results and checkpoints vary in size, so their batches also have a byte limit.
	r.finishes = batch.New(maxBatch, waiting, tracing.Batched(deps.Tracer, "run.finish batch", r.saveAll)).
		Sized(executiondb.MaxBatchBytes, func(e tracing.Of[endedRun]) int { return e.Request.size() })
	r.requeues = batch.New(maxBatch, waiting, runs.Requeue)
	r.notes = batch.New(maxBatch, waiting, deps.ParkStore.NoteAttempts)
	r.events = batch.New(maxBatch, waiting, r.saveEvents).Sized(executiondb.MaxBatchBytes, checkpoint.size)

	var err error
	r.metrics, err = newMetrics(deps.Metrics, r.held.Count)
	return r, err
}

// Run executes runs until ctx ends. It then stops fetching job messages, waits up to drainTime for
// the running attempts, and requeues the remaining runs for other workers. It returns an error only
// if it cannot receive cancellations. It must be called once.
func (r *Runner) Run(ctx context.Context) error {
	// Attempts and their batches continue after ctx ends, so that a shutdown lets them finish.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	// Subscribe before the first claim, so that the cancellation of a claimed run cannot be missed.
	stopCancelled, err := r.bus.OnCancelled(func(runID string) { r.held.Cancel(runID, errTaken) })
	if err != nil {
		return fmt.Errorf("receiving cancellations: %w", err)
	}
	defer stopCancelled()

	var groups sync.WaitGroup
	groups.Go(func() { r.announce(ctx, work) })
	for _, run := range []func(context.Context){
		r.claims.Run, r.finishes.Run, r.requeues.Run, r.notes.Run, r.events.Run, r.dispatchFreed, r.heartbeat, r.held.Watch,
	} {
		groups.Go(func() { run(work) })
	}

	var lanes, attempts sync.WaitGroup
	// Each lane has its own slots, so that a full lane does not delay the others.
	for _, lane := range domain.Lanes {
		lanes.Go(func() { r.serve(ctx, work, lane, &attempts) })
	}
	r.log.Info().Int("concurrency", r.cfg.Concurrency).Msg("agent worker ready")

	// Stop the background goroutines last, because they save the results of the last attempts.
	lanes.Wait()
	if !r.held.Drain(&attempts, drainTime, requeueTime) {
		r.log.Warn().Int("runs", r.held.Count()).Msg("runs were still being executed when the worker stopped; their leases will expire")
	}
	stop()
	groups.Wait()
	return nil
}

// serve fetches a lane's job messages until ctx ends. It fetches only as many messages as the lane
// has free slots. Each message begins an attempt in a goroutine. The attempt uses the context work.
// The wait group attempts counts the goroutines.
func (r *Runner) serve(ctx, work context.Context, lane domain.Lane, attempts *sync.WaitGroup) {
	jobs := r.bus.Lane(lane)
	slots := make(chan struct{}, r.cfg.Concurrency+queuedb.Reserve(r.cfg.Concurrency))
	for {
		r.database.wait(ctx)

		// Reserve slots before fetching messages. A message without a slot would wait here although
		// other workers may have free slots.
		free := acquire(ctx, slots)
		if free == 0 {
			return
		}

		err := jobs.Fetch(ctx, free, fetchWait, func(d *bus.JobMessage) {
			if ctx.Err() != nil { // the worker is stopping, so it must not execute further runs
				// Return the message to the stream, so that another worker receives it.
				d.Release()
				return
			}

			// From here on, the run's row and its lease replace the message. If this worker dies
			// before the claim, the sweeper publishes the job again.
			d.Ack()
			free--
			attempts.Go(func() {
				defer func() { <-slots }()
				r.execute(work, d)
			})
		})

		// Release the slots for which no message arrived.
		for ; free > 0; free-- {
			<-slots
		}

		// A failed fetch loses no run: the sweeper publishes the job again if its message is lost.
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Str("lane", string(lane)).Msg("cannot fetch jobs, retrying")
			_ = lifecycle.Sleep(ctx, time.Second)
		}
	}
}

// acquire reserves all free slots, but at most maxFetch. If no slot is free, acquire waits for a
// slot. It returns 0 if ctx ends.
func acquire(ctx context.Context, slots chan struct{}) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}

	// Reserve the other free slots without waiting, so that one fetch fills all of them.
	n := 1
	for n < maxFetch {
		select {
		case slots <- struct{}{}:
			n++
		default:
			return n
		}
	}
	return n
}
