package agenttools

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
	"parley/shared/schema"
)

// inputSchema is the JSON Schema of the input of every tool. Every agent takes the same input: a
// message, attachments and a session.
var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"message": {"type": "string", "description": "The message to the agent. It may be empty if there are attachments."},
		"attachments": {"type": "array", "maxItems": 10, "description": "Images and documents to send with the message.", "items": {
			"type": "object",
			"description": "Exactly one of url, data and fileId.",
			"properties": {
				"url": {"type": "string", "description": "A public URL."},
				"data": {"type": "string", "description": "The content as base64."},
				"fileId": {"type": "string", "description": "The id of a file that was uploaded or that an agent created."},
				"mediaType": {"type": "string", "description": "The media type of data, such as image/png."},
				"name": {"type": "string", "description": "The file's name."}
			},
			"additionalProperties": false
		}},
		"sessionId": {"type": "string", "minLength": 1, "maxLength": 128,
			"description": "The sessionId of an earlier answer, to continue its conversation. Default: a new conversation."}
	},
	"required": ["message"],
	"additionalProperties": false
}`)

// outputSchema returns the schema of a tool's structured output, which accompanies the text of the
// answer. data is the schema of the agent's answers, or nil if the agent answers in text. The
// schema of the data is embedded, with its references adjusted.
func outputSchema(data json.RawMessage) json.RawMessage {
	if data == nil {
		return json.RawMessage(resultHead + resultRest)
	}
	return json.RawMessage(resultHead + `"data": ` + string(schema.Embed(data, "#/properties/data")) + "," + resultRest)
}

// The schema of a structuredResult contains the schema of the agent's data. These constants are the
// text before and after that schema.
const (
	resultHead = `{
	"type": "object",
	"properties": {`
	resultRest = `
		"runId": {"type": "string"},
		"sessionId": {"type": "string", "description": "Names the conversation."},
		"status": {"type": "string", "enum": ["completed", "failed", "cancelled", "timed_out", "requires_action"]},
		"finishReason": {"type": ["string", "null"], "description": "Why the answer ended: stop means that it is complete."},
		"message": {"type": ["string", "null"], "description": "The agent's answer."},
		"citations": {"type": "array", "items": {
			"type": "object",
			"properties": {
				"id": {"type": "integer"}, "type": {"type": "string"}, "title": {"type": "string"}, "url": {"type": "string"},
				"citedText": {"type": "string"}, "startIndex": {"type": "integer"}, "endIndex": {"type": "integer"},
				"documentId": {"type": ["string", "null"]}, "page": {"type": ["integer", "null"]}, "sourceId": {"type": ["string", "null"]},
				"path": {"type": "string", "description": "The JSON Pointer of the cited value in data."}
			}
		}}
	},
	"required": ["runId", "sessionId", "status", "message", "citations"]
}`
)

// structuredResult is the structured result of a run. It has the fields of outputSchema. Fields
// that are null are present.
type structuredResult struct {
	RunID        string               `json:"runId"`
	SessionID    string               `json:"sessionId"`
	Status       domain.RunStatus     `json:"status"`
	FinishReason *domain.FinishReason `json:"finishReason"`
	Message      *string              `json:"message"`
	Data         json.RawMessage      `json:"data,omitempty"`
	Citations    []domain.Citation    `json:"citations"`
}

// tool describes an agent as a tool. If the agent has no description, the tool's description says
// which agent the tool asks. The tool is marked as one that reaches other systems.
func tool(a Agent, name string, data json.RawMessage) *mcp.Tool {
	description := a.Description
	if description == "" {
		description, _, _ = strings.Cut("Asks the agent "+a.Name, "\n")
	}
	open := true
	return &mcp.Tool{
		Name: name, Title: a.Name, Description: description, InputSchema: inputSchema, OutputSchema: outputSchema(data),
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: &open},
	}
}

// resultFor converts a run to the result of a tool call. A run that did not complete is an error
// result, so that the model does not take it for an answer.
func resultFor(run *domain.Run) *mcp.CallToolResult {
	structured := structuredResult{
		RunID: run.ID, SessionID: run.SessionID, Status: run.Status, FinishReason: run.FinishReason,
		Message: run.Message, Data: run.Output.JSON(), Citations: run.Citations,
	}

	if structured.Citations == nil {
		structured.Citations = []domain.Citation{}
	}

	result := &mcp.CallToolResult{StructuredContent: structured, IsError: run.Status != domain.RunCompleted}
	for _, text := range texts(run) {
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
	}
	return result
}

// texts returns the texts of a tool result, for the model that made the call. Clients without
// support for structured results show only these texts.
func texts(run *domain.Run) []string {
	switch {
	case run.Status == domain.RunCompleted && run.Message != nil:
		said := []string{*run.Message}
		if sources := sourcesFor(run.Citations); sources != "" {
			said = append(said, sources)
		}
		if run.Incomplete() {
			said = append(said, incompleteText(*run.FinishReason))
		}
		return said
	case run.RequiredAction != nil:
		return []string{waitText(run.ID, run.RequiredAction)}
	case run.Error != nil:
		return []string{"The run " + run.ID + " " + outcome(run.Status) + ": " + run.Error.Message}
	default:
		return []string{"The run " + run.ID + " " + outcome(run.Status) + "."}
	}
}

// incompleteText returns a text that explains to the model why an answer ended early. Only two
// reasons leave an answer incomplete.
func incompleteText(why domain.FinishReason) string {
	if why == domain.FinishLength {
		return "(The answer is incomplete: the model reached its output limit.)"
	}
	return "(The answer is incomplete: the model's provider withheld the rest.)"
}

// waitText returns a text that explains to the model that the run waits for a person, and where
// that person can decide. The tool call ends at this point; it does not wait for the decision.
func waitText(runID string, action *domain.RequiredAction) string {
	return fmt.Sprintf("The run %s waits for a person to decide about a call of the tool %s (%s). The person decides in the dashboard "+
		"or with POST /api/runs?id=%[1]s&action=…&toolCallId=%s. After that, GET /api/runs?id=%[1]s returns the answer.",
		runID, action.Name, strings.ReplaceAll(string(action.Kind), "_", " "), action.ToolCallID)
}

// outcome returns a phrase for the final status of a run. The phrase is the predicate of a sentence
// whose subject is the run.
func outcome(status domain.RunStatus) string {
	switch status {
	case domain.RunCancelled:
		return "was cancelled"
	case domain.RunTimedOut:
		return "timed out"
	case domain.RunCompleted:
		return "ended without an answer"
	default:
		return "failed"
	}
}

// sourcesFor returns the list of an answer's sources, numbered as in the answer's text. Each source
// is listed once. The result is "" if there are none.
func sourcesFor(citations []domain.Citation) string {
	var b strings.Builder
	listed := map[int]bool{}
	for _, c := range citations {
		if listed[c.ID] {
			continue
		}
		listed[c.ID] = true
		fmt.Fprintf(&b, "\n[%d] %s", c.ID, c.Title)
		if c.URL != "" {
			b.WriteString(" " + c.URL)
		}
		if c.Page != nil {
			fmt.Fprintf(&b, ", page %d", *c.Page)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Sources:" + b.String()
}
