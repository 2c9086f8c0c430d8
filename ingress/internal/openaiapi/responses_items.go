package openaiapi

import (
	"encoding/json"
	"strings"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
)

// Item is an entry of a response's output: either a tool call or the message. The concrete types
// are in this file. Values are immutable after they were created.
type Item interface{ head() itemHead }

// itemHead contains the fields that all items have. Type is one of the item types, and Status one
// of the item statuses.
type itemHead struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`
}

// head implements Item for all types that embed itemHead.
func (h itemHead) head() itemHead { return h }

// These constants are the statuses of items.
const (
	itemInProgress = "in_progress"
	itemCompleted  = "completed"
	itemIncomplete = "incomplete"
	itemFailed     = "failed"
)

// These constants are the types of items.
const (
	typeMessage    = "message"
	typeWebSearch  = "web_search_call"
	typeCode       = "code_interpreter_call"
	typeFileSearch = "file_search_call"
	typeMCP        = "mcp_call"
	typeReference  = "item_reference" // occurs only in requests
	typeCall       = "function_call"
	typeOutput     = "function_call_output" // occurs only in requests
)

// messageItem is the message of a response. Content has one part, except in the event that begins
// the message, in which Content is empty.
type messageItem struct {
	itemHead
	Role    string     `json:"role"` // always the text "assistant"
	Content []textPart `json:"content"`
}

// textPart is the only part of a message. Annotations and Logprobs are never nil; Logprobs is
// always empty.
type textPart struct {
	Type        string       `json:"type"` // always the text "output_text"
	Text        string       `json:"text"`
	Annotations []annotation `json:"annotations"`
	Logprobs    []struct{}   `json:"logprobs"`
}

// annotation is a citation. The citation of a web page contains the range of the text that the page
// supports. The citation of a document contains the position after the supported text. The citation
// of a file that a program created contains the range of the file's entry in the text. It also
// contains a URL, which is an addition to the protocol. Type determines which other fields are set.
// All positions count the code points of the text.
type annotation struct {
	Type        string  `json:"type"`
	ContainerID string  `json:"container_id,omitempty"`
	FileID      string  `json:"file_id,omitempty"`
	Filename    string  `json:"filename,omitempty"`
	Index       *int    `json:"index,omitempty"`
	StartIndex  *int    `json:"start_index,omitempty"`
	EndIndex    *int    `json:"end_index,omitempty"`
	URL         string  `json:"url,omitempty"`
	Title       *string `json:"title,omitempty"`
}

// webSearchItem is a web search. The sources are included even if the request does not ask for
// them.
type webSearchItem struct {
	itemHead
	Action searchAction `json:"action"`
}

// searchAction contains the query of a web search, and its results once the search has finished.
type searchAction struct {
	Type    string         `json:"type"` // always the text "search"
	Query   string         `json:"query"`
	Sources []searchSource `json:"sources,omitempty"` // results; empty until the search has finished
}

// searchSource is a page that a search found.
type searchSource struct {
	Type string `json:"type"` // always the text "url"
	URL  string `json:"url"`
}

// codeItem is a call of the code interpreter. A program that is still running has no outputs.
type codeItem struct {
	itemHead
	Code        string    `json:"code"`
	ContainerID string    `json:"container_id"` // id of the session, because all calls in a session share their files
	Outputs     []codeLog `json:"outputs"`      // output of the program; null while it runs
}

// codeLog is a part of a program's output.
type codeLog struct {
	Type string `json:"type"` // always the text "logs"
	Logs string `json:"logs"`
}

// fileSearchItem is a search in the agent's documents.
type fileSearchItem struct {
	itemHead
	Queries []string   `json:"queries"` // empty for a call that reads the beginnings of the documents
	Results []struct{} `json:"results"` // always null, because the annotations contain the results that the answer used
}

// mcpItem is a call of a tool for which the protocol has no other type of item. Calls of all tools
// except searches, the code interpreter and the client's tools have this type. At most one of
// Output and Error is set.
type mcpItem struct {
	itemHead
	ServerLabel       string  `json:"server_label"`
	Name              string  `json:"name"`
	Arguments         string  `json:"arguments"`
	Output            *string `json:"output"`
	Error             *string `json:"error"`
	ApprovalRequestID *string `json:"approval_request_id"`
}

// functionItem is a call that the client must make. The id of the item differs from the id of the
// call. The client's result for the call must contain CallID.
type functionItem struct {
	itemHead
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// serverLabel is the name used for all MCP servers and endpoints of an agent, because a run stores
// only the names of tools.
const serverLabel = "parley"

// items returns the output of a run: its tool calls, its message, if it has one, and the calls that
// the client must make. The model writes the message before it makes these calls, and clients send
// the items back in this order, followed by the results of the calls. The result is never nil. Calls
// of the same kind keep the order in which the model made them.
func items(run *domain.Run, view View) []Item {
	out := make([]Item, 0, len(run.ToolCalls)+1)
	var pending []Item
	for _, call := range run.ToolCalls {
		item := newToolItem(call, run.ID, run.SessionID)
		if call.Client && call.Status == domain.CallPending {
			pending = append(pending, item)
			continue
		}
		out = append(out, item)
	}

	if run.Message != nil && !callOnly(run) {
		out = append(out, answerItem(run, view.answer(run)))
	}
	return append(out, pending...)
}

// messageID returns the id of the message of a run. A run has at most one message, so the id is
// unique.
func messageID(runID string) string { return prefixMessage + "_" + id.Suffix(runID) }

// These constants are the prefixes of item ids. Each id also contains the suffix of its run's id.
const (
	prefixMessage    = "msg"
	prefixWebSearch  = "ws"
	prefixFileSearch = "fs"
	prefixCode       = "ci"
	prefixMCP        = "mcp"
	prefixFunction   = "fc"
	prefixCall       = "call" // prefix of the id of a client's call; its item has a different id
)

// functionID returns the item id for a client's call.
func functionID(callID string) string { return prefixFunction + strings.TrimPrefix(callID, prefixCall) }

// callOfFunction returns the id of the client's call for an item id. It returns false if the item
// id belongs to no client's call.
func callOfFunction(itemID string) (callID string, ok bool) {
	rest, ok := strings.CutPrefix(itemID, prefixFunction+"_")
	return prefixCall + "_" + rest, ok
}

// runOfItem returns the id of the run for an item id. The result message reports whether the item
// is the run's message. The result issued is false if no item can have this id. runOfItem checks
// only the form of the id; the run may not exist or may belong to another caller.
func runOfItem(itemID string) (runID string, message, issued bool) {
	prefix, rest, _ := strings.Cut(itemID, "_")

	// The id of a tool call's item ends with the call's own id.
	suffix, call, isCall := strings.Cut(rest, "_")
	runID = id.Run + "_" + suffix
	switch prefix {
	case prefixMessage:
		return runID, true, !isCall && id.Valid(id.Run, runID)
	case prefixWebSearch, prefixFileSearch, prefixCode, prefixMCP, prefixFunction:
		return runID, false, call != "" && id.Valid(id.Run, runID)
	}
	return "", false, false
}

// answerItem returns the message for a run's answer. Citations come first, then files. The status
// is incomplete if the model's answer ended early or the run was cancelled.
func answerItem(run *domain.Run, answer shownAnswer) messageItem {
	part := newTextPart()
	part.Text = answer.text
	part.Annotations = append(part.Annotations, Annotations(run.Citations)...)
	for _, f := range answer.files {
		part.Annotations = append(part.Annotations, annotation{
			Type: "container_file_citation", ContainerID: run.SessionID, FileID: f.ID, Filename: f.Name,
			StartIndex: &f.start, EndIndex: &f.end, URL: f.url,
		})
	}
	status := itemCompleted
	if run.Incomplete() || run.Status == domain.RunCancelled {
		status = itemIncomplete
	}
	return messageItem{itemHead{messageID(run.ID), typeMessage, status}, "assistant", []textPart{part}}
}

// newTextPart returns a text part with empty text. Its lists are not nil, because client libraries
// require them.
func newTextPart() textPart {
	return textPart{Type: "output_text", Annotations: []annotation{}, Logprobs: []struct{}{}}
}

// newAnnotation converts a citation to the protocol's citation type for documents or for web pages.
// ok is false if the citation has neither a document nor a URL, because clients reject such
// annotations.
func newAnnotation(c domain.Citation) (a annotation, ok bool) {
	if fileID := citedFile(c); fileID != "" {
		return annotation{Type: "file_citation", FileID: fileID, Filename: c.Title, Index: &c.EndIndex}, true
	}
	return annotation{Type: "url_citation", StartIndex: &c.StartIndex, EndIndex: &c.EndIndex, URL: c.URL, Title: &c.Title}, c.URL != ""
}

// citedFile returns the id of a cited document, or "" if the citation refers to a web page. A
// document that was attached to a message has the id of its stored text.
func citedFile(c domain.Citation) string {
	if c.DocumentID == nil && c.URL == "" {
		return deref(c.SourceID)
	}
	return deref(c.DocumentID)
}

// newToolItem renders a tool call. If the protocol has a type for this tool, the item has that
// type. Otherwise it has the type for tools of MCP servers. A call of the client's tool is a
// functionItem. A call with an unknown status counts as in progress. If the input or output of a
// search or program lacks a text, this text is empty in the item.
func newToolItem(call domain.ToolCall, runID, sessionID string) Item {
	if call.Client {
		status := callStatus(call.Status)
		if call.Status == domain.CallPending {
			status = itemCompleted
		}
		return functionItem{itemHead{functionID(call.ID), typeCall, status}, call.ID, call.Name, jsonText(call.Input)}
	}
	head := func(prefix, kind string) itemHead {
		// Clients store the items of many responses by id, but call ids are unique only within
		// their run.
		return itemHead{prefix + "_" + id.Suffix(runID) + "_" + call.ID, kind, callStatus(call.Status)}
	}
	switch call.Name {
	case contract.ToolWebSearch:
		return webSearchItem{head(prefixWebSearch, typeWebSearch), searchAction{"search", textFor(call.Input, "query"), foundBy(call.Output)}}
	case contract.ToolKnowledge:
		queries := []string{}
		if query := textFor(call.Input, "query"); query != "" {
			queries = append(queries, query)
		}
		return fileSearchItem{head(prefixFileSearch, typeFileSearch), queries, nil}
	case contract.ToolCodeExecution:
		item := codeItem{head(prefixCode, typeCode), textFor(call.Input, "code"), sessionID, nil}
		if item.Status != itemInProgress {
			// A call whose program fails is completed, and its logs contain the error. Some
			// clients, such as @openai/agents, cannot send back a call with the status failed.
			item.Status, item.Outputs = itemCompleted, logsFor(call.Output)
		}
		return item
	}
	item := mcpItem{itemHead: head(prefixMCP, typeMCP), ServerLabel: serverLabel, Name: call.Name, Arguments: jsonText(call.Input)}
	switch item.Status {
	case itemCompleted:
		item.Output = new(jsonText(call.Output))
	case itemFailed:
		item.Error = new(failureText(call.Output))
	}
	return item
}

// callStatus returns the protocol's status for a call. Any status other than completed and failed
// is in progress.
func callStatus(status string) string {
	switch status {
	case "completed":
		return itemCompleted
	case "failed":
		return itemFailed
	}
	return itemInProgress
}

// textFor returns a text member of an object that a model has written. It returns "" if the member
// is missing or has another type. A member with the value null also returns "".
func textFor(object json.RawMessage, name string) string {
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(members[name], &text) != nil {
		return ""
	}
	return text
}

// jsonText returns the JSON of a value, or "" for null.
func jsonText(raw json.RawMessage) string {
	if text := string(raw); text != "null" {
		return text
	}
	return ""
}

// failureText returns the reason why a call failed. Failed calls store an object with the member
// error; any other output is returned as JSON.
func failureText(output json.RawMessage) string {
	if text := textFor(output, "error"); text != "" {
		return text
	}
	return jsonText(output)
}

// foundBy returns the pages in the output of a search, or nil if the output does not come from a
// search. Results without a URL have an empty URL.
func foundBy(output json.RawMessage) []searchSource {
	var found struct {
		Results []struct {
			URL string `json:"url"`
		} `json:"results"`
	}
	if json.Unmarshal(output, &found) != nil {
		return nil
	}
	var sources []searchSource
	for _, r := range found.Results {
		sources = append(sources, searchSource{"url", r.URL})
	}
	return sources
}

// logsFor returns the output of a program: the text that it printed, then the value of its last
// line, then its error. Empty texts are omitted, so the result may be empty, but it is never nil.
func logsFor(output json.RawMessage) []codeLog {
	logs := []codeLog{}
	for _, name := range []string{"stdout", "stderr", "value", "error"} {
		if text := textFor(output, name); strings.TrimSpace(text) != "" {
			logs = append(logs, codeLog{"logs", text})
		}
	}
	return logs
}
