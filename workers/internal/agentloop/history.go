package agentloop

import (
	"parley/workers/internal/llm"
)

// tokensPerMessage is the estimated overhead of a message in a prompt, in tokens.
const tokensPerMessage = 4

// Turn is one exchange of a session: a user message, the tool exchanges, and the answer. It is
// stored with the run, so field names must not change.
type Turn struct {
	Messages []llm.Message `json:"messages"`
}

// PlainTurn returns a turn that consists of a message and its answer, without tool calls.
func PlainTurn(message, answer string) Turn {
	return Turn{Messages: []llm.Message{{Role: llm.RoleUser, Text: message}, {Role: llm.RoleAssistant, Text: answer}}}
}

// Whole reports whether a turn is complete. A complete turn begins with a user message, has a
// result for every tool call, and ends with an answer or a tool result. Failed runs can leave
// incomplete turns, and models reject prompts with an incomplete tool exchange.
func (t Turn) Whole() bool {
	n := len(t.Messages)
	if n < 2 || t.Messages[0].Role != llm.RoleUser {
		return false
	}

	// The results of calls must follow their turn immediately, in the order of the calls.
	var open []llm.ToolCall
	for _, m := range t.Messages[1:] {
		switch {
		case m.Role == llm.RoleAssistant && len(open) == 0:
			open = m.ToolCalls
		case m.Role == llm.RoleTool && m.Result != nil && len(open) > 0 && open[0].ID == m.Result.CallID:
			open = open[1:]
		default:
			return false
		}
	}
	return len(open) == 0
}

// Tokens estimates the number of tokens of the turn in a prompt.
func (t Turn) Tokens() int {
	n := 0
	for _, m := range t.Messages {
		n += tokensPerMessage + llm.EstimateTokens(m.Size())
	}
	return n
}

// Fit returns the newest complete turns that fit into a budget of estimated tokens, oldest first,
// and the number of older turns that it omitted. Incomplete turns are dropped and not counted. The
// result may share memory with history. Fit does not change history.
func Fit(history []Turn, budget int) (kept []Turn, omitted int) {
	whole := make([]Turn, 0, len(history))
	for _, t := range history {
		if t.Whole() {
			whole = append(whole, t)
		}
	}

	// Stop at the first turn that does not fit, because a gap in the history would confuse the
	// model.
	from := len(whole)
	for from > 0 {
		if budget -= whole[from-1].Tokens(); budget < 0 {
			break
		}
		from--
	}
	return whole[from:], from
}

// HistoryBudget returns the number of estimated tokens that remain for the history in the model's
// context, after instructions, message, data and tools. A quarter of the context is reserved for
// tool results and the answer.
func HistoryBudget(in Input) int {
	// Count the text of all optional instructions, even of those that the run does not need. The
	// estimate may be too high, but must not be too low.
	size := in.Model.Info().ContextTokens
	used := len(in.System) + len(in.Message) + len(in.Data) + len(untrustedRule) + len(citeRule)
	if in.Contract != nil {
		used += len(in.Contract.Raw) + len(contractRule) + len(envelopeRule)
	}
	for _, s := range in.Tools.Specs() {
		used += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	for _, s := range in.Client.specs() {
		used += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	for _, m := range in.Rounds {
		used += m.Size()
	}
	message := llm.Message{Attachments: in.Attachments}
	used += message.Size()
	return max(size-size/4-llm.EstimateTokens(used)-2*tokensPerMessage, 0)
}
