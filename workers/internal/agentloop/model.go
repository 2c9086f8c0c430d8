package agentloop

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

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
func (r *run) modelTurn(ctx context.Context) (*TurnStep, llm.StopReason, error) {
	left, err := r.budgetLeft()
	if err != nil {
		return nil, "", err
	}
	for {
		if ctx.Err() != nil {
			return nil, "", stopped(ctx)
		}
		r.beginTurn()
		res, err := r.in.Model.Stream(ctx, r.request(left), r.emit)
		switch {
		case err == nil:
			r.loop.earn()
			return r.endTurn(res), res.StopReason, nil
		case ctx.Err() != nil:
			return nil, "", stopped(ctx)
		case r.shortenHistory(err):
			continue
		}
		delay, again := r.retryDelay(err)
		if !again || !r.loop.retry() {
			return nil, "", Classify(err)
		}
		r.retries++
		if !pause(ctx, delay) {
			return nil, "", stopped(ctx)
		}
	}
}

// budgetLeft gives the tokens that the run may still use, unless it has reached a limit.
func (r *run) budgetLeft() (int64, error) {
	used := r.out.Usage
	left := r.limits.MaxTokens - used.InputTokens - used.OutputTokens
	switch {
	case r.out.Turns >= r.limits.MaxTurns:
		return 0, limitError(CodeTurnLimit, "The run reached its limit of model turns.")
	case left <= 0:
		return 0, limitError(CodeTokenLimit, "The run reached its limit of tokens.")
	case r.limits.MaxCostMicros > 0 && used.CostMicros >= r.limits.MaxCostMicros:
		return 0, limitError(CodeCostLimit, "The run reached its limit of cost.")
	default:
		return left, nil
	}
}

// beginTurn makes ready for what a model call will emit. Without tools nothing can be cited: a number in brackets is
// then a number in brackets.
func (r *run) beginTurn() {
	r.streamed = false
	if len(r.tools) > 0 {
		r.filter = newFilter(r.citationCheck(), r.show)
	}
}

// endTurn makes a turn of a model's answer: its text as it was shown, and only such calls as may be made.
func (r *run) endTurn(res llm.Response) *TurnStep {
	t := &TurnStep{
		Model: res.Model, Text: res.Text, ToolCalls: res.ToolCalls, Usage: res.Usage, Thinking: res.Thinking,
		BrokeOff: len(res.ToolCalls) > 0 && res.StopReason == llm.StopLength,
	}
	if r.in.Price != nil {
		t.CostMicros = max(r.in.Price(res.Model, res.Usage), 0)
	}
	for i, c := range t.ToolCalls {
		if c.Arguments != nil { // whatever a model's adapter lets through, a call has an object
			t.ToolCalls[i] = llm.NewToolCall(c.ID, c.Name, string(c.Arguments))
		}
	}
	if r.filter == nil {
		return t
	}
	t.Text = r.filter.finish()
	offset := utf8.RuneCountInString(r.out.Text)
	if offset > 0 {
		offset += utf8.RuneCountInString(gap)
	}
	t.Citations, t.CitationsRemoved = r.passages.citations(t.Text, r.filter.marks, offset), r.filter.removed
	return t
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
