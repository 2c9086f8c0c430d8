package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"parley/workers/internal/llm"
)

var (
	codeBlock   = regexp.MustCompile("(?s)```[a-zA-Z0-9+]*[ \t]*\r?\n(.*?)```")
	questioning = regexp.MustCompile(`(?i)^(?:please\s+)?(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|` +
		`will|would|should|has|have|search|find|look up|tell me|explain|describe|summari[sz]e|list|compare)\b`)
)

// The tools with a use of their own, by plain name; every other tool is an endpoint to be named.
const (
	toolKnowledge = "knowledge"
	toolWebSearch = "websearch"
	toolCode      = "codeexecution"
)

// plan gives the calls that fit a message, in the order of the package's drawing; nil if none does.
func plan(tools []llm.ToolSpec, message string) []llm.ToolCall {
	var calls []llm.ToolCall
	for _, t := range tools {
		if args, ok := endpointCall(t, message); ok {
			calls = append(calls, newCall(t, args))
		}
	}
	if code := codeFor(message); code != "" {
		if i := find(tools, toolCode); i >= 0 {
			calls = append(calls, newCall(tools[i], map[string]any{textProperty(tools[i], "code"): code}))
		}
		return calls
	}
	if len(calls) > 0 || !isQuestion(message) {
		return calls
	}
	for _, name := range []string{toolKnowledge, toolWebSearch} {
		if i := find(tools, name); i >= 0 {
			calls = append(calls, newCall(tools[i], map[string]any{textProperty(tools[i], "query"): strings.TrimSpace(message)}))
		}
	}
	return calls
}

func newCall(t llm.ToolSpec, args map[string]any) llm.ToolCall {
	b, err := json.Marshal(args) // map keys come sorted: the same call every time
	if err != nil {
		return llm.ToolCall{Name: t.Name, Arguments: json.RawMessage("{}")}
	}
	return llm.ToolCall{Name: t.Name, Arguments: b}
}

// plain folds a tool's name so that webSearch, web_search and web-search are one.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
}

func find(tools []llm.ToolSpec, name string) int {
	return slices.IndexFunc(tools, func(t llm.ToolSpec) bool { return plain(t.Name) == name })
}

func isQuestion(message string) bool {
	message = strings.TrimSpace(message)
	return strings.HasSuffix(message, "?") || questioning.MatchString(message)
}

// codeFor gives Python for a message with a code block or a calculation, "" for any other.
func codeFor(message string) string {
	if m := codeBlock.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	if e, ok := findExpression(message); ok {
		return "print(" + strings.ReplaceAll(e, "^", "**") + ")\n"
	}
	return ""
}

type schema struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type string            `json:"type"`
	Enum []json.RawMessage `json:"enum"`
}

func schemaOf(t llm.ToolSpec) schema {
	var s schema
	_ = json.Unmarshal(t.Schema, &s) // a schema that says nothing of properties asks for none
	return s
}

// textProperty names the argument that takes the text: the usual one, or the first required text there is.
func textProperty(t llm.ToolSpec, usual string) string {
	s := schemaOf(t)
	if _, ok := s.Properties[usual]; ok {
		return usual
	}
	for _, name := range s.Required {
		if s.Properties[name].Type == "string" {
			return name
		}
	}
	return usual
}

// endpointCall gives the arguments for an endpoint that the message names: by the tool's name, or by a choice one of its arguments offers.
func endpointCall(t llm.ToolSpec, message string) (map[string]any, bool) {
	switch plain(t.Name) {
	case toolKnowledge, toolWebSearch, toolCode:
		return nil, false
	}
	s := schemaOf(t)
	named := mentions(message, t.Name)
	args := jsonIn(message)
	for name, p := range s.Properties {
		if choice, ok := chosen(p, message); ok {
			args[name] = choice
			named = true
		}
	}
	if !named {
		return nil, false
	}
	for _, name := range s.Required {
		if _, ok := args[name]; !ok {
			args[name] = guess(name, s.Properties[name].Type, message)
		}
	}
	return args, true
}

// mentions reports whether a name stands in a text as a word of its own, in any case.
func mentions(text, name string) bool {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN_-])` + regexp.QuoteMeta(name) + `(?:$|[^\pL\pN_-])`).MatchString(text)
}

func chosen(p property, message string) (string, bool) {
	for _, raw := range p.Enum {
		var choice string
		if json.Unmarshal(raw, &choice) == nil && len(choice) > 2 && mentions(message, choice) {
			return choice, true
		}
	}
	return "", false
}

// jsonIn gives the JSON object that a message contains, or an empty one.
func jsonIn(message string) map[string]any {
	args := map[string]any{}
	from, to := strings.IndexByte(message, '{'), strings.LastIndexByte(message, '}')
	if from < 0 || to < from || json.Unmarshal([]byte(message[from:to+1]), &args) != nil || args == nil {
		return map[string]any{}
	}
	return args
}

var number = regexp.MustCompile(`-?\d+(?:\.\d+)?`)

// guess finds a value for a required argument: written as "name: value" or "name = value", else what its type allows.
func guess(name, kind, message string) any {
	said := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(name) + `\s*(?:[:=]|is)?\s*("[^"]*"|[^\s,;"]+)`).FindStringSubmatch(message)
	value := ""
	if said != nil {
		value = strings.Trim(said[1], `"`)
	}
	switch kind {
	case "integer", "number":
		if !number.MatchString(value) {
			value = number.FindString(message)
		}
		if n := number.FindString(value); n != "" {
			return json.Number(n)
		}
		return 0
	case "boolean":
		return !strings.EqualFold(value, "false") && !strings.EqualFold(value, "no")
	case "object":
		return map[string]any{}
	case "array":
		return []any{}
	default:
		if value != "" {
			return value
		}
		return strings.TrimSpace(message)
	}
}
