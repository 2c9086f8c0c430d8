package openai

import (
	"errors"
	"strings"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

// accumulator assembles an answer from the chunks of a stream. It belongs to one call. openai-go's
// accumulator is not usable for three reasons. It rejects streams whose chunks have different ids.
// It returns unfinished calls. It merges parallel calls if a server gives all of them the index 0.
type accumulator struct {
	text  strings.Builder
	calls []partialCall
	// finish is the finish_reason, or "" until it arrives.
	finish   string
	usage    llm.Usage
	reported bool // the provider has sent the token counts
}

// partialCall is a tool call that may still be incomplete. args contains the arguments so far,
// which need not be valid JSON.
type partialCall struct {
	index    int64
	id, name string
	args     strings.Builder
}

// add processes one chunk and emits the text that it contains. The request asks for a single
// choice, so add ignores all choices except the first. It fails if the answer has more than
// remote.MaxToolCalls calls.
func (a *accumulator) add(c *chunk, emit func(llm.Delta)) error {
	if in, out := c.Usage.PromptTokens, c.Usage.CompletionTokens; in != nil && out != nil {
		a.reported = true
		a.usage.InputTokens, a.usage.OutputTokens = max(*in, 0), max(*out, 0)
	}

	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		a.addText(choice.Delta.Content, emit)
		a.addText(choice.Delta.Refusal, emit) // a refusal is also an answer in the model's own words
		for j := range choice.Delta.ToolCalls {
			if err := a.addCall(&choice.Delta.ToolCalls[j]); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	return nil
}

// addText appends a piece of text and emits it. It ignores pieces that are empty after CleanText.
func (a *accumulator) addText(text string, emit func(llm.Delta)) {
	if text = llm.CleanText(text); text != "" {
		a.text.WriteString(text)
		emit(llm.Delta{Text: text})
	}
}

// addCall processes a piece of a tool call. The first piece of a call contains its id and name, and
// each piece contains a part of the arguments.
func (a *accumulator) addCall(d *callPiece) error {
	call := a.call(d.Index, d.ID)
	if call == nil {
		if len(a.calls) >= remote.MaxToolCalls {
			return remote.ErrTooManyCalls()
		}
		a.calls = append(a.calls, partialCall{index: d.Index})
		call = &a.calls[len(a.calls)-1]
	}

	if call.id == "" {
		call.id = d.ID
	}
	if call.name != d.Function.Name { // some servers repeat the whole name in every chunk
		call.name += d.Function.Name
	}

	call.args.WriteString(d.Function.Arguments)
	return nil
}

// call returns the call to which a piece belongs, which is the last call with the given index. It
// returns nil if there is no such call or if its id is different. The piece then begins a new call.
func (a *accumulator) call(index int64, id string) *partialCall {
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := &a.calls[i]
		if c.index != index {
			continue
		}
		if id == "" || c.id == "" || c.id == id {
			return c
		}
		return nil
	}
	return nil
}

// response returns the complete answer. It must be called only after a finish_reason has arrived.
// model is the name of the model in the answer. Usage that the provider has not sent is estimated
// from req.
//
// response returns an error if the answer was filtered before any text, or if a tool call may be
// incomplete.
func (a *accumulator) response(model string, req llm.Request) (llm.Response, error) {
	r := llm.Response{Text: a.text.String(), Model: model, StopReason: llm.StopEnd}
	cut := a.finish == "length" || a.finish == "max_tokens" || a.finish == "model_length" // compatible servers send the last two values
	switch {
	case a.finish == "content_filter" && (r.Text == "" || len(a.calls) > 0): // the answer has no text, or a tool call may be incomplete
		return llm.Response{}, llm.NewError(llm.KindFiltered, nil)
	case a.finish == "content_filter":
		r.StopReason = llm.StopFiltered
	case cut && len(a.calls) > 0:
		return llm.Response{}, remote.ErrCutCall()
	case cut:
		r.StopReason = llm.StopLength
	case len(a.calls) > 0:
		r.StopReason = llm.StopToolCalls
	}

	// Parse the arguments only here, because an incomplete part of them is not valid JSON.
	for i := range a.calls {
		c := &a.calls[i]
		if c.name == "" {
			return llm.Response{}, llm.NewError(llm.KindBadResponse, errors.New("a tool call has no name"))
		}
		r.ToolCalls = append(r.ToolCalls, llm.NewToolCall(llm.CleanText(c.id), llm.CleanText(c.name), c.args.String()))
	}

	r.Usage = a.usage
	if !a.reported {
		r.Usage = remote.EstimateUsage(req, &r)
	}
	return r, nil
}
