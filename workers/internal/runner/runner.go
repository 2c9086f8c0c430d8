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
	fetchWait = time.Second // maximum time of one fetch of job messages; a shutdown waits for it
	maxFetch  = 128
	maxBatch  = 256
	// drainTime and requeueTime add up to less than Kubernetes' default grace period of 30 s.
	drainTime   = 20 * time.Second // time to finish running attempts at shutdown, before they are requeued
	requeueTime = 4 * time.Second  // for requeuing the remaining ones

	checkpointTime = 10 * time.Second // time limit for saving one batch of checkpoints
	noteTime       = 2 * time.Second  // for recording or reading notes about attempts
	announceTime   = 2 * time.Second  // for announcing slots
	slowClaim      = 2 * time.Second  // the worker fetches no jobs while a claim takes longer
	claimTime      = 10 * time.Second // how long a claim is repeated; the sweeper then publishes the job again
)

// Runs is the store in which runs are claimed, leased, finished and requeued.
type Runs interface {
	// Claim returns one result per id, in the same order. It waits for no row lock.
	Claim(ctx context.Context, runIDs []string) ([]executiondb.Claim, error)

	// Extend renews leases. A run that is neither extended nor locked no longer belongs to this
	// worker.
	Extend(ctx context.Context, held []lease.Held) (executiondb.Leases, error)

	// Finish saves at most one outcome per run. If it returns an error, it has saved none.
	Finish(ctx context.Context, endings []executiondb.Outcome) (executiondb.Finished, error)

	// PutBack requeues runs. It returns one result per run, in the same order.
	PutBack(ctx context.Context, runs []executiondb.Requeue) ([]executiondb.Requeued, error)
}

// Queue dispatches queued runs into the slots of finished ones.
type Queue interface {
	// DispatchNext returns the jobs of the runs that it dispatched.
	DispatchNext(ctx context.Context, freed queuedb.FreedSlots) ([]domain.Job, error)

	// AnnounceSlots records for ttl that the worker executes up to n runs of each lane; 0 removes it.
	AnnounceSlots(ctx context.Context, workerID string, n int, ttl time.Duration) error
}

// History reads the earlier turns of a run's session. ShortHistory returns the size of a large history instead of its turns.
type History interface {
	ShortHistory(ctx context.Context, org string, sessionRef int64, seq, limit int) (turns []sessiondb.Turn, large int, err error)
	History(ctx context.Context, org string, sessionRef int64, seq, limit int) ([]sessiondb.Turn, error)
}

// Progress reads the recorded steps of a run that finishes before its attempt has read the journal.
type Progress interface {
	Progress(ctx context.Context, org, runID string) (rundb.Progress, error)
}

// PromptData reads the data from which an attempt builds its prompt.
type PromptData interface {
	// Config returns one version of an agent's configuration; versions never change.
	Config(ctx context.Context, org, targetID string, version int) (domain.Config, error)

	// OrganizationName returns an organization's name, for system prompts.
	OrganizationName(ctx context.Context, org string) (string, error)

	// RunInput returns an input that was too large for the claim.
	RunInput(ctx context.Context, org, runID string) ([]byte, error)
}

// Records stores the data that an attempt reads and writes: it reads its configuration, input and
// recorded steps, and writes steps and events.
type Records interface {
	PromptData

	// Steps returns the recorded steps in their order.
	Steps(ctx context.Context, org, runID string) ([][]byte, error)

	// Journal appends step n. It returns false if the run no longer belongs to this worker.
	Journal(ctx context.Context, held lease.Held, n int, step []byte) (bool, error)

	// SaveEvents may save a checkpoint again without harm.
	SaveEvents(ctx context.Context, checkpoints []executiondb.Checkpoint) (executiondb.SavedEvents, error)
}

// Parking stores runs that wait for a person, and notes about attempts. NoteAttempt records in the
// timeline that a second or later attempt has begun.
type Parking interface {
	// Park also releases the run's slot, and saves events together with the action.
	Park(ctx context.Context, held lease.Held, action domain.RequiredAction, events executiondb.Chunk) (executiondb.Parked, error)
	NoteAttempt(ctx context.Context, claim executiondb.Claimed) error

	// NoteRefusal records the response with which a provider refused the attempt's model call.
	NoteRefusal(ctx context.Context, held lease.Held, refusal domain.ProviderError) error

	// FailedSinceStep counts the earlier attempts that failed with the code since the last recorded
	// step.
	FailedSinceStep(ctx context.Context, held lease.Held, code string) (executiondb.Failures, error)
}

// ClientCalls stores the calls that clients make. PrepareEffect inserts a call into the effect ledger
// or returns the entry of an earlier attempt. With ask, a new entry waits for the client's result. It
// returns false if the run no longer belongs to this worker.
type ClientCalls interface {
	PrepareEffect(ctx context.Context, held lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error)

	// StepsOf returns the recorded steps of runs, without the oldest ones if they exceed bytes.
	StepsOf(ctx context.Context, org string, runIDs []string, bytes int) (map[string][][]byte, error)
}

// Toolsets resolves the tools of a run.
type Toolsets interface {
	For(ctx context.Context, run toolset.Run, tools domain.Tools) (toolset.Set, error)

	// PrepareAttachment fails with a *tool.Error that is not retryable if the attachment cannot be used.
	PrepareAttachment(ctx context.Context, run toolset.Run, args attachment.Arguments) error
}

// Bus receives job messages and cancellations, and publishes job messages, events and results.
type Bus interface {
	Lane(lane domain.Lane) *bus.Lane
	// PublishJobs only notifies workers. The sweeper publishes a lost job message again.
	PublishJobs(jobs ...domain.Job)

	// Events publishes events to current subscribers. It stores nothing.
	Events(runID string, chunk domain.EventChunk)
	Results

	// OnCancelled calls f for each cancelled run of the deployment, not only for this worker's
	// runs.
	OnCancelled(f func(runID string)) (stop func(), err error)
}

// Results publishes the results of runs.
type Results interface {
	// Done publishes a result to the caller that waits on replyTo. A nil result makes the caller
	// read the run.
	Done(runID, replyTo string, result []byte)

	// Ended is Done for a run with its last event at a position of its log, which the subscribers of
	// its events receive.
	Ended(runID, replyTo string, result []byte, at domain.EventID, status domain.RunStatus)
}

// Changes publishes that an organization's runs have changed.
type Changes interface {
	Changed(kind domain.ChangeKind, org string)
}

// Config contains a runner's settings.
type Config struct {
	Concurrency int // slots of each lane, without the reserve; see queuedb.Reserve
	Limits      agentloop.Limits
	Price       func(model string, used llm.Usage) int64 // price of a model call in millionths of the currency unit; nil if calls are free
	SandboxWall time.Duration                            // maximum run time of a call's code
	Retry       func() bool                              // reports whether one more model call may be made after a failure; nil: always
	OnAnswer    func()                                   // called after each answer of a model; may be nil
}

// Runner executes runs. Create it with New and start it with Run.
type Runner struct {
	cfg      Config
	runs     Runs
	records  Records
	queue    Queue
	sessions History
	progress Progress
	parking  Parking
	clients  ClientCalls
	tools    Toolsets
	budgets  Budgets
	bus      Bus
	changes  Changes
	models   *llm.Registry
	loop     *agentloop.Loop
	log      zerolog.Logger
	tracer   *tracing.Tracer
	// The groups combine the requests of concurrent attempts into batches, one statement each.
	claims   *batch.Group[tracing.Of[string], executiondb.Claim]
	finishes *batch.Group[tracing.Of[endedRun], saveResult]
	requeues *batch.Group[executiondb.Requeue, executiondb.Requeued]
	events   *batch.Group[checkpoint, error]
	// freeSlots is filled by attempts and emptied by dispatchFreed.
	freeSlots *freeSlots
	// held contains the running attempts, for the heartbeat and for cancellations.
	held    *heldRuns
	configs *configs.Cache
	inputs  *inputs
	images  *inputs // limits the memory for images in prompts

	attachments Attachments
	// database is open while the database answers.
	database *gate
	metrics  *metrics
	epoch    time.Time // of the checkpoints of all runs
	pace     pace
}

// Deps are a runner's dependencies.
type Deps struct {
	Runs     Runs
	Queue    Queue
	History  History
	Progress Progress
	Records  Records
	Parking  Parking
	Clients  ClientCalls
	Tools    Toolsets
	Budgets  Budgets

	Attachments Attachments

	Bus     Bus
	Changes Changes
	Models  *llm.Registry   // resolves the models of agents
	Tracer  *tracing.Tracer // nil: runs are not traced
	Metrics prometheus.Registerer
	Log     zerolog.Logger
}

// New creates a runner.
func New(cfg Config, deps Deps) (*Runner, error) {
	runs := deps.Runs
	r := &Runner{
		cfg: cfg, runs: runs, queue: deps.Queue, sessions: deps.History, progress: deps.Progress, records: deps.Records,
		parking: deps.Parking, clients: deps.Clients, tools: deps.Tools, budgets: deps.Budgets, bus: deps.Bus,
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

	// A full queue rejects requests, so each queue has room for twice the number of attempts.
	waiting := 2 * cfg.Concurrency * len(domain.Lanes)

	r.claims = batch.New(maxBatch, waiting, tracing.Batched(deps.Tracer, "run.claim batch", runs.Claim))
	// Results and checkpoints vary in size, so their batches are also bounded in bytes.
	r.finishes = batch.New(maxBatch, waiting, tracing.Batched(deps.Tracer, "run.finish batch", r.saveAll)).
		Sized(executiondb.MaxBatchBytes, func(e tracing.Of[endedRun]) int { return e.Request.size() })
	r.requeues = batch.New(maxBatch, waiting, runs.PutBack)
	r.events = batch.New(maxBatch, waiting, r.saveEvents).Sized(executiondb.MaxBatchBytes, checkpoint.size)

	var err error
	r.metrics, err = newMetrics(deps.Metrics, r.held.Count)
	return r, err
}

// Run executes runs until ctx ends. It then fetches no more job messages, waits up to drainTime for
// running attempts and requeues the remaining runs for other workers.
func (r *Runner) Run(ctx context.Context) error {
	// Attempts and their batches outlive ctx: a shutdown lets them finish.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	// Subscribe before the first claim, so that no cancellation of a claimed run is missed.
	stopCancelled, err := r.bus.OnCancelled(func(runID string) { r.held.Cancel(runID, errTaken) })
	if err != nil {
		return fmt.Errorf("receiving cancellations: %w", err)
	}
	defer stopCancelled()

	var groups sync.WaitGroup
	groups.Go(func() { r.announce(ctx, work) })
	for _, run := range []func(context.Context){
		r.claims.Run, r.finishes.Run, r.requeues.Run, r.events.Run, r.dispatchFreed, r.heartbeat, r.held.Watch,
	} {
		groups.Go(func() { run(work) })
	}

	var lanes, attempts sync.WaitGroup
	// Each lane has its own slots, so that a full lane does not delay another lane.
	for _, lane := range domain.Lanes {
		lanes.Go(func() { r.serve(ctx, work, lane, &attempts) })
	}
	r.log.Info().Int("concurrency", r.cfg.Concurrency).Msg("agent worker ready")

	// The background goroutines stop last, because draining attempts still save results through
	// them.
	lanes.Wait()
	if !r.held.Drain(&attempts, drainTime, requeueTime) {
		r.log.Warn().Int("runs", r.held.Count()).Msg("runs were still being executed when the worker stopped; their leases will expire")
	}
	stop()
	groups.Wait()
	return nil
}

// serve fetches a lane's job messages, at most as many as there are free slots, until ctx ends.
func (r *Runner) serve(ctx, work context.Context, lane domain.Lane, attempts *sync.WaitGroup) {
	jobs := r.bus.Lane(lane)
	slots := make(chan struct{}, r.cfg.Concurrency+queuedb.Reserve(r.cfg.Concurrency))
	for {
		r.database.wait(ctx)

		// Reserve slots before fetching: a fetched message without a slot would wait here while
		// other workers are idle.
		free := acquire(ctx, slots)
		if free == 0 {
			return
		}

		err := jobs.Fetch(ctx, free, fetchWait, func(d *bus.JobMessage) {
			if ctx.Err() != nil { // expected: the worker stopped during the fetch
				// The message goes back to the stream, and another worker receives it.
				d.Release()
				return
			}

			// The run's row and its lease replace the message from here on. If this worker dies before
			// the claim, the sweeper publishes the job again.
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

		// The sweeper publishes the jobs again if their messages are lost, so a failed fetch loses
		// nothing.
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Str("lane", string(lane)).Msg("cannot fetch jobs, retrying")
			_ = lifecycle.Sleep(ctx, time.Second)
		}
	}
}

// acquire takes all free slots, but at most maxFetch. If no slot is free, it waits for one. It
// returns 0 if ctx has ended.
func acquire(ctx context.Context, slots chan struct{}) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}

	// Take what else is free without waiting, so that one fetch fills all slots.
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
