package agentloop

import (
	"context"
	"errors"
	"time"

	"parley/workers/internal/llm"
)

const (
	maxRetries    = 2           // in place, over a whole run
	longestDelay  = time.Second // of one of them, so two take at most 2 s
	smallestReply = 4096        // tokens: below this the rest of the run's budget caps the answer
)

// retryDelays are the middle waits before the first and second retry.
var retryDelays = [maxRetries]time.Duration{200 * time.Millisecond, 600 * time.Millisecond}

// modelTurn makes one model call, again after a short wait or with less history if that may help.
func (r *run) modelTurn(ctx context.Context) (llm.Response, error) {
	if r.out.Turns >= r.limits.MaxTurns {
		return llm.Response{}, limitError(CodeTurnLimit, "The run reached its limit of model turns.")
	}
	left := r.limits.MaxTokens - r.out.Usage.InputTokens - r.out.Usage.OutputTokens
	if left <= 0 {
		return llm.Response{}, limitError(CodeTokenLimit, "The run reached its limit of tokens.")
	}
	for {
		if ctx.Err() != nil {
			return llm.Response{}, stopped(ctx)
		}
		r.streamed = false
		res, err := r.in.Model.Stream(ctx, r.request(left), r.emit)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return llm.Response{}, stopped(ctx)
		case r.shortenHistory(err):
			continue
		}
		delay, again := r.retryDelay(err)
		if !again {
			return llm.Response{}, Classify(err)
		}
		if !pause(ctx, delay) {
			return llm.Response{}, stopped(ctx)
		}
	}
}

func (r *run) request(left int64) llm.Request {
	maxTokens := r.limits.MaxAnswerTokens
	if left < smallestReply && (maxTokens == 0 || left < maxTokens) {
		maxTokens = left
	}
	return llm.Request{
		System: r.system, Messages: r.messages, Tools: r.tools, MaxTokens: maxTokens,
		SessionStart: len(r.in.History) == 0 && r.in.OmittedTurns == 0,
	}
}

// shortenHistory leaves out the older half of the history if the prompt was too long for the model,
// whose real limit nobody may have known; false if that is not the cause or nothing is left to leave out.
func (r *run) shortenHistory(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.KindContextLength || r.streamed || len(r.history) == 0 {
		return false
	}
	dropped := (len(r.history) + 1) / 2
	messages := 0
	for _, t := range r.history[:dropped] {
		messages += len(t.Messages)
	}
	r.history = r.history[dropped:]
	r.messages = r.messages[messages:]
	r.own -= messages
	r.out.OmittedTurns += dropped
	r.setSystem()
	return true
}

// retryDelay decides whether to retry in place, and after how long: only what passes quickly, and only
// while the caller has been shown nothing of this turn. A timeout has already taken long.
func (r *run) retryDelay(err error) (time.Duration, bool) {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable || e.Kind == llm.KindTimeout {
		return 0, false
	}
	if r.streamed || r.retries >= maxRetries || e.RetryAfter > longestDelay {
		return 0, false
	}
	middle := retryDelays[r.retries]
	r.retries++
	delay := middle/2 + time.Duration(r.loop.jitter()*float64(middle))
	return min(max(delay, e.RetryAfter), longestDelay), true
}

// pause waits; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
