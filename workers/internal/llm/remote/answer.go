package remote

import (
	"errors"

	"parley/workers/internal/llm"
)

// MaxToolCalls bounds the calls of one answer; no model asks for nearly as many.
const MaxToolCalls = 128

// ErrTooManyCalls says that an answer asks for more than MaxToolCalls.
func ErrTooManyCalls() *llm.Error {
	return llm.NewError(llm.KindBadResponse, errors.New("too many tool calls in one answer"))
}

// ErrCutCall says that the output limit was reached inside a tool call: it must not be carried out.
func ErrCutCall() *llm.Error {
	e := llm.NewError(llm.KindTruncated, errors.New("output limit inside a tool call"))
	e.Retryable = false // the same limit would cut it again
	e.Message = "The model reached its output limit in the middle of a tool call."
	return e
}

// EstimateUsage stands in for the usage of servers that report none, so that caps on tokens still hold.
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
