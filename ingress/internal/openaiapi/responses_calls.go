package openaiapi

import (
	"encoding/json"

	"parley/shared/domain"
)

// tool handles an event that reports the start or the result of a tool call. It returns an error if
// the data is not valid JSON.
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

// call writes the events of a tool call, except those that were sent before. An attempt that
// continues a run after a failure repeats the earlier calls. The start of the call is written first
// if it is missing, so that a lost event leaves no call without a start.
func (s *ResponseStream) call(call domain.ToolCall) {
	s.begin()
	item := newToolItem(call, s.runID, s.response.Parley.SessionID)
	if function, ok := item.(functionItem); ok {
		s.function(function)
		return
	}
	at := s.indexFor(item.head().ID)
	if at < 0 {
		at = len(s.items)
		s.open(call)
	}
	// Send nothing if the call is still running, or if an earlier attempt has already reported its
	// result.
	if status := item.head().Status; status == itemInProgress || s.items[at].done {
		return
	} else if status == itemCompleted {
		s.write("response."+item.head().Type+".completed", progressEvent{item.head().ID, at})
	} else if item.head().Type == typeMCP { // only MCP calls have an event for a failed call
		s.write("response.mcp_call.failed", progressEvent{item.head().ID, at})
	}
	s.close(at, item)
}

// function writes the events of a call that the client must make, unless they were sent before. The
// arguments are sent as one piece, because they are complete. The item is completed at once: the
// client makes the call after the response has ended.
func (s *ResponseStream) function(item functionItem) {
	if s.indexFor(item.ID) >= 0 {
		return
	}
	at := progressEvent{item.ID, len(s.items)}
	begun := item
	begun.Arguments, begun.Status = "", itemInProgress
	s.add(begun)
	s.write("response.function_call_arguments.delta", inputDeltaEvent{at, item.Arguments})
	s.write("response.function_call_arguments.done", functionDoneEvent{argumentsEvent{at, item.Arguments}, item.Name})
	item.Status = itemCompleted
	s.close(at.OutputIndex, item)
}

// indexFor returns the index of the item with this id among the items that were sent, or -1 if it was
// not sent. A response has few items, so a search is fast enough.
func (s *ResponseStream) indexFor(itemID string) int {
	for i, sent := range s.items {
		if sent.item.head().ID == itemID {
			return i
		}
	}
	return -1
}

// open writes the start of a tool call. The item that it writes lacks the parts that later events
// add. The item that it stores in s.items is complete, so that the final output has the code and
// the arguments.
func (s *ResponseStream) open(call domain.ToolCall) {
	call.Status, call.Output = "running", nil
	item := newToolItem(call, s.runID, s.response.Parley.SessionID)
	at := progressEvent{item.head().ID, len(s.items)}
	switch begun := item.(type) {
	case codeItem:
		// The protocol sends code in pieces. The code is already complete here, so it is sent as
		// one piece.
		code := begun.Code
		begun.Code = ""
		s.add(begun)
		s.write("response.code_interpreter_call.in_progress", at)
		s.write("response.code_interpreter_call_code.delta", inputDeltaEvent{at, code})
		s.write("response.code_interpreter_call_code.done", codeEvent{at, code})
		s.write("response.code_interpreter_call.interpreting", at)
	case mcpItem:
		arguments := begun.Arguments
		begun.Arguments = ""
		s.add(begun)
		s.write("response.mcp_call.in_progress", at)
		s.write("response.mcp_call_arguments.delta", inputDeltaEvent{at, arguments})
		s.write("response.mcp_call_arguments.done", argumentsEvent{at, arguments})
	default:
		s.add(item)
		s.write("response."+item.head().Type+".in_progress", at)
		s.write("response."+item.head().Type+".searching", at)
	}
	s.items[at.OutputIndex].item = item
}

// abandoned returns the item of a call that never got a result. Its status is incomplete, except
// for web searches, which have no such status in the protocol. Items of the client's calls and the
// message are returned unchanged.
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
