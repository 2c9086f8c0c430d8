package openai

import (
	"encoding/json"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// newParams converts a request to the parameters of Chat Completions. official is true for OpenAI's
// own service. OpenAI's newer models require the parameter max_completion_tokens, which many other
// servers do not support.
//
// newParams fails for a message with an unknown role, and for a tool whose schema is not a JSON
// object.
func newParams(model string, req llm.Request, official bool) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:         model,
		Messages:      make([]sdk.ChatCompletionMessageParamUnion, 0, len(req.Messages)+1),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}

	if req.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		message, err := newMessage(m)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, message)
	}

	for _, spec := range req.Tools {
		tool, err := newTool(spec)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, tool)
	}
	p.ToolChoice = toolChoice(req)

	if len(req.Output) > 0 {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: req.Output},
		}
	}

	setSettings(&p, req.Settings)
	switch {
	case req.MaxTokens <= 0:
	case official:
		p.MaxCompletionTokens = param.NewOpt(req.MaxTokens)
	default:
		p.MaxTokens = param.NewOpt(req.MaxTokens)
	}
	return p, nil
}

// toolChoice converts the choice of tools. If the request has no tools, or the model may choose
// freely, toolChoice omits the parameter, because not every server supports it.
func toolChoice(req llm.Request) (choice sdk.ChatCompletionToolChoiceOptionUnionParam) {
	switch {
	case len(req.Tools) == 0 || req.ToolChoice == "" || req.ToolChoice == domain.ChoiceAuto:
	case req.ToolChoice == domain.ChoiceNone || req.ToolChoice == domain.ChoiceRequired:
		choice.OfAuto = param.NewOpt(req.ToolChoice)
	default:
		return sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: req.ToolChoice})
	}
	return choice
}

// newMessage converts a message. It fails for an unknown role, and for a tool message without a
// result.
func newMessage(m llm.Message) (sdk.ChatCompletionMessageParamUnion, error) {
	switch {
	case m.Role == llm.RoleUser:
		return newUserMessage(m), nil
	case m.Role == llm.RoleTool && m.Result != nil:
		return sdk.ToolMessage(llm.RenderToolResult(*m.Result), m.Result.CallID), nil
	case m.Role == llm.RoleAssistant:
		return newAssistantMessage(m), nil
	default:
		return sdk.ChatCompletionMessageParamUnion{}, fmt.Errorf("rendering message: unknown role %q", m.Role)
	}
}

// newAssistantMessage converts an assistant message with its tool calls. A message without text and
// calls gets an empty text, because a message must have content.
func newAssistantMessage(m llm.Message) sdk.ChatCompletionMessageParamUnion {
	var a sdk.ChatCompletionAssistantMessageParam
	if m.Text != "" || len(m.ToolCalls) == 0 {
		a.Content.OfString = param.NewOpt(m.Text)
	}

	for _, call := range m.ToolCalls {
		args := string(call.Arguments)
		if args == "" {
			args = "{}" // malformed arguments are omitted, because servers parse the arguments
		}
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: args},
			},
		})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// newTool describes a tool for the provider. It fails if the tool's schema is not a JSON object.
func newTool(spec llm.ToolSpec) (sdk.ChatCompletionToolUnionParam, error) {
	f := shared.FunctionDefinitionParam{Name: spec.Name}
	if spec.Description != "" {
		f.Description = param.NewOpt(spec.Description)
	}
	if len(spec.Schema) > 0 {
		// Raw values preserve the numbers in the schema and the order of the members in nested
		// objects.
		var schema map[string]json.RawMessage
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			return sdk.ChatCompletionToolUnionParam{}, fmt.Errorf("reading schema of tool %s: %w", spec.Name, err)
		}
		f.Parameters = make(shared.FunctionParameters, len(schema))
		for k, v := range schema {
			f.Parameters[k] = v
		}
	}
	return sdk.ChatCompletionFunctionTool(f), nil
}
