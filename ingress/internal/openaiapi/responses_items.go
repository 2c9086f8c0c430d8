package openaiapi

import (
	"encoding/json"
	"strings"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
)

// Item is an entry of a response's output: a tool call or the message.
type Item interface{ head() itemHead }

// itemHead contains the fields that all items have.
type itemHead struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`
}

// head implements Item for all types that embed itemHead.
func (h itemHead) head() itemHead { return h }

// States of items.
const (
	itemInProgress = "in_progress"
	itemCompleted  = "completed"
	itemIncomplete = "incomplete"
	itemFailed     = "failed"
)

// Types of items.
const (
	typeMessage    = "message"
	typeWebSearch  = "web_search_call"
	typeCode       = "code_interpreter_call"
	typeFileSearch = "file_search_call"
	typeMCP        = "mcp_call"
	typeReference  = "item_reference" // only in requests
	typeCall       = "function_call"
	typeOutput     = "function_call_output" // only in requests
)

// messageItem is the message of a response.
type messageItem struct {
	itemHead
	Role    string     `json:"role"` // assistant
	Content []textPart `json:"content"`
}

// textPart is the only part of a message.
type textPart struct {
	Type        string       `json:"type"` // output_text
	Text        string       `json:"text"`
	Annotations []annotation `json:"annotations"`
	Logprobs    []struct{}   `json:"logprobs"`
}

// annotation is a citation: of a web page, with the range of text that it supports; of a document,
// with the position after that text; or of a file that a program made, with its place in the text.
// The URL of such a file extends the protocol.
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

// webSearchItem is a web search.
type webSearchItem struct {
	itemHead
	Action searchAction `json:"action"`
}

// searchAction is the query of a web search, with its results.
type searchAction struct {
	Type    string         `json:"type"` // search
	Query   string         `json:"query"`
	Sources []searchSource `json:"sources,omitempty"` // the results, once there are any
}

// searchSource is a page that a search found.
type searchSource struct {
	Type string `json:"type"` // url
	URL  string `json:"url"`
}

// codeItem is a call that ran a program.
type codeItem struct {
	itemHead
	Code        string    `json:"code"`
	ContainerID string    `json:"container_id"` // the session's id, because the calls of a session share their files
	Outputs     []codeLog `json:"outputs"`      // null while the program runs
}

// codeLog is a part of a program's output.
type codeLog struct {
	Type string `json:"type"` // logs
	Logs string `json:"logs"`
}

// fileSearchItem is a search in the agent's documents.
type fileSearchItem struct {
	itemHead
	Queries []string   `json:"queries"`
	Results []struct{} `json:"results"` // null: the annotations contain the results that were used
}

// mcpItem is a call of any other tool.
type mcpItem struct {
	itemHead
	ServerLabel       string  `json:"server_label"`
	Name              string  `json:"name"`
	Arguments         string  `json:"arguments"`
	Output            *string `json:"output"`
	Error             *string `json:"error"`
	ApprovalRequestID *string `json:"approval_request_id"`
}

// functionItem is a call that the client must make.
type functionItem struct {
	itemHead
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// serverLabel is the name that stands for all servers and endpoints of an agent, because a run
// stores only the names of tools.
const serverLabel = "parley"

// items returns the output of a run: its tool calls in order, then its message, if any.
func items(run *domain.Run, view View) []Item {
	out := make([]Item, 0, len(run.ToolCalls)+1)
	for _, call := range run.ToolCalls {
		out = append(out, newToolItem(call, run.ID, run.SessionID))
	}
	if run.Message != nil && !callOnly(run) {
		out = append(out, answerItem(run, view.answer(run)))
	}
	return out
}

// messageID returns the id of a run's message.
func messageID(runID string) string { return prefixMessage + "_" + id.Suffix(runID) }

// Prefixes of the ids of items, which contain the suffix of their run's id.
const (
	prefixMessage    = "msg"
	prefixWebSearch  = "ws"
	prefixFileSearch = "fs"
	prefixCode       = "ci"
	prefixMCP        = "mcp"
	prefixFunction   = "fc"
	prefixCall       = "call" // of the ids of the client's calls themselves
)

// functionID returns the id of the item of a client's call.
func functionID(callID string) string { return prefixFunction + strings.TrimPrefix(callID, prefixCall) }

// callOfFunction returns the id of the call of an item, or false if the item is no call of the client.
func callOfFunction(itemID string) (callID string, ok bool) {
	rest, ok := strings.CutPrefix(itemID, prefixFunction+"_")
	return prefixCall + "_" + rest, ok
}

// runOfItem returns the run of an item, and whether the item is the run's message or a call. It
// returns false if no item has such an id.
func runOfItem(itemID string) (runID string, message, issued bool) {
	prefix, rest, _ := strings.Cut(itemID, "_")

	// The id of a call contains the call's id after that of the run.
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

// answerItem returns the message of a run that has an answer.
func answerItem(run *domain.Run, answer shownAnswer) messageItem {
	part := newTextPart()
	part.Text = answer.text
	for _, c := range run.Citations {
		part.Annotations = append(part.Annotations, newAnnotation(c))
	}
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

// newTextPart returns a part without text. Clients require the lists to be present.
func newTextPart() textPart {
	return textPart{Type: "output_text", Annotations: []annotation{}, Logprobs: []struct{}{}}
}

// newAnnotation converts a citation to the protocol's type for documents or web pages.
func newAnnotation(c domain.Citation) annotation {
	if c.DocumentID != nil {
		return annotation{Type: "file_citation", FileID: *c.DocumentID, Filename: c.Title, Index: &c.EndIndex}
	}
	return annotation{Type: "url_citation", StartIndex: &c.StartIndex, EndIndex: &c.EndIndex, URL: c.URL, Title: &c.Title}
}

// newToolItem returns a tool call in the form of the protocol's own type for that tool, if there is
// one, or else in the form of a call to an MCP server's tool.
func newToolItem(call domain.ToolCall, runID, sessionID string) Item {
	if call.Client {
		status := callStatus(call.Status)
		if call.Status == domain.CallPending {
			status = itemCompleted
		}
		return functionItem{itemHead{functionID(call.ID), typeCall, status}, call.ID, call.Name, jsonText(call.Input)}
	}
	head := func(prefix, kind string) itemHead {
		// Clients store items from many responses by id, and call ids are unique only within their run.
		return itemHead{prefix + "_" + id.Suffix(runID) + "_" + call.ID, kind, callStatus(call.Status)}
	}
	switch call.Name {
	case contract.ToolWebSearch:
		return webSearchItem{head(prefixWebSearch, typeWebSearch), searchAction{"search", textFor(call.Input, "query"), foundBy(call.Output)}}
	case contract.ToolKnowledge:
		return fileSearchItem{head(prefixFileSearch, typeFileSearch), []string{textFor(call.Input, "query")}, nil}
	case contract.ToolCodeExecution:
		item := codeItem{head(prefixCode, typeCode), textFor(call.Input, "code"), sessionID, nil}
		if item.Status != itemInProgress {
			// A program that fails is a completed call of the interpreter: its logs contain the error.
			// Clients such as @openai/agents cannot send back a call with the status failed.
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

// callStatus returns the protocol's status for a call.
func callStatus(status string) string {
	switch status {
	case "completed":
		return itemCompleted
	case "failed":
		return itemFailed
	}
	return itemInProgress
}

// textFor returns a text member of an object. Models write these objects, so the member may be
// missing or may have another type.
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

// failureText returns the reason why a call failed.
func failureText(output json.RawMessage) string {
	if text := textFor(output, "error"); text != "" {
		return text
	}
	return jsonText(output)
}

// foundBy returns the pages in a search's output, or nil for any other output.
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

// logsFor returns the printed text of a program, the value of its last line, and its error, in this
// order.
func logsFor(output json.RawMessage) []codeLog {
	logs := []codeLog{}
	for _, name := range []string{"stdout", "stderr", "value", "error"} {
		if text := textFor(output, name); strings.TrimSpace(text) != "" {
			logs = append(logs, codeLog{"logs", text})
		}
	}
	return logs
}
