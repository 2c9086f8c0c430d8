package anthropic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

// accumulator assembles an answer from the events of a stream. It belongs to one call. The SDK's
// accumulator is not usable for two reasons. It replaces invalid arguments with an empty object, so
// the tool would be executed with wrong arguments. It does not distinguish finished blocks from
// truncated blocks.
type accumulator struct {
	// text is the text of the answer so far, and blocks contains all blocks in order.
	text   strings.Builder
	blocks []*block
	// calls is the number of tool calls, including calls of answerTool.
	calls int
	// stop is the stop reason, or "" until it arrives.
	stop sdk.StopReason
	// input and output are the token counts that the provider has sent.
	input  tokens
	output tokens
}

// tokens is a token count. known reports whether the provider has sent it.
type tokens struct {
	n     int64
	known bool
}

// block is a content block of an answer that is still arriving. Only the fields of its kind are
// set.
type block struct {
	index    int64
	kind     string
	ended    bool // the whole block has arrived
	id, name string
	whole    string // arguments in the event that started the block
	args     strings.Builder
	thoughts strings.Builder
	sealed   thinkingBlock // the signature of a thought, or redacted data
}

// These are the kinds of blocks that are processed. Blocks of other kinds belong to tools that the
// provider itself executes, which Parley never enables.
const (
	kindText     = "text"
	kindThinking = "thinking"
	kindRedacted = "redacted_thinking"
	kindToolUse  = "tool_use"
)

// add processes one event and emits the text that it contains. It ignores events of unknown types,
// such as pings. It fails if the events contradict each other or if there are too many tool calls.
func (a *accumulator) add(event sdk.MessageStreamEventUnion, emit func(llm.Delta)) error {
	switch event.Type {
	case "message_start":
		a.addUsage(event.Message.JSON.Usage.Valid(), event.Message.Usage)
	case "content_block_start":
		return a.start(event, emit)
	case "content_block_delta":
		b := a.block(event.Index)
		if b == nil || b.ended {
			return llm.NewError(llm.KindBadResponse, fmt.Errorf("delta for block %d, which is not open", event.Index))
		}
		a.delta(b, event.Delta, emit)
	case "content_block_stop":
		if b := a.block(event.Index); b != nil {
			b.ended = true
		}
	case "message_delta":
		if event.Delta.StopReason != "" {
			a.stop = event.Delta.StopReason
		}
		a.addDeltaUsage(event.Usage)
	}
	return nil
}

// addUsage sets the number of input tokens. The number includes the tokens that were read from the
// cache and those that were written to it.
func (a *accumulator) addUsage(known bool, u sdk.Usage) {
	if known && u.JSON.InputTokens.Valid() {
		a.input = tokens{max(u.InputTokens, 0) + max(u.CacheCreationInputTokens, 0) + max(u.CacheReadInputTokens, 0), true}
	}
}

// addDeltaUsage sets the number of output tokens so far. If the event also contains the number of
// input tokens, addDeltaUsage sets it, too.
func (a *accumulator) addDeltaUsage(u sdk.MessageDeltaUsage) {
	if u.JSON.OutputTokens.Valid() {
		a.output = tokens{max(u.OutputTokens, 0), true}
	}
	sum := max(u.InputTokens, 0) + max(u.CacheCreationInputTokens, 0) + max(u.CacheReadInputTokens, 0)
	if u.JSON.InputTokens.Valid() && sum > a.input.n {
		a.input = tokens{sum, true}
	}
}

// start begins a block. It fails if the block has begun before.
func (a *accumulator) start(event sdk.MessageStreamEventUnion, emit func(llm.Delta)) error {
	content := event.ContentBlock
	if a.block(event.Index) != nil {
		return llm.NewError(llm.KindBadResponse, fmt.Errorf("block %d starts twice", event.Index))
	}

	// Store blocks of unknown kinds as well, so that their later events find a block.
	b := &block{index: event.Index, kind: content.Type}
	a.blocks = append(a.blocks, b)
	switch content.Type {
	case kindText:
		a.addText(content.Text, emit)
	case kindThinking:
		b.thoughts.WriteString(content.Thinking)
		b.sealed.Signature = content.Signature
	case kindRedacted:
		b.sealed.Redacted = content.Data
	case kindToolUse:
		if a.calls++; a.calls > remote.MaxToolCalls {
			return remote.ErrTooManyCalls()
		}
		b.id, b.name = content.ID, content.Name
		if raw := content.JSON.Input.Raw(); raw != "{}" {
			b.whole = raw
		}
	}
	return nil
}

// delta appends a piece of content to a block. It ignores pieces of unknown types.
func (a *accumulator) delta(b *block, d sdk.MessageStreamEventUnionDelta, emit func(llm.Delta)) {
	switch d.Type {
	case "text_delta":
		a.addText(d.Text, emit)
	case "input_json_delta":
		b.args.WriteString(d.PartialJSON)
	case "thinking_delta":
		b.thoughts.WriteString(d.Thinking)
	case "signature_delta":
		b.sealed.Signature += d.Signature
	}
}

// addText appends a piece of text and emits it. It ignores pieces that are empty after CleanText.
func (a *accumulator) addText(text string, emit func(llm.Delta)) {
	if text = llm.CleanText(text); text != "" {
		a.text.WriteString(text)
		emit(llm.Delta{Text: text})
	}
}

// block returns the block with the given index, or nil. It searches from the end, because a block
// that is still open is one of the last.
func (a *accumulator) block(index int64) *block {
	for _, b := range slices.Backward(a.blocks) {
		if b.index == index {
			return b
		}
	}
	return nil
}

// response returns the complete answer. It must be called only after a stop reason has arrived.
// model is the name of the model in the answer. Usage that the provider has not sent is estimated
// from req.
//
// If the request has a schema for the answer, the text is the arguments of answerTool. response
// returns an error if a tool call may be incomplete.
func (a *accumulator) response(model string, req llm.Request) (llm.Response, error) {
	r := llm.Response{Text: a.text.String(), Model: model}
	var err error
	answers := a.answers(req)
	if r.StopReason, err = a.stopReason(answers); err != nil {
		return llm.Response{}, err
	}
	cut := r.StopReason == llm.StopLength && answers

	// Every call must be complete, because an incomplete call must not be executed.
	var thoughts []thinkingBlock
	for _, b := range a.blocks {
		switch {
		case b.kind == kindToolUse && cut:
			r.Text = llm.CleanText(b.arguments()) // the beginning of the answer, which is text and is never executed as a call
		case b.kind == kindToolUse && !b.ended:
			return llm.Response{}, llm.NewError(llm.KindTruncated, errors.New("a tool call is incomplete"))
		case b.kind == kindToolUse && b.name == "":
			return llm.Response{}, llm.NewError(llm.KindBadResponse, errors.New("a tool call has no name"))
		case b.kind == kindToolUse:
			r.ToolCalls = append(r.ToolCalls, llm.NewToolCall(llm.CleanText(b.id), llm.CleanText(b.name), b.arguments()))
		case b.kind == kindThinking || b.kind == kindRedacted:
			b.sealed.Thinking = b.thoughts.String()
			thoughts = append(thoughts, b.sealed)
		}
	}

	if len(req.Output) > 0 {
		useAnswer(&r)
	}
	r.Thinking = writeThinking(model, thoughts)
	r.Usage = a.usage(req, &r)
	return r, nil
}

// arguments returns the arguments as the model wrote them. If pieces have arrived after the event
// that started the block, arguments ignores the arguments in that event.
func (b *block) arguments() string {
	if b.args.Len() > 0 {
		return b.args.String()
	}
	return b.whole
}

// answers reports whether the model has called answerTool for the request's schema, and no other
// tool.
func (a *accumulator) answers(req llm.Request) bool {
	return a.calls > 0 && len(req.Output) > 0 &&
		!slices.ContainsFunc(a.blocks, func(b *block) bool { return b.kind == kindToolUse && b.name != answerTool })
}

// stopReason returns the stop reason, or an error if the message is not an answer. The argument
// answers is the result of the method answers.
func (a *accumulator) stopReason(answers bool) (llm.StopReason, error) {
	switch a.stop {
	case sdk.StopReasonRefusal:
		if a.text.Len() == 0 || a.calls > 0 { // the answer contains no text, or the provider stopped it within a tool call
			return "", llm.NewError(llm.KindFiltered, nil)
		}
		return llm.StopFiltered, nil
	case sdk.StopReasonPauseTurn: // the model waits for a tool that the provider executes, although no such tool is enabled
		return "", llm.NewError(llm.KindTruncated, errors.New("the turn was paused"))
	case sdk.StopReasonModelContextWindowExceeded:
		if a.text.Len() == 0 && !answers {
			return "", llm.NewError(llm.KindContextLength, nil)
		}
		return a.cut(answers)
	case sdk.StopReasonMaxTokens:
		return a.cut(answers)
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence, sdk.StopReasonToolUse:
	default: // the reason is unknown, so a call may be incomplete
		if a.calls > 0 {
			return "", llm.NewError(llm.KindBadResponse, errors.New("a tool call ended with an unknown stop reason"))
		}
	}

	if a.calls > 0 {
		return llm.StopToolCalls, nil
	}
	return llm.StopEnd, nil
}

// cut returns the stop reason for an answer that reached the output limit. If the answer contains
// calls of tools other than answerTool, it returns an error, because these calls may be incomplete.
func (a *accumulator) cut(answers bool) (llm.StopReason, error) {
	if a.calls > 0 && !answers {
		return "", remote.ErrCutCall()
	}
	return llm.StopLength, nil
}

// usage returns the token counts that the provider sent. It estimates the counts that are missing.
func (a *accumulator) usage(req llm.Request, r *llm.Response) llm.Usage {
	u := llm.Usage{InputTokens: a.input.n, OutputTokens: a.output.n}
	if a.input.known && a.output.known {
		return u
	}

	// If a server sends no counts, the limits on tokens apply to estimates.
	estimate := remote.EstimateUsage(req, r)
	if !a.input.known {
		u.InputTokens = estimate.InputTokens
	}
	if !a.output.known {
		u.OutputTokens = estimate.OutputTokens
	}

	u.Estimated = true
	return u
}
