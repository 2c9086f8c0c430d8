package offline

import (
	"encoding/json"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline/fill"
)

// chosen applies the request's choice of tools to the calls that the rules have chosen. If the
// choice demands a call and there is none, chosen adds one.
func (p prompt) chosen(choice string, calls []llm.ToolCall) []llm.ToolCall {
	switch {
	case choice == domain.ChoiceNone:
		return nil
	case choice == "" || choice == domain.ChoiceAuto || len(p.tools) == 0:
		return calls
	case choice == domain.ChoiceRequired && len(calls) > 0:
		return calls
	}

	// If the choice names no tool, the first tool is called.
	forced := p.tools[0]
	for _, t := range p.tools {
		if t.Name == choice {
			forced = t
		}
	}
	return []llm.ToolCall{p.forcedCall(forced)}
}

// forcedCall returns a call of a tool with the arguments that the message contains. An argument
// that is not written as "name: value" is found as in an answer with a schema. If the message
// contains no value for it, a text is set to the message, and any other argument is empty.
func (p prompt) forcedCall(t llm.ToolSpec) llm.ToolCall {
	s := schemaFor(t)
	args, missing := arguments(t, p.message)
	var found map[string]any
	if len(missing) > 0 {
		_ = json.Unmarshal([]byte(fill.Answer(t.Schema, fill.Input{Message: p.message})), &found) // without an object, nothing is found
	}
	// A forced call needs a value for every required argument, unlike other calls.
	for _, name := range missing {
		args[name] = found[name]
		if of := s.Properties[name].plain(); (found[name] == nil || found[name] == "") && of.kind() == "string" && len(of.Enum) == 0 {
			args[name] = p.message
		}
	}
	return newCall(t, args)
}
