package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/truncate"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// outcome is a tool's reply in the form that the model sees. For a failed call, Error is set
// instead of Text.
type outcome struct {
	Error      string `json:"error,omitempty"`
	Text       string `json:"text,omitempty"`
	Structured any    `json:"structuredContent,omitempty"`
}

// noReason is the message if a tool reports a failure without a text.
const noReason = "The tool reported an error without a reason."

// Limits of a failed call's output, in bytes. If the output exceeded the limit of tool.Cap, only
// the error's message would remain.
const (
	maxError  = 8 << 10 // bytes of the text, which JSON escapes may enlarge sixfold
	maxFailed = 56 << 10
)

// failed returns the error for a call to which the server responded with an error. The outcome of
// the call is known, so the call is not repeated. structured may be nil.
func failed(message string, structured any) (tool.Result, error) {
	said := outcome{Error: truncate.Bytes(message, maxError), Structured: structured}
	raw, err := json.Marshal(said)
	// If the text and the structured content do not fit together, only the text is kept, because it
	// is more useful to the model.
	if err == nil && len(raw) > maxFailed {
		said.Structured = nil
		raw, err = json.Marshal(said)
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding result: %w", err)
	}
	return tool.Result{}, &tool.Error{Message: message, Answered: true, Output: raw}
}

// output combines the contents of a tool's reply into one text without secrets. The text contains a
// description of each content that is not text. A reply that reports a failure becomes an error;
// see failed.
func output(ctx context.Context, answer *sdk.CallToolResult, redactor *redact.Redactor) (tool.Result, error) {
	// The client offers no user input, so a conforming server does not request any.
	if answer.NeedsInput() {
		return failed("The tool asks for further input, which is not supported.", nil)
	}

	var texts []string
	for _, content := range answer.Content {
		text := redactor.Text(describe(content))
		// The structured content often repeats the text, which would waste the model's context.
		if text != "" && !repeats(text, answer.StructuredContent) {
			texts = append(texts, text)
		}
	}

	// The structured content is redacted as a JSON value, so that escapes cannot hide secrets.
	structured, err := redactor.Value(ctx, answer.StructuredContent)
	if err != nil {
		return failed("The call was executed, but its answer could not be checked for secrets.", nil)
	}

	text := strings.Join(texts, "\n\n")
	if answer.IsError {
		return failed(cmp.Or(strings.TrimSpace(text), noReason), structured)
	}
	raw, err := json.Marshal(outcome{Text: text, Structured: structured})
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding result: %w", err)
	}
	return tool.Result{Output: raw}, nil
}

// describe returns a part of a tool's reply as text.
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

// left returns a description of content that is left out of the model's input.
func left(kind, mimeType string, size int) string {
	return fmt.Sprintf("[%s of type %s, %d bytes, not shown]", kind, clean(mimeType), size)
}

// repeats reports whether a text is the JSON form of the structured content. Servers send both to
// support older clients.
func repeats(text string, structured any) bool {
	if structured == nil {
		return false
	}
	var same any
	return json.Unmarshal([]byte(text), &same) == nil && reflect.DeepEqual(same, structured)
}
