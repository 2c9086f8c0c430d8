package runner

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/lifecycle"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
)

// attempt is one execution of a claimed run by this worker. begin creates the attempt, which lives
// until its outcome is saved. Only the attempt's goroutine uses its fields, except the field
// events.
type attempt struct {
	claim executiondb.Claimed
	// replyTo is the inbox of the caller that waits for the run; empty if no caller waits.
	replyTo string
	asked   time.Time // time just before the claim; the lease expires at most lease.Lease later
	claimed time.Time // time on this process's clock when the database's clock showed claim.Now
	log     zerolog.Logger
	events  *eventWriter

	models int // number of the agent's models; 0 until the configuration has been read
	// warnings, appendSources and settings become part of the finished run. The method input sets
	// these fields.
	warnings      []domain.RunWarning
	appendSources bool
	settings      domain.ModelSettings

	attachments []domain.Attachment // attachments of the request; the method input sets them
	imageRoom   *inputTurn          // reservation for the images in the prompt; nil: none
}

// now returns the current time by the database's clock.
func (a *attempt) now() time.Time { return a.claim.Now.Add(time.Since(a.claimed)) }

// deadline returns the run's deadline on this process's clock.
func (a *attempt) deadline() time.Time { return a.claimed.Add(a.claim.Deadline.Sub(a.claim.Now)) }

// execute claims and executes the run of a job message that has been acknowledged. execute returns
// when the outcome is saved. ctx is cancelled only when the worker stops waiting for its runs.
func (r *Runner) execute(ctx context.Context, d *bus.JobMessage) {
	ctx, span := r.tracer.Root(ctx, tracing.Consumer, "run.execute", d.Traceparent)
	defer span.End()
	span.Str("parley.run.id", d.RunID)
	if a := r.begin(ctx, d, span); a != nil {
		r.executeClaimed(ctx, a)
	}
}

// begin claims the run of a job message. It returns nil if there is nothing to execute: another
// worker has the run, the run has finished, or the claim failed. Nothing is lost then, because the
// sweeper publishes the jobs of unclaimed runs again.
func (r *Runner) begin(ctx context.Context, d *bus.JobMessage, span tracing.Span) *attempt {
	failpoint.Here(failpoint.ClaimBefore)

	claim, asked, err := r.claim(ctx, d.RunID)
	if err != nil {
		span.Fail("not claimed")
		r.log.Warn().Err(err).Str("run_id", d.RunID).Msg("cannot claim run; the sweeper will publish its job again")
		return nil
	}
	// The run has already finished. Publish the result again, because the caller may have missed
	// the first message.
	if claim.Run == nil {
		if claim.Ended {
			r.bus.Done(d.RunID, d.ReplyTo, claim.Result)
		}
		return nil
	}

	// The run now belongs to this worker. The run's lease and fence replace the acknowledged
	// message.
	a := r.newAttempt(claim.Run, d, asked)
	r.changed(a)
	a.describe(span)
	failpoint.Here(failpoint.ClaimAfter)
	return a
}

// newAttempt returns the attempt at a run that was just claimed.
func (r *Runner) newAttempt(claimed *executiondb.Claimed, d *bus.JobMessage, asked time.Time) *attempt {
	return &attempt{claim: *claimed, replyTo: d.ReplyTo, asked: asked, claimed: time.Now(), log: r.log.With().
		Str("org_id", claimed.OrganizationID).Str("agent_id", claimed.TargetID()).Str("run_id", d.RunID).Logger()}
}

// claim claims a run, and returns the time at which the successful claim began. It repeats the
// claim for up to claimTime if another transaction has locked the run or the database fails. Claims
// of concurrent attempts are combined in one statement. The time is measured before the claim, so
// that the worker considers the lease expired before the database does.
func (r *Runner) claim(ctx context.Context, runID string) (claim executiondb.Claim, asked time.Time, err error) {
	for until := time.Now().Add(claimTime); ; {
		asked = time.Now()
		// If the claim takes longer than slowClaim, the worker stops fetching jobs, because it
		// could not claim their runs in time.
		slow := time.AfterFunc(slowClaim, r.database.close)
		claim, err = r.claims.Do(ctx, tracing.For(ctx, runID))
		slow.Stop()

		// A locked run is usually free again within milliseconds. A failing database takes longer.
		pause := time.Second
		switch {
		case err != nil:
			r.database.close()
		case !claim.Locked:
			r.database.reopen()
			return claim, asked, nil
		default:
			pause = lockedRetry
		}

		pause = jitter(pause)
		if time.Now().Add(pause).After(until) || lifecycle.Sleep(ctx, pause) != nil {
			if err == nil {
				err = pg.ErrLocked
			}
			return claim, asked, err
		}
	}
}

// describe sets the attempt's attributes on its span.
func (a *attempt) describe(span tracing.Span) {
	span.Str("parley.organization.id", a.claim.OrganizationID)
	span.Str("parley.agent.id", a.claim.TargetID())
	span.Int("parley.run.attempt", int64(a.claim.Attempts))
}

// changed publishes that a run of the attempt's organization has changed.
func (r *Runner) changed(a *attempt) { r.changes.Changed(domain.ChangedRuns, a.claim.OrganizationID) }

// executeClaimed executes a claimed run. When it returns, the run has finished, was parked or
// requeued, or no longer belongs to this worker.
func (r *Runner) executeClaimed(ctx context.Context, a *attempt) {
	// Cancelling tryCtx stops the attempt. The writes of its outcome use ctx and are not cancelled.
	tryCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// The heartbeat extends the lease until the outcome is saved.
	defer r.held.Remove(r.held.Add(a.claim.Held(), a.asked, cancel))
	r.note(tryCtx, a)
	a.events = r.newEventWriter(a, func() { cancel(errTaken) })
	defer a.events.close()

	// The run's deadline has its own context, so that the deadline can be distinguished from the
	// causes with which tryCtx ends.
	deadlineCtx, stop := context.WithDeadlineCause(tryCtx, a.deadline(), context.DeadlineExceeded)
	out, err := r.runAttempt(deadlineCtx, a)
	stop()
	r.finalize(ctx, a, out, err, context.Cause(deadlineCtx))
}

// finalize saves the outcome of an attempt. out is the attempt's output; after an error, it
// describes the work done so far. err is the error of the agent loop. cause is the cause with which
// the attempt's context ended, or nil.
func (r *Runner) finalize(ctx context.Context, a *attempt, out *agentloop.Output, err, cause error) {
	// A successful attempt finishes its run even if its context has ended meanwhile: the fence
	// rejects a stale result. Otherwise, the cause of a cancellation takes precedence over the
	// error to which the cancellation led.
	var parked *agentloop.Parked
	switch {
	case err == nil:
		r.finish(ctx, a, *out, domain.RunCompleted, nil)
	case errors.Is(cause, errTaken), errors.Is(err, errTaken):
		a.log.Info().Msg("run was cancelled or taken over; attempt dropped")
	case errors.Is(cause, errDraining), errors.Is(cause, errLease):
		r.requeue(ctx, a, 0, nil)
	case errors.Is(cause, context.DeadlineExceeded):
		r.finish(ctx, a, *out, domain.RunTimedOut, executiondb.DeadlineExceeded)
	case errors.As(err, &parked):
		r.park(ctx, a, *out, parked)
	default:
		r.fail(ctx, a, *out, err)
	}
}

// note records in the run's timeline that a second or later attempt has begun. If the write fails,
// note only logs the error.
func (r *Runner) note(ctx context.Context, a *attempt) {
	if a.claim.Attempts == 1 {
		return
	}

	// The timeline only informs people, so the write must not delay the run for long.
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	var err error
	for n := 1; ctx.Err() == nil; n++ {
		var locked bool
		if locked, err = r.notes.Do(ctx, a.claim); err != nil || !locked {
			break
		}
		err = pg.ErrLocked
		_ = lifecycle.Sleep(ctx, lockedBackoff(n))
	}
	if err != nil {
		a.log.Warn().Err(err).Msg("cannot store the attempt in the run's timeline")
	}
}

// requeue requeues the run and frees its slot. The run starts again after the duration wait at the
// earliest. cause is nil if the attempt did not fail, for example because this worker stops or has
// lost its lease. requeue repeats the write while the database is unreachable: without this write,
// the run could not start again until its lease expires.
func (r *Runner) requeue(ctx context.Context, a *attempt, wait time.Duration, cause *domain.RunError) {
	// The requeued run does not keep its slot, even if it is requeued because this worker stops.
	// The freed slot goes to another run.
	r.persist(ctx, a, "requeueing run", func(ctx context.Context) error {
		back, err := r.requeues.Do(ctx, executiondb.Requeue{Held: a.claim.Held(), Backoff: wait, Cause: cause})
		switch {
		case err != nil:
			return err
		case back.Locked:
			return pg.ErrLocked
		case !back.Done:
			a.log.Info().Msg("run was taken over by another worker before it could be requeued")
			return nil
		}
		r.changed(a)
		r.freeSlots.add(queuedb.FreedSlots{back.Lane: {Slots: 1, Waiting: true}})
		return nil
	})
	failpoint.Here(failpoint.RequeuedAfter)
}

// finish saves the run's result. saveAll then publishes the result to the waiting caller. cause is
// nil for a completed run. The write is repeated until it succeeds, the fence rejects it, or ctx
// ends. If ctx ends, the sweeper requeues the run.
func (r *Runner) finish(ctx context.Context, a *attempt, out agentloop.Output, status domain.RunStatus, cause *domain.RunError) {
	r.recall(ctx, a, &out)

	// If the result cannot be encoded, another attempt would not help. The run then fails, without
	// an answer.
	outcome, err := a.outcome(ctx, out, status, cause)
	if err != nil {
		a.log.Error().Err(err).Msg("cannot encode the run's result")
		r.finishEmpty(ctx, a)
		return
	}

	failpoint.Here(failpoint.FinishBefore)
	e := endedRun{Outcome: outcome, replyTo: a.replyTo}

	r.persist(ctx, a, "saving result", func(ctx context.Context) error {
		saved, err := r.finishes.Do(ctx, tracing.For(ctx, e))
		if err == nil {
			err = saved.failed
		}
		switch {
		case err != nil:
			e.alone = !pg.IsLocked(err) // the batch may have failed because it was too large, so retry each result separately
			return err
		// PostgreSQL would reject the same bytes again, so retrying cannot help.
		case saved.err != nil:
			a.log.Error().Err(saved.err).Msg("the database rejects this result")
			r.finishEmpty(ctx, a)
		// saveAll has already published the result to the waiting caller.
		case saved.ok:
			failpoint.Here(failpoint.DoneAfter)
			r.changed(a)
			traceEnd(ctx, outcome.Run)
			r.metrics.end(outcome.Run)
			a.log.Debug().Str("status", string(outcome.Run.Status)).Msg("run finished")
		default:
			a.log.Info().Msg("run was cancelled or taken over; result dropped")
		}
		return nil
	})
}

// traceEnd sets the run's final status on the attempt's span.
func traceEnd(ctx context.Context, run domain.Run) {
	span := tracing.Current(ctx)
	span.Str("parley.run.status", string(run.Status))
	if run.Error != nil {
		span.Fail(run.Error.Code)
	}
}

// recall adds the usage and the tool calls of earlier attempts to a run that finishes before this
// attempt has read the journal.
func (r *Runner) recall(ctx context.Context, a *attempt, out *agentloop.Output) {
	if out.Turns > 0 || a.claim.Attempts == 1 {
		return
	}

	// An attempt may fail before its first turn, for example because a tool server is missing.
	// Without the recorded progress, the run would then report no usage at all.
	done, err := r.progress.Progress(ctx, a.claim.OrganizationID, a.claim.RunID)
	if err != nil {
		a.log.Warn().Err(err).Msg("cannot read earlier attempts; the run finishes without their tool calls")
		return
	}
	out.Usage, out.ToolCalls, out.CitationsRemoved = done.Usage, done.ToolCalls, done.CitationsRemoved
}

// finishEmpty finishes a run as failed if its result cannot be rendered or stored. finishEmpty
// drops the events since the last checkpoint, because these events may be the cause.
func (r *Runner) finishEmpty(ctx context.Context, a *attempt) {
	a.events.forget()
	unstored := &domain.RunError{Code: "internal", Message: "The run's result could not be stored."}
	r.finish(ctx, a, agentloop.Output{}, domain.RunFailed, unstored)
}

// persist repeats a write while the database is unreachable or another transaction has locked the
// row, until ctx ends. A late write is harmless, because the fence rejects it if the run has
// another owner. The argument what names the operation in logs.
func (r *Runner) persist(ctx context.Context, a *attempt, what string, write func(context.Context) error) {
	for n := 1; ; n++ {
		err := write(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}

		// Row locks are short, so the write is repeated sooner if the row is locked than if the
		// database is unreachable.
		wait := min(backoff(n), 5*time.Second)
		if pg.IsLocked(err) {
			wait = lockedBackoff(n)
		}

		// Short waits for a lock are normal and not logged.
		if !pg.IsLocked(err) || wait == maxLocked {
			a.log.Warn().Err(err).Msg(what + " failed, retrying")
		}
		_ = lifecycle.Sleep(ctx, wait)
	}
}

// maxLocked is the maximum delay before a write to a locked row is repeated.
const maxLocked = time.Second

// lockedBackoff returns the delay before the n-th retry. It doubles from 5 ms to maxLocked, because
// most locks are held for less than 5 ms.
func lockedBackoff(n int) time.Duration { return min(5*time.Millisecond<<min(n-1, 10), maxLocked) }

// endedRun contains a run's result and the inbox of the caller that waits for it.
type endedRun struct {
	executiondb.Outcome

	replyTo string
	alone   bool // true if the result must be saved in a batch of its own
}

// size returns the number of bytes that count toward a batch's byte limit.
func (e endedRun) size() int {
	if e.alone {
		return executiondb.MaxBatchBytes
	}
	return e.Size()
}

// saveResult is the outcome of saving one result. If no field is set, the run no longer belongs to
// this worker.
type saveResult struct {
	ok     bool  // the result was saved, and published to the waiting caller
	err    error // the result can never be saved; a retry would fail, too
	failed error // the result was not saved, but a retry may succeed
}

// saveAll saves a batch of results in one statement, and publishes each saved result to the caller
// that waits for it. dispatchFreed refills the freed slots later, because no caller waits for them.
// The result has an element for each element of batch. An error means that no result was saved.
func (r *Runner) saveAll(ctx context.Context, batch []endedRun) ([]saveResult, error) {
	outcomes := make([]executiondb.Outcome, len(batch))
	for i, e := range batch {
		outcomes[i] = e.Outcome
	}

	// If Finish fails, it has saved no result, and each attempt asks saveAll again to save its
	// result.
	finished, err := r.runs.Finish(ctx, outcomes)
	if err != nil {
		return nil, err
	}

	// Publish the results first, because callers wait for them.
	out := make([]saveResult, len(batch))
	for i, e := range batch {
		id := e.Run.ID
		out[i] = saveResult{ok: finished.Saved[id], err: finished.Rejected[id], failed: finished.Failed[id]}
		if out[i].ok {
			failpoint.Here(failpoint.FinishAfter)
			r.bus.Ended(id, e.replyTo, e.Result, domain.EventID{Fence: e.Fence, N: e.EndN}, e.Run.Status)
		}
	}

	r.freeSlots.add(finished.Freed)
	return out, nil
}

// finishReason returns the finish reason of a run from the stop reason of its last model call.
func finishReason(stop llm.StopReason) *domain.FinishReason {
	switch stop {
	case llm.StopLength:
		return new(domain.FinishLength)
	case llm.StopFiltered:
		return new(domain.FinishContentFilter)
	case llm.StopToolCalls:
		return new(domain.FinishToolCalls)
	default:
		return new(domain.FinishStop)
	}
}

// outcome closes the event writer. It returns the finished run, and the rows that must be saved
// together with the run. outcome fails if the run cannot be encoded. cause is nil for a completed
// run.
func (a *attempt) outcome(
	ctx context.Context, out agentloop.Output, status domain.RunStatus, cause *domain.RunError,
) (executiondb.Outcome, error) {
	// Every run reports its usage and its tool calls, but only a completed run has an answer.
	run := a.claim.Run()
	run.Usage, run.ToolCalls, run.OmittedTurns = out.Usage, out.ToolCalls, out.OmittedTurns
	run.CitationsRemoved, run.Warnings, run.AppendSources = out.CitationsRemoved, a.warnings, a.appendSources
	run.Settings = a.settings.Pointer()
	run.Attachments = a.attachments
	if status == domain.RunCompleted {
		run.Message, run.Output, run.Citations = &out.Text, &domain.Output{Message: out.Text, Data: out.Data}, out.Citations
		run.FinishReason = finishReason(out.StopReason)
	}

	// Use the database's clock, so that timestamps of different workers are comparable.
	run.End(status, cause, domain.At(a.now()), a.claim.RetentionSecs)
	outcome, err := executiondb.NewOutcome(a.claim.Held(), run)

	// The result is saved with the unsaved events, so no checkpoint may save them at the same time.
	a.events.closeAndWait(ctx)
	outcome.Events, outcome.EndN = a.events.rest(run)
	return outcome, err
}
