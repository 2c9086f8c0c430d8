package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/agentloop"
)

// fail requeues the run if the error is retryable and the backoff ends before the run's deadline.
// Otherwise the run finishes as failed. The delay is the backoff or the delay that the provider
// demands, whichever is longer.
func (r *Runner) fail(ctx context.Context, a *attempt, out agentloop.Output, err error) {
	// Errors without a public code may contain internal details, so callers see a generic message.
	public := &domain.RunError{Code: "internal", Message: "The run failed because of an internal error of the service."}
	log := a.log
	var failure *agentloop.Error
	if errors.As(err, &failure) {
		public = &domain.RunError{Code: failure.Code, Message: failure.Message, Errors: failure.Mismatches}
		if said := failure.Provider; said != nil {
			log = log.With().Int("provider_status", said.Status).Logger()
			log.Debug().Str("provider_message", said.Message).Msg("the model provider responded")
			r.noteRefusal(ctx, a, *said)
		}
	}

	// The message of a coded error may quote a caller's text, such as the name of a file, so the
	// message is logged only at the level debug. The cause of a failed dependency is an error of
	// the service itself.
	r.metrics.failed.WithLabelValues(public.Code).Inc()
	cause := err
	if failure != nil {
		log.Debug().Err(err).Msg("the attempt's error")
		cause = nil
		if failure.Code == codeUnavailable {
			cause = failure.Err
		}
	}
	log.Warn().Err(cause).Str("code", public.Code).Int("attempt", a.claim.Attempts).Msg("attempt failed")
	tracing.Current(ctx).Fail(public.Code)

	// If the backoff ended after the deadline, the run would fail with a timeout, which hides the
	// cause.
	if failure != nil && failure.Retryable && !r.brokeOffTooOften(ctx, a, failure) {
		wait := max(backoff(a.claim.Attempts), failure.RetryAfter)
		if a.now().Add(wait).Before(a.claim.Deadline) {
			r.requeue(ctx, a, wait, public)
			return
		}
	}
	r.finish(ctx, a, out, domain.RunFailed, public)
}

// noteRefusal records a provider's refusal for the organization's admins. If the write fails,
// noteRefusal only logs the error.
func (r *Runner) noteRefusal(ctx context.Context, a *attempt, refusal domain.ProviderError) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	if err := r.parking.NoteRefusal(ctx, a.claim.Held(), refusal); err != nil {
		a.log.Warn().Err(err).Msg("cannot store the provider's response")
	}
}

const (
	// maxBrokenOff is the number of consecutive attempts that may end with a truncated answer. An
	// outage ends, but a provider that accepts each call and truncates its answer usually continues
	// to do so.
	maxBrokenOff = 4
	// maxRejected is the number of further attempts in which the circuit breaker may reject the
	// call, because answers to other runs were truncated. Their backoff takes about a minute.
	maxRejected = 3
)

// brokeOffTooOften reports whether the run must not be retried, because this attempt and the
// attempts before it ended with a truncated answer. Each model of the agent is tried at least once.
// If none of the run's own answers was truncated, the run is retried, however often the circuit
// breaker has rejected its calls. If the earlier attempts cannot be read, the run is retried.
func (r *Runner) brokeOffTooOften(ctx context.Context, a *attempt, failure *agentloop.Error) bool {
	limit := max(maxBrokenOff, a.models)
	if failure.Code != agentloop.CodeModelTruncated || a.claim.Attempts < limit {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	failed, err := r.parking.FailedSinceStep(ctx, a.claim.Held(), failure.Code)
	if err != nil {
		a.log.Warn().Err(err).Msg("cannot count the run's failed attempts; the run is retried")
		return false
	}
	failed.All++
	if failure.Provider != nil {
		failed.Refused++
	}
	return failed.Refused >= limit || failed.Refused >= 1 && failed.All >= limit+maxRejected
}

// backoff returns a delay that doubles with each attempt from one second to a minute, with jitter.
func backoff(attempts int) time.Duration {
	return jitter(min(time.Second<<min(attempts-1, 10), time.Minute))
}

// jitter changes d by up to a quarter in either direction, so that calls that failed at the same
// time are not retried at the same time.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2)) //nolint:gosec // jitter is not security-relevant
}
