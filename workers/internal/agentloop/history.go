package agentloop

import (
	"parley/workers/internal/llm"
)

// perMessage is what a message costs a model beside its text, in tokens.
const perMessage = 4

// Turn is one earlier exchange of a session: a caller's message, and everything up to the answer to it.
type Turn struct {
	Messages []llm.Message `json:"messages"`
}

// PlainTurn makes a turn of a message and its answer.
func PlainTurn(message, answer string) Turn {
	return Turn{Messages: []llm.Message{{Role: llm.RoleUser, Text: message}, {Role: llm.RoleAssistant, Text: answer}}}
}

// Whole reports whether a turn goes from a user message to an answer with every tool call in between
// answered. Models refuse prompts with half a tool exchange; runs that failed leave such turns behind.
func (t Turn) Whole() bool {
	n := len(t.Messages)
	if n < 2 || t.Messages[0].Role != llm.RoleUser {
		return false
	}
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
	return len(open) == 0 && t.Messages[n-1].Role == llm.RoleAssistant
}

// Tokens estimates what the turn costs in a prompt.
func (t Turn) Tokens() int {
	n := 0
	for _, m := range t.Messages {
		n += perMessage + llm.EstimateTokens(m.Size())
	}
	return n
}

// Fit gives the newest whole turns that together stay within a budget of estimated tokens, oldest
// first, and how many older ones it left out. Turns that are not whole are dropped and not counted.
// history is not changed; what is kept may share its memory.
func Fit(history []Turn, budget int) (kept []Turn, omitted int) {
	whole := make([]Turn, 0, len(history))
	for _, t := range history {
		if t.Whole() {
			whole = append(whole, t)
		}
	}
	from := len(whole)
	for from > 0 {
		if budget -= whole[from-1].Tokens(); budget < 0 {
			break
		}
		from--
	}
	return whole[from:], from
}

// HistoryBudget gives the estimated tokens that a run's model leaves for history: its context without
// instructions, message, data and tools, and without a quarter kept for tool results and the answer.
func HistoryBudget(in Input) int {
	size := in.Model.Info().ContextTokens
	used := len(in.System) + len(in.Message) + len(in.Data) + len(outsideRule) + len(citeRule)
	for _, s := range in.Tools.Specs() {
		used += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	return max(size-size/4-llm.EstimateTokens(used)-2*perMessage, 0)
}
