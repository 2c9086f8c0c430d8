package uistream

import (
	"encoding/json"
	"strconv"

	"parley/shared/domain"
)

// agui encodes the Agent-User Interaction Protocol. Its clients store the messages of a thread by
// id, and these ids must be unique within the thread. Ids of tool calls are unique only within
// their run. Therefore all ids contain the run's id. The type has no state of the stream; the
// Encoder keeps that state.
type agui struct{ runID string } // id of the run without its prefix

// aguiEvent is an event of the protocol. The type determines which fields are set. Empty fields are
// omitted.
type aguiEvent struct {
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

// last returns "", because the protocol has no mark for the end of a stream. Clients recognize the
// end by the events RUN_FINISHED and RUN_ERROR.
func (agui) last() string { return "" }

// chunks encodes a piece of a stream as events of the protocol. Pieces without an event in the
// protocol are sent as CUSTOM events.
func (d agui) chunks(piece any) []any {
	switch p := piece.(type) {
	case runStarted:
		return []any{
			aguiEvent{Type: "RUN_STARTED", ThreadID: p.threadID, RunID: p.theirRunID},
			aguiEvent{Type: "CUSTOM", Name: "run", Value: messageMetadata{p.runID, p.sessionID}},
		}
	case textBegun:
		return []any{aguiEvent{Type: "TEXT_MESSAGE_START", MessageID: d.message(p.n), Role: "assistant"}}
	case textAdded:
		return []any{aguiEvent{Type: "TEXT_MESSAGE_CONTENT", MessageID: d.message(p.n), Delta: p.text}}
	case textEnded:
		return []any{aguiEvent{Type: "TEXT_MESSAGE_END", MessageID: d.message(p.n)}}
	case toolBegun:
		return d.asked(p)
	case toolEnded:
		output := string(p.call.Output)
		return []any{aguiEvent{
			Type: "TOOL_CALL_RESULT", MessageID: "msg_" + d.call(p.id), ToolCallID: d.call(p.id), Content: &output, Role: "tool",
		}}
	case cited:
		return []any{aguiEvent{Type: "CUSTOM", Name: "citation", Value: p.citation}}
	case outputAdded:
		return []any{aguiEvent{Type: "CUSTOM", Name: "output", Value: outputValue{p.runID, p.data}}}
	case awaited:
		return []any{aguiEvent{Type: "CUSTOM", Name: "required_action", Value: p.action}}
	case ended:
		return []any{finished(p)}
	case failed:
		return []any{aguiEvent{Type: "RUN_ERROR", Message: p.message, Code: p.code}}
	}
	return nil
}

// message returns the id of the message for the n-th text of the run. The texts of a run are
// numbered from 1.
func (d agui) message(n int) string { return "msg_" + d.runID + "_" + strconv.Itoa(n) }

// call returns the id of a tool call in the protocol. It is unique within the thread, because it
// contains the run.
func (d agui) call(callID string) string { return callID + "_" + d.runID }

// asked returns the events that contain the input of a tool call. The input is complete, so it is
// sent in a single piece.
func (d agui) asked(p toolBegun) []any {
	input := p.call.Input
	// The protocol requires JSON, so an empty input becomes an empty object.
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return []any{
		aguiEvent{Type: "TOOL_CALL_START", ToolCallID: d.call(p.id), ToolCallName: p.call.Name},
		aguiEvent{Type: "TOOL_CALL_ARGS", ToolCallID: d.call(p.id), Delta: string(input)},
		aguiEvent{Type: "TOOL_CALL_END", ToolCallID: d.call(p.id)},
	}
}

// tokenUsage is the token usage of a model in the form of the protocol. The total is the sum of the
// input and output tokens.
type tokenUsage struct {
	Model        string `json:"model"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
}

// outcome is the outcome of a run that did not fail. Type is success or cancelled.
type outcome struct {
	Type string `json:"type"`
}

// finished returns the event that ends a run. For a cancelled run, the event has neither result nor
// usage. For any other run, it contains the usage if the model is known.
func finished(p ended) aguiEvent {
	run := p.run
	end := aguiEvent{Type: "RUN_FINISHED", ThreadID: p.threadID, RunID: p.theirRunID}
	if run.Status == domain.RunCancelled {
		end.Outcome = outcome{"cancelled"}
		return end
	}
	end.Outcome = outcome{"success"}
	end.Result = struct {
		messageMetadata
		Status       domain.RunStatus     `json:"status"`
		FinishReason *domain.FinishReason `json:"finishReason"`
		Message      *string              `json:"message"`
		Data         json.RawMessage      `json:"data,omitempty"`
		Citations    []domain.Citation    `json:"citations"`
	}{messageMetadata{run.ID, run.SessionID}, run.Status, run.FinishReason, run.Message, run.Output.JSON(), run.Citations}
	if u := run.Usage; u.Model != "" {
		end.Usage = []tokenUsage{{u.Model, u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}}
	}
	return end
}
