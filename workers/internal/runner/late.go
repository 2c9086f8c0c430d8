package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
)

const (
	lateTime      = 50 * time.Millisecond // in which a run must finish
	lateMaxAge    = 5 * time.Second       // older messages were accepted in another way or refused; clocks may differ
	lateMaxResult = 32 << 10              // bytes; a larger result needs a summary
	lateClock     = 10 * time.Second      // how long a reading of the database's clock is used
	lateDeadline  = time.Minute           // a run's deadline while it is executed; lateTime ends it earlier
	maxLateAgents = 4096
	localProvider = "offline" // its models run in this process and cost nothing
)

// LateRuns stores runs that have finished before they were accepted.
type LateRuns interface {
	// InsertFinished returns the ids of the stored runs.
	InsertFinished(ctx context.Context, rows []executiondb.LateRun) (map[string]bool, error)
	AgentVersion(ctx context.Context, org, agentID string) (int, error)
	Clock(ctx context.Context) (executiondb.Clock, error)
}

// Errors of runs that must be accepted in the ordinary way.
var (
	errNotLate   = errors.New("the run has or may have effects before it is stored")
	errNotStored = errors.New("another run has its key, or its agent has changed")
)

// lateRuns executes runs that are not rows yet. Nothing of such a run is visible before the single
// insert that stores it with its result: it has no lease, publishes no event, calls no tool, and
// only models of this process.
type lateRuns struct {
	store LateRuns
	open  func(sealed []byte, runID string) ([]byte, error)

	mu       sync.Mutex
	versions map[lateAgent]int // the versions of agents that were current when they were last seen
	offset   time.Duration     // of the database's clock
	read     time.Time         // when the clock was read
}

type lateAgent struct{ org, id string }

// version returns the version of an agent that was current recently. The insert compares it with the
// current one.
func (l *lateRuns) version(ctx context.Context, of lateAgent) (int, error) {
	l.mu.Lock()
	version, known := l.versions[of]
	l.mu.Unlock()
	if known {
		return version, nil
	}
	version, err := l.store.AgentVersion(ctx, of.org, of.id)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.versions) >= maxLateAgents {
		clear(l.versions)
	}
	l.versions[of] = version
	return version, nil
}

// forget removes an agent's version.
func (l *lateRuns) forget(of lateAgent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.versions, of)
}

// now returns the time by the database's clock.
func (l *lateRuns) now(ctx context.Context) (time.Time, error) {
	l.mu.Lock()
	offset, fresh := l.offset, time.Since(l.read) < lateClock
	l.mu.Unlock()
	if fresh {
		return time.Now().Add(offset), nil
	}
	asked := time.Now()
	clock, err := l.store.Clock(ctx)
	if err != nil {
		return time.Time{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offset, l.read = clock.Now.Sub(asked.Add(time.Since(asked)/2)), asked
	return time.Now().Add(l.offset), nil
}

// executeLate executes the run in a job message and stores it with its result. If that is not
// possible, it leaves no trace, and the ingress accepts the run in the ordinary way.
func (r *Runner) executeLate(ctx context.Context, d *bus.JobMessage) {
	if age, known := d.Age(); !known || age > lateMaxAge {
		return
	}
	ctx, span := r.tracer.Root(ctx, tracing.Consumer, "run.execute", d.Traceparent)
	defer span.End()
	span.Str("parley.run.id", d.RunID)
	ending, err := r.finishLate(ctx, d)
	if err != nil {
		r.log.Debug().Err(err).Str("run_id", d.RunID).Msg("late acceptance declined")
		reply := contract.Declined
		if errors.Is(err, errNotLate) {
			reply = contract.DeclinedAgent
		}
		r.bus.Reply(d.RunID, d.ReplyTo, []byte(reply))
		return
	}
	r.metrics.end(ending.Run)
	traceEnd(ctx, ending.Run)
	r.log.Debug().Str("run_id", d.RunID).Msg("run finished before its acceptance")
}

// finishLate executes the run and stores it. It returns an error if the run is not stored.
func (r *Runner) finishLate(ctx context.Context, d *bus.JobMessage) (executiondb.Outcome, error) {
	var run domain.LateRun
	raw, err := r.late.open(d.Late, d.RunID)
	if err == nil {
		err = json.Unmarshal(raw, &run)
	}
	if err != nil {
		return executiondb.Outcome{}, err
	}
	agent := lateAgent{run.OrganizationID, run.AgentID}
	a, err := r.lateAttempt(ctx, &run, agent, d.ReplyTo)
	if err != nil {
		return executiondb.Outcome{}, err
	}
	ending, err := r.runLate(ctx, a)
	if err != nil {
		return ending, err
	}
	stored, err := r.lates.Do(ctx, tracing.For(ctx, lateRun{
		LateRun: executiondb.LateRun{LateRun: run, ConfigVersion: a.claim.ConfigVersion, Outcome: ending}, replyTo: d.ReplyTo,
	}))
	if err == nil && !stored {
		err = errNotStored
	}
	if err != nil {
		r.late.forget(agent)
		return ending, err
	}
	r.changed(a)
	return ending, nil
}

// lateAttempt returns the attempt of a run, as if it had been claimed.
func (r *Runner) lateAttempt(ctx context.Context, run *domain.LateRun, agent lateAgent, replyTo string) (*attempt, error) {
	version, err := r.late.version(ctx, agent)
	if err != nil {
		return nil, err
	}
	now, err := r.late.now(ctx)
	if err != nil {
		return nil, err
	}
	now = now.Truncate(time.Millisecond)
	began := time.Now()
	return &attempt{claim: executiondb.Claimed{
		RunID: run.ID, OrganizationID: run.OrganizationID, AgentID: &run.AgentID, ConfigVersion: version, Seq: 1,
		SessionID: run.SessionID, TriggerType: run.TriggerType, AutomationID: pg.Optional(run.AutomationID),
		IdempotencyKey: pg.Optional(run.IdempotencyKey), RawInput: run.Input, CallerKind: domain.CallerKind(run.CallerKind),
		RetentionSecs: run.Retention, Fence: 1, Attempts: 1, CallerAllowed: true,
		CreatedAt: now, StartedAt: now, Deadline: now.Add(lateDeadline), Now: now,
	}, replyTo: replyTo, asked: began, claimed: began, log: r.log.With().
			Str("org_id", run.OrganizationID).Str("agent_id", run.AgentID).Str("run_id", run.ID).Logger()}, nil
}

// runLate executes an attempt whose run is not stored. It returns an error unless the run has
// completed without anything that must be stored before.
func (r *Runner) runLate(ctx context.Context, a *attempt) (executiondb.Outcome, error) {
	cfg, err := r.configs.Get(ctx, a.claim.OrganizationID, a.claim.TargetID(), a.claim.ConfigVersion)
	if err != nil {
		return executiondb.Outcome{}, err
	}
	if !r.mayFinishLate(cfg) {
		return executiondb.Outcome{}, errNotLate
	}

	a.events = &eventWriter{
		held: a.claim.Held(), epoch: r.epoch, publish: func(string, domain.EventChunk) {}, pace: &pace{}, taken: func() {}, log: a.log,
		save: func(context.Context, executiondb.Checkpoint) (bool, error) { return false, nil },
	}
	a.events.begin(domain.At(a.claim.StartedAt))
	defer a.events.close()
	ctx, cancel := context.WithTimeout(ctx, lateTime)
	defer cancel()
	out, err := r.runAttempt(ctx, a)
	if err != nil {
		return executiondb.Outcome{}, err
	}
	return a.lateEnding(out)
}

// lateEnding returns the finished run.
func (a *attempt) lateEnding(out agentloop.Output) (executiondb.Outcome, error) {
	a.events.close()
	ending, err := a.outcome(out, domain.RunCompleted, nil)
	if err == nil && (ending.Events.FirstN > 0 || len(ending.Result) > lateMaxResult) {
		err = errNotLate
	}
	return ending, err
}

// mayFinishLate reports whether runs of an agent have no effects before they finish: the agent has
// no tools, and only models of this process.
func (r *Runner) mayFinishLate(cfg domain.Config) bool {
	if cfg.Tools != (domain.Tools{}) {
		return false
	}
	for _, name := range append([]string{cfg.Model}, cfg.FallbackModels...) {
		if name == "" {
			name = r.models.Default()
		}
		if provider, _, _ := strings.Cut(name, "/"); provider != localProvider {
			return false
		}
	}
	return true
}

// lateRun is a finished run to store, and the inbox on which the caller waits for it.
type lateRun struct {
	executiondb.LateRun

	replyTo string
}

// saveLate stores a batch of finished runs, and publishes each stored run to the caller that waits
// for it.
func (r *Runner) saveLate(ctx context.Context, batch []lateRun) ([]bool, error) {
	rows := make([]executiondb.LateRun, len(batch))
	for i, l := range batch {
		rows[i] = l.LateRun
	}
	failpoint.Here(failpoint.LateBefore)
	stored, err := r.late.store.InsertFinished(ctx, rows)
	if err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.LateAfter)
	out := make([]bool, len(batch))
	for i, l := range batch {
		if out[i] = stored[l.ID]; out[i] {
			r.bus.Reply(l.ID, l.replyTo, l.Outcome.Result)
		}
	}
	return out, nil
}
