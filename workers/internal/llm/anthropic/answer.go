package anthropic

import (
	"slices"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// answerTool is the name of the tool whose arguments are the model's answer if the answer must
// match a schema. The protocol has no JSON mode that can be combined with other tools.
const answerTool = domain.AnswerTool

// answerSpec returns the specification of answerTool. Its arguments have the schema of the
// requested answer.
func answerSpec(req llm.Request) llm.ToolSpec {
	return llm.ToolSpec{
		Name:        answerTool,
		Description: "Writes the final answer. Call this tool exactly once, alone, as soon as you know the answer, instead of writing text.",
		Schema:      req.Output,
	}
}

// useAnswer replaces the text of the answer with the arguments of a call to answerTool. If the
// model also requests other tools, useAnswer drops the call, because the model answers again after
// their results. It must be called only if the request has a schema for the answer.
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
