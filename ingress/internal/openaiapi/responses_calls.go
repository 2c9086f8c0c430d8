package openaiapi

import (
	"encoding/json"

	"parley/shared/domain"
)

// tool takes what is told of a call of a tool: that it was begun, or what came of it.
func (s *ResponseStream) tool(data []byte) error {
	var said struct {
		ToolCall domain.ToolCall `json:"toolCall"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return err
	}
	s.call(said.ToolCall)
	return nil
}

// call tells of a call what was not told: attempts that take a run over tell anew of the calls before theirs.
func (s *ResponseStream) call(call domain.ToolCall) {
	s.begin()
	item := newToolItem(call, s.runID, s.response.Parley.SessionID)
	at := s.place(item.head().ID)
	if at < 0 {
		at = len(s.items)
		s.open(call)
	}
	if status := item.head().Status; status == itemInProgress || s.items[at].done {
		return
	} else if status == itemCompleted {
		s.tell("response."+item.head().Type+".completed", progressEvent{item.head().ID, at})
	} else if item.head().Type == typeMCP { // the one kind that has a word for it
		s.tell("response.mcp_call.failed", progressEvent{item.head().ID, at})
	}
	s.close(at, item)
}

func (s *ResponseStream) place(itemID string) int {
	for i, told := range s.items {
		if told.item.head().ID == itemID {
			return i
		}
	}
	return -1
}

// open tells that a call was begun. What the protocol tells in pieces, the item does not have at first.
func (s *ResponseStream) open(call domain.ToolCall) {
	call.Status, call.Output = "running", nil
	item := newToolItem(call, s.runID, s.response.Parley.SessionID)
	at := progressEvent{item.head().ID, len(s.items)}
	switch begun := item.(type) {
	case codeItem:
		code := begun.Code
		begun.Code = ""
		s.add(begun)
		s.tell("response.code_interpreter_call.in_progress", at)
		s.tell("response.code_interpreter_call_code.delta", inputDeltaEvent{at, code})
		s.tell("response.code_interpreter_call_code.done", codeEvent{at, code})
		s.tell("response.code_interpreter_call.interpreting", at)
	case mcpItem:
		arguments := begun.Arguments
		begun.Arguments = ""
		s.add(begun)
		s.tell("response.mcp_call.in_progress", at)
		s.tell("response.mcp_call_arguments.delta", inputDeltaEvent{at, arguments})
		s.tell("response.mcp_call_arguments.done", argumentsEvent{at, arguments})
	default:
		s.add(item)
		s.tell("response."+item.head().Type+".in_progress", at)
		s.tell("response."+item.head().Type+".searching", at)
	}
	s.items[at.OutputIndex].item = item
}

// abandoned is a call that nothing came of. Of searches of the web the protocol cannot say that they are incomplete.
func abandoned(item Item) Item {
	switch item := item.(type) {
	case webSearchItem:
		item.Status = itemFailed
		return item
	case fileSearchItem:
		item.Status = itemIncomplete
		return item
	case codeItem:
		item.Status = itemIncomplete
		return item
	case mcpItem:
		item.Status = itemIncomplete
		return item
	default:
		return item
	}
}
