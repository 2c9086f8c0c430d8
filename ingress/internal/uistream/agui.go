package uistream

import (
	"encoding/json"
	"strconv"

	"parley/shared/domain"
)

// agui is the Agent-User Interaction Protocol. Its clients keep the messages of a whole thread, by ids that must be unique in it:
// those of tool calls are so in their run only, so the run is in all of them.
type agui struct{ runID string } // without its prefix

// heard is an event of the protocol; which fields one has goes by its type.
type heard struct {
	Type         string  `json:"type"`
	ThreadID     string  `json:"threadId,omitempty"`
	RunID        string  `json:"runId,omitempty"`
	MessageID    string  `json:"messageId,omitempty"`
	Role         string  `json:"role,omitempty"`
	ToolCallID   string  `json:"toolCallId,omitempty"`
	ToolCallName string  `json:"toolCallName,omitempty"`
	Delta        string  `json:"delta,omitempty"`
	Content      *string `json:"content,omitempty"`
	Name         string  `json:"name,omitempty"`
	Value        any     `json:"value,omitempty"`
	Result       any     `json:"result,omitempty"`
	Outcome      any     `json:"outcome,omitempty"`
	Usage        any     `json:"usage,omitempty"`
	Message      string  `json:"message,omitempty"`
	Code         string  `json:"code,omitempty"`
}

func (agui) last() string { return "" }

func (d agui) chunks(piece any) []any {
	switch p := piece.(type) {
	case begun:
		return []any{
			heard{Type: "RUN_STARTED", ThreadID: p.threadID, RunID: p.theirRunID},
			heard{Type: "CUSTOM", Name: "run", Value: place{p.runID, p.sessionID}},
		}
	case textBegun:
		return []any{heard{Type: "TEXT_MESSAGE_START", MessageID: d.message(p.n), Role: "assistant"}}
	case textAdded:
		return []any{heard{Type: "TEXT_MESSAGE_CONTENT", MessageID: d.message(p.n), Delta: p.text}}
	case textEnded:
		return []any{heard{Type: "TEXT_MESSAGE_END", MessageID: d.message(p.n)}}
	case toolBegun:
		return d.asked(p)
	case toolEnded:
		output := string(p.call.Output)
		return []any{heard{Type: "TOOL_CALL_RESULT", MessageID: "msg_" + d.call(p.id), ToolCallID: d.call(p.id), Content: &output, Role: "tool"}}
	case cited:
		return []any{heard{Type: "CUSTOM", Name: "citation", Value: p.citation}}
	case awaited:
		return []any{heard{Type: "CUSTOM", Name: "required_action", Value: p.action}}
	case ended:
		return []any{finished(p)}
	case failed:
		return []any{heard{Type: "RUN_ERROR", Message: p.message, Code: p.code}}
	}
	return nil
}

func (d agui) message(n int) string { return "msg_" + d.runID + "_" + strconv.Itoa(n) }

func (d agui) call(callID string) string { return callID + "_" + d.runID }

func (d agui) asked(p toolBegun) []any {
	input := p.call.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return []any{
		heard{Type: "TOOL_CALL_START", ToolCallID: d.call(p.id), ToolCallName: p.call.Name},
		heard{Type: "TOOL_CALL_ARGS", ToolCallID: d.call(p.id), Delta: string(input)},
		heard{Type: "TOOL_CALL_END", ToolCallID: d.call(p.id)},
	}
}

// counted is what a model was given and gave, as the protocol counts it.
type counted struct {
	Model        string `json:"model"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
}

// outcome says how a run ended that did not fail.
type outcome struct {
	Type string `json:"type"`
}

func finished(p ended) heard {
	run := p.run
	end := heard{Type: "RUN_FINISHED", ThreadID: p.threadID, RunID: p.theirRunID}
	if run.Status == domain.RunCancelled {
		end.Outcome = outcome{"cancelled"}
		return end
	}
	end.Outcome = outcome{"success"}
	end.Result = struct {
		place
		Status    domain.RunStatus  `json:"status"`
		Message   *string           `json:"message"`
		Citations []domain.Citation `json:"citations"`
	}{place{run.ID, run.SessionID}, run.Status, run.Message, run.Citations}
	if u := run.Usage; u.Model != "" {
		end.Usage = []counted{{u.Model, u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}}
	}
	return end
}
