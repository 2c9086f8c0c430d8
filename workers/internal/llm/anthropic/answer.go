package anthropic

import (
	"slices"

	"parley/workers/internal/llm"
)

// answerTool is the tool with which a model writes an answer that must match a schema. The protocol
// has no JSON mode that permits other tools.
const answerTool = "write_final_answer"

// answerSpec describes answerTool for the schema of a request.
func answerSpec(req llm.Request) llm.ToolSpec {
	return llm.ToolSpec{
		Name:        answerTool,
		Description: "Writes the final answer. Call this tool exactly once, alone, as soon as you know the answer, instead of writing text.",
		Schema:      req.Output,
	}
}

// useAnswer makes the arguments of a call to answerTool the text of the answer. If the model also
// requests other tools, it answers again after their results, so the call is dropped.
func useAnswer(r *llm.Response) {
	at := slices.IndexFunc(r.ToolCalls, func(c llm.ToolCall) bool { return c.Name == answerTool })
	if at < 0 {
		return
	}
	answer := r.ToolCalls[at]
	r.ToolCalls = slices.DeleteFunc(r.ToolCalls, func(c llm.ToolCall) bool { return c.Name == answerTool })
	if len(r.ToolCalls) > 0 {
		return
	}
	if r.Text, r.StopReason = string(answer.Arguments), llm.StopEnd; answer.Arguments == nil {
		r.Text = answer.Malformed
	}
	r.ToolCalls = nil
}
