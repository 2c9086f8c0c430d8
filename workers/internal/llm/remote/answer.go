package remote

import (
	"errors"

	"parley/workers/internal/llm"
)

// MaxToolCalls is the maximum number of tool calls in one answer. Real models request far fewer.
const MaxToolCalls = 128

// ErrTooManyCalls returns the error for an answer with more than MaxToolCalls tool calls.
func ErrTooManyCalls() *llm.Error {
	return llm.NewError(llm.KindBadResponse, errors.New("too many tool calls in one answer"))
}

// ErrCutCall returns the error for a tool call that was truncated by the output limit. Such a call
// must not be executed.
func ErrCutCall() *llm.Error {
	e := llm.NewError(llm.KindTruncated, errors.New("the output limit was reached inside a tool call"))
	e.Retryable = false // another attempt would reach the same limit
	e.Message = "The model reached its output limit in the middle of a tool call."
	return e
}

// EstimateUsage estimates the token counts of a call. It is used if a server reports no counts, so
// that limits on tokens still apply.
func EstimateUsage(req llm.Request, r *llm.Response) llm.Usage {
	in := len(req.System)
	for _, m := range req.Messages {
		in += m.Size()
	}
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	out := llm.Message{Text: r.Text, ToolCalls: r.ToolCalls, Thinking: r.Thinking}.Size()
	return llm.Usage{
		InputTokens: int64(llm.EstimateTokens(in)), OutputTokens: int64(llm.EstimateTokens(out)), Estimated: true,
	}
}
