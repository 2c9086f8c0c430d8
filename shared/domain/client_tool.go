package domain

import "encoding/json"

// ClientTools are the tools that the client of a run executes itself.
type ClientTools struct {
	Tools []ClientTool `json:"tools"`
	// Choice constrains the first model call: auto, none, required, or the name of a tool.
	Choice string `json:"choice,omitempty"`
}

// ClientTool describes a tool of the client. InputSchema is the JSON Schema of its arguments.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}
