package openaiapi

import (
	"encoding/json"

	"parley/shared/domain"
)

// FunctionTool is a tool of the client. In requests for chat completions, the field function
// describes it. In requests for responses, fields of the tool itself describe it.
type FunctionTool struct {
	// Type must be function.
	Type     string        `json:"type" required:"true"`
	Function *FunctionSpec `json:"function"`
	FunctionSpec
}

// FunctionSpec describes a function of the client. Parameters is the JSON Schema of the arguments;
// nil: none.
type FunctionSpec struct {
	Name        *string          `json:"name"`
	Description *string          `json:"description"`
	Parameters  *json.RawMessage `json:"parameters"`
	Strict      *bool            `json:"strict"` // has no effect; responses repeat it
}

// typeFunction is the only type of tools and calls that is supported.
const typeFunction = "function"

// readTools converts the tools of a request. It returns nil if there are none. The argument within
// is the path from a tool to the object that describes its function: "" or ".function". The names
// and schemas are checked later. The field Return of the result is set, so the run ends with the
// calls, and the client makes them. Errors are reported to the function wrong.
func readTools(tools *[]FunctionTool, choice *json.RawMessage, within string, wrong Wrong) *domain.ClientTools {
	if len(value(tools)) == 0 {
		if name := readChoice(choice, nil, wrong); name != "" && name != domain.ChoiceNone && name != domain.ChoiceAuto {
			wrong("tool_choice", codeInvalidValue, "must be none or auto, because the request has no tools")
		}
		return nil
	}

	out := &domain.ClientTools{Return: true}
	for i, t := range *tools {
		at, spec := index("tools", i), t.FunctionSpec
		if within != "" {
			spec = value(t.Function)
		}
		switch {
		case t.Type != typeFunction:
			wrong(at+".type", CodeUnsupported, "must be function; tools of other types are configured in the agent")
		case spec.Name == nil:
			wrong(at+within+".name", codeRequired, "is required")
		}
		out.Tools = append(out.Tools, domain.ClientTool{
			Name: deref(spec.Name), Description: deref(spec.Description), InputSchema: value(spec.Parameters),
		})
	}
	out.Choice = readChoice(choice, out.Tools, wrong)
	return out
}

// readChoice returns the client's choice of tools: auto, none, required, the name of a tool, or ""
// if the request has none. The argument tools must contain a tool with this name. An object may
// have the form of either API.
func readChoice(raw *json.RawMessage, tools []domain.ClientTool, wrong Wrong) string {
	if raw == nil || string(*raw) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(*raw, &text) == nil {
		if text != domain.ChoiceAuto && text != domain.ChoiceNone && text != domain.ChoiceRequired {
			wrong("tool_choice", codeInvalidValue, "must be none, auto, required or a function")
		}
		return text
	}

	var object struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch err := json.Unmarshal(*raw, &object); {
	case err != nil:
		wrong("tool_choice", codeInvalidValue, "must be none, auto, required or a function")
		return ""
	case object.Type != typeFunction:
		wrong("tool_choice.type", CodeUnsupported, "must be function: other choices are not supported")
		return ""
	}

	name := object.Name + object.Function.Name
	for _, t := range tools {
		if t.Name == name {
			return name
		}
	}
	wrong("tool_choice", codeInvalidValue, "names a function that is not in tools")
	return ""
}

// responseTool is a tool of the client in a response. Strict repeats the value in the request, or
// is true without such a value. Description is null if the tool has no description.
type responseTool struct {
	Type        string          `json:"type"` // always function
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// strictTools returns the field strict of each tool of a request for a response. The protocol's
// default is true.
func strictTools(tools *[]FunctionTool) []bool {
	strict := make([]bool, len(value(tools)))
	for i, t := range value(tools) {
		strict[i] = t.Strict == nil || *t.Strict
	}
	return strict
}

// shownTools returns the tools and the choice of tools of a request in the form that responses
// have. The argument strict is the result of strictTools. The result shown is never nil. The result
// choice is a string or an object with the name of a function.
func shownTools(tools *domain.ClientTools, strict []bool) (shown []responseTool, choice any) {
	shown, choice = []responseTool{}, domain.ChoiceAuto
	if tools == nil {
		return shown, choice
	}
	for i, t := range tools.Tools {
		one := responseTool{Type: typeFunction, Name: t.Name, Parameters: t.InputSchema, Strict: i >= len(strict) || strict[i]}
		if t.Description != "" {
			one.Description = &t.Description
		}
		shown = append(shown, one)
	}
	switch tools.Choice {
	case "":
	case domain.ChoiceAuto, domain.ChoiceNone, domain.ChoiceRequired:
		choice = tools.Choice
	default:
		choice = map[string]string{"type": typeFunction, "name": tools.Choice}
	}
	return shown, choice
}

// CompletionCall is a call of a client's tool in a chat completion. ID is Parley's id of the call.
// A result in a later request must name it.
type CompletionCall struct {
	Index    *int         `json:"index,omitempty"` // set only in streams
	ID       string       `json:"id"`
	Type     string       `json:"type"` // always function
	Function FunctionCall `json:"function"`
}

// FunctionCall contains the name of a function and its arguments as JSON text. The model may have
// written arguments that do not match the schema.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// completionCalls returns the calls that the client must make. It returns nil if there are none;
// the field is then omitted.
func completionCalls(run *domain.Run) (calls []CompletionCall) {
	for _, call := range run.ClientCalls() {
		calls = append(calls, newCompletionCall(call))
	}
	return calls
}

// newCompletionCall renders a call without an index.
func newCompletionCall(call domain.ToolCall) CompletionCall {
	return CompletionCall{ID: call.ID, Type: typeFunction, Function: FunctionCall{call.Name, jsonText(call.Input)}}
}

// callOnly reports whether a run ended with calls of the client's tools and has no text.
func callOnly(run *domain.Run) bool { return deref(run.Message) == "" && len(run.ClientCalls()) > 0 }
