package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// noText replaces an empty text, which the protocol rejects.
const noText = "(no text)"

// params converts a request to the parameters of a Messages call. It fails for a message with an
// unknown role, and for a tool whose schema is not a JSON object. It does not change req.
func (m *Model) params(req llm.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: m.name, MaxTokens: m.size.maxTokens(req.MaxTokens)}
	if strings.TrimSpace(req.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	if m.size.adaptive {
		// Request summaries of the model's thoughts, so that chunks arrive while it thinks. A stream
		// without chunks can then be treated as stalled.
		p.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	}

	for _, message := range req.Messages {
		role, blocks, err := m.blocks(message)
		if err != nil {
			return p, err
		}
		// Append the content to the previous message if it has the same role. The results of all
		// tool calls of a turn must be in one message, and roles should alternate.
		if last := len(p.Messages) - 1; last >= 0 && p.Messages[last].Role == role {
			p.Messages[last].Content = append(p.Messages[last].Content, blocks...)
			continue
		}
		p.Messages = append(p.Messages, sdk.MessageParam{Role: role, Content: blocks})
	}

	if len(req.Output) > 0 {
		m.addAnswerTool(&p, &req)
	}
	for _, spec := range req.Tools {
		tool, err := newTool(spec, m.provider.Official)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	m.setSettings(&p, req.Settings)
	if len(req.Tools) > 0 && p.ToolChoice.OfTool == nil {
		m.chooseTools(&p, req)
	}
	return p, nil
}

// addAnswerTool adds the answer tool to the tools of a request that has a schema for the answer. If
// there is no other tool that the model may call, the model must call the answer tool. If the model
// must call another tool, the answer tool is not offered, because the model could call the answer
// tool instead.
func (m *Model) addAnswerTool(p *sdk.MessageNewParams, req *llm.Request) {
	// A model with adaptive thinking rejects a choice that forces a call, so this model may choose
	// freely.
	forces := !m.size.adaptive

	switch {
	case len(req.Tools) == 0 || req.ToolChoice == domain.ChoiceNone:
		req.Tools, req.ToolChoice = []llm.ToolSpec{answerSpec(*req)}, domain.ChoiceAuto
		if forces {
			p.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: answerTool}
		}
	case req.ToolChoice == domain.ChoiceRequired && forces:
	default:
		req.Tools = append(slices.Clip(req.Tools), answerSpec(*req))
	}
}

// chooseTools sets the choice of tools, and whether the model may request several calls at once. A
// model with adaptive thinking rejects a choice that forces a call, so this model may choose
// freely.
func (m *Model) chooseTools(p *sdk.MessageNewParams, req llm.Request) {
	var single param.Opt[bool]
	if parallel := req.Settings.ParallelToolCalls; parallel != nil && !*parallel {
		single = param.NewOpt(true)
	}

	switch choice := req.ToolChoice; {
	case choice == domain.ChoiceNone:
		p.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
	case m.size.adaptive || choice == "" || choice == domain.ChoiceAuto:
		if single.Valid() {
			p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{DisableParallelToolUse: single}
		}
	case choice == domain.ChoiceRequired:
		p.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{DisableParallelToolUse: single}
	default:
		p.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: choice, DisableParallelToolUse: single}
	}
}

// blocks returns the role and the content of a message. Tool results have the role "user". blocks
// fails for an unknown role, and for a tool message without a result.
func (m *Model) blocks(message llm.Message) (sdk.MessageParamRole, []sdk.ContentBlockParamUnion, error) {
	switch {
	case message.Role == llm.RoleUser:
		return sdk.MessageParamRoleUser, userBlocks(message), nil
	case message.Role == llm.RoleTool && message.Result != nil:
		r := message.Result
		block := sdk.NewToolResultBlock(callID(r.CallID), llm.RenderToolResult(*r), r.Failed)
		return sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{block}, nil
	case message.Role == llm.RoleAssistant:
		return sdk.MessageParamRoleAssistant, m.assistantBlocks(message), nil
	default:
		return "", nil, fmt.Errorf("rendering message: unknown role %q", message.Role)
	}
}

// assistantBlocks returns the content of an assistant message: its thinking, its text, then its
// tool calls. Thinking of another model is omitted. A message without text and calls has the text
// noText.
func (m *Model) assistantBlocks(message llm.Message) []sdk.ContentBlockParamUnion {
	blocks := readThinking(message.Thinking, m.info.Name)
	if strings.TrimSpace(message.Text) != "" || len(message.ToolCalls) == 0 {
		blocks = append(blocks, textBlock(message.Text))
	}
	for _, call := range message.ToolCalls {
		args := call.Arguments
		if args == nil {
			args = json.RawMessage("{}") // malformed arguments are omitted, because the protocol accepts only an object
		}
		blocks = append(blocks, sdk.NewToolUseBlock(callID(call.ID), args, toolName(call.Name)))
	}
	return blocks
}

// textBlock returns a block of text. It replaces a blank text with noText.
func textBlock(text string) sdk.ContentBlockParamUnion {
	if strings.TrimSpace(text) == "" {
		text = noText
	}
	return sdk.NewTextBlock(text)
}

// acceptedID matches the ids that the protocol accepts. unnamable matches the characters that the
// protocol rejects in names.
var (
	acceptedID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	unnamable  = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// callID returns a tool call's id in a form that the protocol accepts. Another provider may have
// generated the id. The result depends only on id, so a call and its result still have the same id.
func callID(id string) string {
	if acceptedID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// toolName returns a tool's name in a form that the protocol accepts. The model may have invented a
// tool with an invalid name.
func toolName(name string) string {
	if name == "" {
		return "_"
	}
	name = unnamable.ReplaceAllString(name, "_")
	return name[:min(len(name), 64)]
}

// newTool describes a tool for the provider. If eager is true, Anthropic's service sends the
// arguments of a call while the model writes them. Otherwise it sends long arguments only when they
// are complete, and the stream seems to stall until then.
func newTool(spec llm.ToolSpec, eager bool) (sdk.ToolUnionParam, error) {
	schema, err := inputSchema(spec.Schema)
	if err != nil {
		return sdk.ToolUnionParam{}, fmt.Errorf("reading schema of tool %s: %w", spec.Name, err)
	}
	t := &sdk.ToolParam{Name: spec.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
	if spec.Description != "" {
		t.Description = param.NewOpt(spec.Description)
	}
	if eager {
		t.EagerInputStreaming = param.NewOpt(true)
	}
	return sdk.ToolUnionParam{OfTool: t}, nil
}

// inputSchema converts a JSON Schema to the form that the protocol accepts: the type is object, and
// the top level has no alternatives such as anyOf. The arguments of a call are validated against
// the original schema before the call is executed.
func inputSchema(raw json.RawMessage) (json.RawMessage, error) {
	schema := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &schema); err != nil {
			return nil, err
		}
		if schema == nil {
			return nil, errors.New("a schema must not be null")
		}
	}

	schema["type"] = json.RawMessage(`"object"`)
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		delete(schema, key)
	}
	return json.Marshal(schema) // a raw message preserves the numbers and the order of the members in nested values
}
