package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"parley/workers/internal/llm"
)

var (
	codeBlock   = regexp.MustCompile("(?s)```[a-zA-Z0-9+]*[ \t]*\r?\n(.*?)```")
	questioning = regexp.MustCompile(`(?i)^(?:please\s+)?(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|` +
		`will|would|should|has|have|search|find|look up|tell me|explain|describe|summari[sz]e|list|compare)\b`)
)

// maxQuery bounds a search, in characters.
const maxQuery = 400

// The tools with a use of their own, by plain name; every other tool is an endpoint to be named.
const (
	toolKnowledge = "knowledge"
	toolWebSearch = "websearch"
	toolCode      = "codeexecution"
)

// plan gives the calls that fit a message, in the order of the package's drawing; nil if none does.
func plan(tools []llm.ToolSpec, message string) []llm.ToolCall {
	var calls []llm.ToolCall
	for _, t := range named(tools, message) {
		calls = append(calls, newCall(t, arguments(t, message)))
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
			calls = append(calls, newCall(tools[i], map[string]any{textProperty(tools[i], "query"): query(message)}))
		}
	}
	return calls
}

// query gives what to search for, no longer than search tools take.
func query(message string) string { return clip(strings.Join(strings.Fields(message), " "), maxQuery) }

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
	return strings.HasSuffix(message, "?") || strings.HasSuffix(message, "？") || strings.HasSuffix(message, "؟") ||
		questioning.MatchString(message)
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

// named gives the tools that a message names, those with a use of their own apart: by name, or else by all words of a
// name, where a name whose words are all in another's that is named too does not count.
func named(tools []llm.ToolSpec, message string) []llm.ToolSpec {
	var exact, loose []llm.ToolSpec
	said := setOf(strings.Join(nameWords(message), " "))
	for _, t := range tools {
		switch plain(t.Name) {
		case toolKnowledge, toolWebSearch, toolCode:
			continue
		}
		if mentions(message, t.Name) {
			exact = append(exact, t)
		}
		if containsAll(said, nameWords(t.Name)) {
			loose = append(loose, t)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return slices.DeleteFunc(slices.Clone(loose), func(t llm.ToolSpec) bool {
		return slices.ContainsFunc(loose, func(o llm.ToolSpec) bool {
			words := nameWords(o.Name)
			return len(words) > len(nameWords(t.Name)) && containsAll(setOf(strings.Join(words, " ")), nameWords(t.Name))
		})
	})
}

func containsAll(set map[string]bool, words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !set[w] })
}

// nameWords takes a name, or a text with names in it, apart where its writing does: crm_findOrder is crm, find, order.
func nameWords(s string) []string {
	var words []string
	begin, last := -1, rune(0)
	end := func(at int) {
		if begin >= 0 {
			words = append(words, strings.ToLower(s[begin:at]))
		}
		begin = -1
	}
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end(i)
		case unicode.IsUpper(r) && unicode.IsLower(last):
			end(i)
			begin = i
		case begin < 0:
			begin = i
		}
		last = r
	}
	end(len(s))
	return words
}

// mentions reports whether a name stands in a text as a word of its own, in any case.
func mentions(text, name string) bool {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN_-])` + regexp.QuoteMeta(name) + `(?:$|[^\pL\pN_-])`).MatchString(text)
}
