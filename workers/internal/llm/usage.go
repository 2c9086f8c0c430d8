package llm

import "errors"

const (
	// BudgetedAnswer is the maximum length of an answer in tokens if a budget limits tokens or
	// their cost.
	BudgetedAnswer = 8192
	// MessageOverhead is the maximum number of tokens that a message or tool has in addition to the
	// tokens of its text.
	MessageOverhead = 16
	// PromptOverhead is the maximum number of tokens that a prompt has in addition to the tokens of
	// its parts.
	PromptOverhead = 1024
)

// MaxUsage returns the maximum usage of a call. The answer of the call has at most BudgetedAnswer
// tokens, or req.MaxTokens if this is lower and not 0.
func MaxUsage(req *Request) Usage {
	answer := int64(BudgetedAnswer)
	if req.MaxTokens > 0 {
		answer = min(answer, req.MaxTokens)
	}
	return Usage{InputTokens: promptBound(req), OutputTokens: answer}
}

// promptBound returns an upper bound of the number of tokens in a prompt. It is based on the number
// of bytes, because a token has at least one byte.
func promptBound(req *Request) int64 {
	// The overheads cover the text that providers add to prompts, messages and tools.
	n := PromptOverhead + len(req.System)
	for _, t := range req.Tools {
		n += MessageOverhead + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	if len(req.Output) > 0 {
		n += MessageOverhead + len(req.Output)
	}
	for _, m := range req.Messages {
		n += MessageOverhead * (1 + len(m.ToolCalls))
		switch {
		case m.Result != nil:
			n += len(RenderToolResult(*m.Result))
		case m.Role == RoleUser:
			n += len(RenderUser(m))
		default:
			n += m.Size()
		}
	}
	return int64(n)
}

// ChargedUsage returns the usage that budgets are charged for a call. Normally, this is the usage
// that the provider reports. If the provider reports none, each byte of the answer is charged as
// one token, up to the answer's limit. For a failed call, the maximum usage is charged, unless the
// provider has certainly not processed the call.
func ChargedUsage(req *Request, res *Response, failed error) Usage {
	// If the usage is uncertain, charge too much rather than too little, because a budget must
	// never be exceeded.
	var e *Error
	used := res.Usage
	switch {
	case errors.As(failed, &e) && e.Unused:
		return Usage{}
	case failed != nil:
		return MaxUsage(req)
	case used.Estimated:
		written := Message{Text: res.Text, ToolCalls: res.ToolCalls, Thinking: res.Thinking}.Size() + MessageOverhead*(1+len(res.ToolCalls))
		maximum := MaxUsage(req)
		used.InputTokens = max(used.InputTokens, maximum.InputTokens)
		used.OutputTokens = max(used.OutputTokens, min(int64(written), maximum.OutputTokens))
	}
	return used
}
