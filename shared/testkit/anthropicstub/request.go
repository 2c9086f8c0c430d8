package anthropicstub

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// wireRequest is the part of a request to the Messages API that the stub checks or uses.
type wireRequest struct {
	Model     string          `json:"model"`
	MaxTokens int64           `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	System    json.RawMessage `json:"system"`
	Messages  []wireMessage   `json:"messages"`
	Tools     []struct {
		Name        string `json:"name"`
		InputSchema struct {
			Type string `json:"type"`
		} `json:"input_schema"`
	} `json:"tools"`
}

// wireMessage is a message of a request. Content is a string or a list of blocks.
type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// wireBlock is a block of a message's content: text, thinking, a tool call, or the result of a tool
// call.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

var identifier = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// readRequest parses a body. problem is the reason why the API would reject it.
func readRequest(body []byte) (req Request, problem string) {
	var wire wireRequest
	if err := json.Unmarshal(body, &wire); err != nil {
		return req, "The request body is not valid JSON: " + err.Error()
	}

	if wire.MaxTokens < 1 {
		return req, "max_tokens: Field required"
	}

	req = Request{Model: wire.Model, Stream: wire.Stream, Body: body, System: contentText(wire.System)}
	for i, t := range wire.Tools {
		if !identifier.MatchString(t.Name) || t.InputSchema.Type != "object" {
			return req, fmt.Sprintf("tools.%d: name and input_schema of type object are required", i)
		}
		req.Tools = append(req.Tools, t.Name)
	}

	if problem := addMessages(&req, wire.Messages); problem != "" {
		return req, problem
	}

	return req, ""
}

// addMessages adds messages to a request. Each tool result becomes a separate message.
func addMessages(req *Request, messages []wireMessage) (problem string) {
	var open []string // ids of calls whose results must be in the next message
	for i, m := range messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Sprintf("messages.%d: role %q, want %q", i, m.Role, want)
		}
		blocks := readBlocks(m.Content)
		if len(blocks) == 0 {
			return fmt.Sprintf("messages.%d: content is empty", i)
		}
		answered, problem := addBlocks(req, m.Role, blocks)
		if problem != "" {
			return fmt.Sprintf("messages.%d: %s", i, problem)
		}
		if strings.Join(answered, " ") != strings.Join(open, " ") {
			return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after, or the other way round", i)
		}
		open = open[:0]
		for _, b := range blocks {
			if b.Type == "tool_use" {
				open = append(open, b.ID)
			}
		}
	}

	if len(messages)%2 == 0 {
		return "messages: the last message must be the user's"
	}

	return ""
}

// addBlocks adds a message's blocks to a request. It returns the ids of the calls whose results the
// message contains.
func addBlocks(req *Request, role string, blocks []wireBlock) (answered []string, problem string) {
	said := Message{Role: role}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return nil, "text content blocks must contain non-whitespace text"
			}
			said.Content += b.Text
		case "tool_use":
			if !identifier.MatchString(b.ID) || !identifier.MatchString(b.Name) || !strings.HasPrefix(string(b.Input), "{") {
				return nil, "tool_use: id, name and input, an object, are required"
			}
			said.ToolCalls = append(said.ToolCalls, ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		case "tool_result":
			if said.Content != "" {
				return nil, "tool_result blocks come before text"
			}
			answered = append(answered, b.ToolUseID)
			req.Messages = append(req.Messages, Message{Role: "tool", ToolCallID: b.ToolUseID, Content: contentText(b.Content)})
		case "thinking", "redacted_thinking":
		default:
			return nil, "content block of unknown type " + b.Type
		}
	}

	if said.Content != "" || len(said.ToolCalls) > 0 {
		req.Messages = append(req.Messages, said)
	}

	return answered, ""
}

// readBlocks parses both forms of content: a string, or a list of blocks.
func readBlocks(raw json.RawMessage) []wireBlock {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return []wireBlock{{Type: "text", Text: text}}
	}
	var blocks []wireBlock
	if json.Unmarshal(raw, &blocks) != nil {
		return nil
	}
	return blocks
}

func contentText(raw json.RawMessage) string {
	var b strings.Builder
	for _, block := range readBlocks(raw) {
		b.WriteString(block.Text)
	}
	return b.String()
}
