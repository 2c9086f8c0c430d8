package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"parley/shared/lifecycle"
	"parley/workers/internal/llm"
)

const (
	maxRetries    = 2           // maximum number of retried model calls in one attempt at a run
	maxRetryDelay = time.Second // maximum delay before one retry, so the delays of two retries are at most 2 s together
	smallestReply = 4096        // if the run has fewer tokens left than this, they are the limit of the next answer
)

// retryDelays are the mean delays before the first and second retry.
var retryDelays = [maxRetries]time.Duration{200 * time.Millisecond, 600 * time.Millisecond}

// modelTurn makes the model call of one turn. It may retry the call after a short delay. If the
// prompt is too long for the model, it repeats the call with a shorter history. It returns the
// turn, which is not recorded yet, and the reason why the model stopped.
//
// It returns a limitError if the run has no turns, tokens or money left. If ctx ends, it returns
// the error of the function stopped. If the calls fail, it returns the error of the method
// classify.
func (r *run) modelTurn(ctx context.Context) (*TurnStep, llm.StopReason, error) {
	left, err := r.budgetLeft()
	if err != nil {
		return nil, "", err
	}
	var failed error // error of the previous call
	for {
		if ctx.Err() != nil {
			return nil, "", stopped(ctx)
		}

		// Each call gets a new filter, because the filter of a failed call may contain a part of an
		// answer.
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

		// Each retry also consumes the retry budget of the whole process, so that retries do not
		// overload a failing provider.
		delay, again := r.retryDelay(err)
		if !again || !r.loop.retry() {
			return nil, "", r.classify(moreInformative(failed, err))
		}
		failed = err
		r.retries++
		if lifecycle.Sleep(ctx, delay) != nil {
			return nil, "", stopped(ctx)
		}
	}
}

// moreInformative returns the error to report for a turn. last is the error of the turn's last
// call, and earlier is the error of the call before. If no provider responded to the last call, for
// example because a circuit breaker rejected it, moreInformative returns earlier with the retry
// delay of last. The provider's response to the earlier call explains the failure better.
func moreInformative(earlier, last error) error {
	var before, e *llm.Error
	if !errors.As(earlier, &before) || !errors.As(last, &e) || !e.Unused || e.Provider != nil || before.Provider == nil {
		return last
	}
	told := *before
	told.RetryAfter = e.RetryAfter
	return &told
}

// budgetLeft returns the number of tokens that the run may still use, or an error if a limit is
// reached.
func (r *run) budgetLeft() (int64, error) {
	used := r.out.Usage
	left := r.limits.MaxTokens - used.InputTokens - used.OutputTokens
	switch {
	case r.out.Turns >= r.limits.MaxTurns:
		return 0, limitError(CodeTurnLimit, "The run reached its limit on model turns.")
	case left <= 0:
		return 0, limitError(CodeTokenLimit, "The run reached its token limit.")
	case r.limits.MaxCostMicros > 0 && used.CostMicros >= r.limits.MaxCostMicros:
		return 0, limitError(CodeCostLimit, "The run reached its cost limit.")
	default:
		return left, nil
	}
}

// beginTurn prepares the output of a model call. If the run has no sources, numbers in brackets are
// ordinary text and no filter is needed. The same applies to an answer with a schema, whose
// citations are separate from its text.
func (r *run) beginTurn() {
	r.streamed = false
	if r.cites() && r.in.Contract == nil {
		r.filter = newFilter(r.citationCheck(), r.show)
	}
}

// endTurn converts a model's answer to a step. The step contains the filtered text. The arguments
// of each tool call are a JSON object or nil.
func (r *run) endTurn(res llm.Response) *TurnStep {
	t := &TurnStep{
		Model: res.Model, Text: res.Text, ToolCalls: res.ToolCalls, Usage: res.Usage, Thinking: res.Thinking,
		BrokeOff: len(res.ToolCalls) > 0 && res.StopReason == llm.StopLength,
	}
	if r.in.Price != nil {
		t.CostMicros = max(r.in.Price(res.Model, res.Usage), 0)
	}
	for i, c := range t.ToolCalls {
		if c.Arguments != nil { // some adapters return arguments that are not a JSON object
			t.ToolCalls[i] = llm.NewToolCall(c.ID, c.Name, string(c.Arguments))
		}
	}

	if r.filter == nil {
		return t
	}

	t.Text = r.filter.finish()

	// The offsets of citations count from the beginning of the whole message. The offsets therefore
	// include the gap, which is the empty line between the texts of two turns.
	offset := utf8.RuneCountInString(r.out.Text)
	if offset > 0 {
		offset += utf8.RuneCountInString(gap)
	}
	t.Citations, t.CitationsRemoved = r.passages.citations(t.Text, r.filter.marks, offset), r.filter.removed
	return t
}

// request returns the request for the next model call. left is the number of tokens that the run
// may still use.
func (r *run) request(left int64) llm.Request {
	// The lower of two limits applies: the run's limit for answers, or the setting MaxOutputTokens.
	// If the run has few tokens left, their number limits the answer, too.
	maxTokens := r.limits.MaxAnswerTokens
	if asked := r.in.Settings.MaxOutputTokens; asked != nil && (maxTokens == 0 || *asked < maxTokens) {
		maxTokens = *asked
	}
	if left < smallestReply && (maxTokens == 0 || left < maxTokens) {
		maxTokens = left
	}
	var output json.RawMessage
	if r.in.Contract != nil {
		output = r.in.Contract.requestSchema(r.cites())
	}
	choice := ""
	if r.in.Client != nil && r.out.Turns == 0 {
		choice = r.in.Client.Choice
	}
	return llm.Request{
		Organization: r.in.Organization,
		Output:       output, Settings: r.in.Settings, ToolChoice: choice, Correction: r.repaired && len(r.messages) == r.rejected+2,
		System: r.system, Messages: r.messages, Tools: r.tools, MaxTokens: maxTokens,
		SessionStart: len(r.in.History) == 0 && r.in.OmittedTurns == 0,
	}
}

// shortenHistory drops the older half of the history if the prompt was too long for the model,
// which happens if the context size is configured wrongly. It returns false if err has another
// cause, if text was already emitted, or if no history is left.
func (r *run) shortenHistory(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.KindContextLength || r.streamed || len(r.history) == 0 {
		return false
	}

	// Dropping half of the history each time limits the number of rejected calls.
	dropped := (len(r.history) + 1) / 2
	messages := 0
	for _, t := range r.history[:dropped] {
		messages += len(t.Messages)
	}

	r.history = r.history[dropped:]
	r.messages = r.messages[messages:]
	r.own -= messages
	r.rejected -= messages
	r.out.OmittedTurns += dropped
	r.setSystem()
	return true
}

// classify is like Classify. If the prompt was too long, the error also states the sizes of the
// prompt and of the model's context.
func (r *run) classify(err error) *Error {
	classified := Classify(err)
	if classified.Code != CodeContextTooLong {
		return classified
	}

	bytes := len(r.system)
	for _, m := range r.messages {
		bytes += m.Size()
	}
	for _, s := range r.tools {
		bytes += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	model := r.in.Model.Info()
	classified.Message = fmt.Sprintf("The prompt has %d bytes (about %d tokens), but the context of the model %s has only %d tokens.",
		bytes, llm.EstimateTokens(bytes), model.Name, model.ContextTokens)

	// The size of the prompt is an estimate, and the size of the context may be configured wrongly.
	if llm.EstimateTokens(bytes) <= model.ContextTokens {
		classified.Message = fmt.Sprintf("The provider rejected a prompt of %d bytes (about %d tokens) as too long for the model %s, "+
			"whose context is set to %d tokens.", bytes, llm.EstimateTokens(bytes), model.Name, model.ContextTokens)
	}
	return classified
}

// retryDelay returns the delay before a retry, or false if the call must not be retried. It allows
// a retry only after a transient failure, and only if the turn has emitted no text. After a timeout
// the caller has already waited long, so there is no retry. If the provider demands a delay above
// maxRetryDelay, the run is requeued, because it would occupy a slot while it waits.
func (r *run) retryDelay(err error) (time.Duration, bool) {
	var e *llm.Error
	if !errors.As(err, &e) || !e.Retryable || e.Kind == llm.KindTimeout {
		return 0, false
	}
	if r.streamed || r.retries >= maxRetries || e.RetryAfter > maxRetryDelay {
		return 0, false
	}

	// The delay varies between half and one and a half times its mean, so that runs do not retry at
	// the same time.
	middle := retryDelays[r.retries]
	delay := middle/2 + time.Duration(r.loop.jitter()*float64(middle))
	return min(max(delay, e.RetryAfter), maxRetryDelay), true
}
