package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/lifecycle"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
)

// attempt is one try at a run by this worker.
type attempt struct {
	claim   executiondb.Claimed
	replyTo string
	asked   time.Time // before the claim: the lease is over no later than a lease from here
	claimed time.Time // when, by this process's monotonic clock, the database's clock showed claim.Now
	log     zerolog.Logger
	events  *telling
}

// now is the database's time.
func (a *attempt) now() time.Time { return a.claim.Now.Add(time.Since(a.claimed)) }

// deadline is when the run must have ended, by this process's clock.
func (a *attempt) deadline() time.Time { return a.claimed.Add(a.claim.Deadline.Sub(a.claim.Now)) }

// carry follows one doorbell to its end. ctx ends only when the worker gives up waiting for its runs.
func (r *Runner) carry(ctx context.Context, d *bus.Doorbell) {
	asked := time.Now()
	ctx, span := r.tracer.Root(ctx, tracing.Consumer, "run.execute", d.Traceparent)
	defer span.End()
	span.Str("parley.run.id", d.RunID)
	failpoint.Here(failpoint.ClaimBefore)
	claim, err := r.claims.Do(ctx, tracing.For(ctx, d.RunID))
	if err != nil {
		span.Fail("not claimed")
		r.log.Warn().Err(err).Str("run_id", d.RunID).Msg("cannot claim runs; requeueing the job message")
		d.Nak(jitter(time.Second))
		return
	}
	if claim.Locked {
		d.Nak(jitter(lockedAgain))
		return
	}
	if claim.Run == nil {
		if claim.Ended {
			r.bus.Done(d.RunID, d.ReplyTo, claim.Result)
		}
		d.Ack()
		return
	}
	a := &attempt{claim: *claim.Run, replyTo: d.ReplyTo, asked: asked, claimed: time.Now(), log: r.log.With().
		Str("org_id", claim.Run.OrganizationID).Str("agent_id", claim.Run.TargetID()).Str("run_id", d.RunID).Logger()}
	r.changed(a)
	a.describe(span)
	failpoint.Here(failpoint.ClaimAfter)
	r.settle(ctx, a, d)
	d.Ack()
}

// describe says on a span what is tried.
func (a *attempt) describe(span tracing.Span) {
	span.Str("parley.organization.id", a.claim.OrganizationID)
	span.Str("parley.agent.id", a.claim.TargetID())
	span.Int("parley.run.attempt", int64(a.claim.Attempts))
}

// changed tells whoever watches runs that one has changed.
func (r *Runner) changed(a *attempt) { r.changes.Changed(domain.ChangedRuns, a.claim.OrganizationID) }

// settle works on a claimed run until its end, its return to the queue or its loss is written.
func (r *Runner) settle(ctx context.Context, a *attempt, d *bus.Doorbell) {
	tryCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &holding{Held: a.claim.Held(), cancel: cancel, inProgress: d.InProgress, leaseUntil: a.asked.Add(lease.Lease)}
	r.held.add(h)
	defer r.held.remove(h) // not before the result is saved: the heartbeat keeps the lease meanwhile
	a.events = r.telling(a, func() { cancel(errTaken) })
	defer a.events.close()
	r.note(tryCtx, a)

	deadlineCtx, stop := context.WithDeadlineCause(tryCtx, a.deadline(), context.DeadlineExceeded)
	out, err := r.try(deadlineCtx, a)
	stop()
	var parked *agentloop.Parked
	switch cause := context.Cause(deadlineCtx); {
	case err == nil:
		r.finish(ctx, a, out, domain.RunCompleted, nil)
	case errors.Is(cause, errTaken), errors.Is(err, errTaken):
		a.log.Info().Msg("run was cancelled or taken over; attempt dropped")
	case errors.Is(cause, errDraining), errors.Is(cause, errLease):
		r.putBack(ctx, a, 0, nil)
	case errors.Is(cause, context.DeadlineExceeded):
		r.finish(ctx, a, out, domain.RunTimedOut, executiondb.DeadlineExceeded)
	case errors.As(err, &parked):
		r.park(ctx, a, out, parked)
	default:
		r.fail(ctx, a, out, err)
	}
}

// note tells the run's timeline of an attempt behind others. One that it does not tell of goes on all the same.
func (r *Runner) note(ctx context.Context, a *attempt) {
	if a.claim.Attempts == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	if err := r.parking.NoteAttempt(ctx, a.claim); err != nil {
		a.log.Warn().Err(err).Msg("cannot store the attempt in the run's timeline")
	}
}

// fail ends a run for good, or puts it back when trying again may help and there is time for it.
func (r *Runner) fail(ctx context.Context, a *attempt, out agentloop.Output, err error) {
	public := &domain.RunError{Code: "internal", Message: "the run failed inside the service"}
	var failure *agentloop.Error
	if errors.As(err, &failure) {
		public = &domain.RunError{Code: failure.Code, Message: failure.Message}
	}
	r.metrics.failed.WithLabelValues(public.Code).Inc()
	a.log.Warn().Err(err).Str("code", public.Code).Int("attempt", a.claim.Attempts).Msg("attempt failed")
	tracing.Current(ctx).Fail(public.Code)
	if failure != nil && failure.Retryable {
		wait := max(backoff(a.claim.Attempts), failure.RetryAfter)
		if a.now().Add(wait).Before(a.claim.Deadline) {
			r.putBack(ctx, a, wait, public)
			return
		}
	}
	r.finish(ctx, a, out, domain.RunFailed, public)
}

// backoff doubles from one second to a minute, with jitter.
func backoff(attempts int) time.Duration {
	return jitter(min(time.Second<<min(attempts-1, 10), time.Minute))
}

// jitter spreads d by a quarter either way, so that what failed together is not tried again together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2)) //nolint:gosec // spreads load; nobody must not guess it
}

// putBack returns the run to the queue; a nil cause is the worker's own. While the database cannot be
// asked it goes on trying: until it is told, nobody but the lease's end would start the run again.
func (r *Runner) putBack(ctx context.Context, a *attempt, wait time.Duration, cause *domain.RunError) {
	r.persist(ctx, a, "requeueing run", func(ctx context.Context) error {
		freed, err := r.runs.PutBack(ctx, a.claim.Held(), wait, cause)
		if err == nil && len(freed) == 0 {
			a.log.Info().Msg("run was taken over before it could be requeued")
		}
		if len(freed) > 0 {
			r.changed(a)
		}
		r.places.add(freed)
		return err
	})
	failpoint.Here(failpoint.PutBackAfter)
}

// finish saves the run's end; whoever waits is told with it.
func (r *Runner) finish(ctx context.Context, a *attempt, out agentloop.Output, status domain.RunStatus, cause *domain.RunError) {
	a.events.settled(ctx)
	r.recall(ctx, a, &out)
	ending, err := a.ending(out, status, cause)
	if err != nil {
		a.log.Error().Err(err).Msg("cannot encode the run's result")
		r.finishEmpty(ctx, a)
		return
	}
	failpoint.Here(failpoint.FinishBefore)
	e := ended{Ending: ending, replyTo: a.replyTo}
	r.persist(ctx, a, "saving result", func(ctx context.Context) error {
		saved, err := r.finishes.Do(ctx, tracing.For(ctx, e))
		if err == nil {
			err = saved.failed
		}
		switch {
		case err != nil:
			e.alone = !pg.IsLocked(err) // the batch may have been too much for the database
			return err
		case saved.err != nil:
			a.log.Error().Err(saved.err).Msg("the database rejects this result")
			r.finishEmpty(ctx, a)
		case saved.ok:
			failpoint.Here(failpoint.DoneAfter)
			r.changed(a)
			r.metrics.end(ending.Run)
			traceEnd(ctx, ending.Run)
			a.log.Debug().Str("status", string(ending.Run.Status)).Msg("run finished")
		default:
			a.log.Info().Msg("run was cancelled or taken over; result dropped")
		}
		return nil
	})
}

// traceEnd says on the attempt's span how the run has ended.
func traceEnd(ctx context.Context, run domain.Run) {
	span := tracing.Current(ctx)
	span.Str("parley.run.status", string(run.Status))
	if run.Error != nil {
		span.Fail(run.Error.Code)
	}
}

// recall adds what earlier attempts have used and done to an end that came before this one had read the journal.
func (r *Runner) recall(ctx context.Context, a *attempt, out *agentloop.Output) {
	if out.Turns > 0 || a.claim.Attempts == 1 {
		return
	}
	done, err := r.progress.Progress(ctx, a.claim.OrganizationID, a.claim.RunID)
	if err != nil {
		a.log.Warn().Err(err).Msg("cannot read earlier attempts; the run finishes without their tool calls")
		return
	}
	out.Usage, out.ToolCalls, out.CitationsRemoved = done.Usage, done.ToolCalls, done.CitationsRemoved
}

// finishEmpty fails a run whose result can be rendered or stored in no way. What it told since the last
// checkpoint goes too: that may be the cause.
func (r *Runner) finishEmpty(ctx context.Context, a *attempt) {
	a.events.forget()
	r.finish(ctx, a, agentloop.Output{}, domain.RunFailed, &domain.RunError{Code: "internal", Message: "the run's result could not be stored"})
}

// persist repeats a write that the database could not be asked for, or whose row another transaction has locked. The fence makes it
// harmless however late.
func (r *Runner) persist(ctx context.Context, a *attempt, what string, write func(context.Context) error) {
	for n := 1; ; n++ {
		err := write(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := min(backoff(n), 5*time.Second)
		if pg.IsLocked(err) {
			wait = lockedBackoff(n)
		}
		if !pg.IsLocked(err) || wait == maxLocked {
			a.log.Warn().Err(err).Msg(what + " failed, retrying")
		}
		_ = lifecycle.Sleep(ctx, wait)
	}
}

// maxLocked is the longest time between tries to write what another transaction has locked.
const maxLocked = time.Second

// lockedBackoff doubles from a few milliseconds, which is how long most locks are held, to maxLocked.
func lockedBackoff(n int) time.Duration { return min(5*time.Millisecond<<min(n-1, 10), maxLocked) }

// ended is an ending and where its result is waited for.
type ended struct {
	executiondb.Ending

	replyTo string
	alone   bool // it is to be saved in a batch of its own
}

// size is about what the ending adds to a batch.
func (e ended) size() int {
	if e.alone {
		return executiondb.MaxBatchBytes
	}
	return e.Size()
}

// saving is what became of an ending: stored and told, or lost to another worker, or rejected with err, or to be tried again after failed.
type saving struct {
	ok     bool
	err    error
	failed error
}

// saveAll is one batch of results, and tells those who wait for them: what is told at once leaves together. The places that they leave
// are handed over behind it, for nobody who waits for a result waits for that.
func (r *Runner) saveAll(ctx context.Context, batch []ended) ([]saving, error) {
	endings := make([]executiondb.Ending, len(batch))
	for i, e := range batch {
		endings[i] = e.Ending
	}
	finished, err := r.runs.Finish(ctx, endings)
	if err != nil {
		return nil, err
	}
	out := make([]saving, len(batch))
	for i, e := range batch {
		id := e.Run.ID
		out[i] = saving{ok: finished.Saved[id], err: finished.Rejected[id], failed: finished.Failed[id]}
		if out[i].ok {
			failpoint.Here(failpoint.FinishAfter)
			r.bus.Done(id, e.replyTo, e.Result)
		}
	}
	r.places.add(finished.Freed)
	return out, nil
}

// ending makes the terminal run of what the loop gave.
func (a *attempt) ending(out agentloop.Output, status domain.RunStatus, cause *domain.RunError) (executiondb.Ending, error) {
	run := a.claim.Run()
	run.Usage, run.ToolCalls, run.OmittedTurns = out.Usage, out.ToolCalls, out.OmittedTurns
	run.CitationsRemoved = out.CitationsRemoved
	if status == domain.RunCompleted {
		run.Message, run.Output, run.Citations = &out.Text, &domain.Output{Message: out.Text}, out.Citations
	}
	run.End(status, cause, domain.At(a.now()), a.claim.RetentionSecs)
	ending, err := executiondb.NewEnding(a.claim.Held(), run)
	ending.Events, ending.EndN = a.events.rest(run)
	return ending, err
}
