package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// outcome is a tool's reply in the form that the model sees.
type outcome struct {
	IsError    bool   `json:"isError,omitempty"`
	Text       string `json:"text,omitempty"`
	Structured any    `json:"structuredContent,omitempty"`
}

// failed returns the result for a call that the server rejected with an error.
func failed(message string) (tool.Result, error) {
	return outcome{IsError: true, Text: message}.result()
}

// result returns the outcome as the call's result.
func (o outcome) result() (tool.Result, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding result: %w", err)
	}
	return tool.Result{Output: raw}, nil
}

// output combines the contents of a tool's reply into one text without secrets. It describes
// contents that are not text.
func output(ctx context.Context, answer *sdk.CallToolResult, redactor *redact.Redactor) (tool.Result, error) {
	if answer.NeedsInput() {
		return failed("The tool asks for further input, which is not supported.")
	}

	var texts []string
	for _, content := range answer.Content {
		text := redactor.Text(describe(content))
		if text != "" && !repeats(text, answer.StructuredContent) {
			texts = append(texts, text)
		}
	}

	// The structured content stays a JSON value, so that secrets are found regardless of escapes.
	structured, err := redactor.Value(ctx, answer.StructuredContent)
	if err != nil {
		return failed("The tool's answer could not be checked for secrets.") // the result says so, because the call was executed
	}
	return outcome{IsError: answer.IsError, Text: strings.Join(texts, "\n\n"), Structured: structured}.result()
}

// describe returns a content as text.
func describe(content sdk.Content) string {
	switch c := content.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return left("image", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return left("audio", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		title := c.Title
		if title == "" {
			title = c.Name
		}
		return strings.TrimSpace(fmt.Sprintf("[resource: %s <%s>] %s", clean(title), clean(c.URI), clean(c.Description)))
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return ""
		case c.Resource.Text != "":
			return fmt.Sprintf("[resource: <%s>]\n%s", clean(c.Resource.URI), c.Resource.Text)
		default:
			return fmt.Sprintf("[resource: <%s>] %s", clean(c.Resource.URI), left("file", c.Resource.MIMEType, len(c.Resource.Blob)))
		}
	default:
		return "[content of an unknown kind]"
	}
}

// left returns a description of a content that the model does not receive.
func left(kind, mimeType string, size int) string {
	return fmt.Sprintf("[%s of type %s, %d bytes, not shown]", kind, clean(mimeType), size)
}

// repeats reports whether a text is the JSON form of the structured content. Servers send both for
// the sake of older clients.
func repeats(text string, structured any) bool {
	if structured == nil {
		return false
	}
	var same any
	return json.Unmarshal([]byte(text), &same) == nil && reflect.DeepEqual(same, structured)
}
