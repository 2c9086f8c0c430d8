package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/workers/internal/llm"
)

// questioning matches the beginning of a question or of a request for information.
var questioning = regexp.MustCompile(`(?i)^(?:please\s+)?(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|` +
	`will|would|should|has|have|search|find|look up|tell me|explain|describe|summari[sz]e|list|compare)\b`)

// maxQuery is the maximum length of a search query in characters.
const maxQuery = 400

// Normalized names of tools with their own rules. Any other tool is called only if the message
// names it.
const (
	toolKnowledge = "knowledge"
	toolWebSearch = "websearch"
	toolCode      = "codeexecution"
)

// plan returns the tool calls for a message, in the order that the package comment shows. lacks
// contains a sentence for each named tool that is not called because arguments are missing.
func (p prompt) plan() (calls []llm.ToolCall, lacks []string) {
	tools, spoken := named(p.tools, p.message)
	for i, t := range tools {
		args, missing := arguments(t, spoken[i])
		if len(missing) > 0 {
			// If the tool was already called for the message, nothing is missing.
			if !slices.ContainsFunc(p.results, func(r llm.ToolResult) bool { return r.Name == t.Name }) {
				lacks = append(lacks, lack(t, missing))
			}
			continue
		}
		calls = append(calls, newCall(t, args))
	}

	// Compute statistics and plots only if the message names no other tool.
	programs := find(p.tools, toolCode)
	code, lack := codeFor(p.message, programs >= 0 && len(calls)+len(lacks) == 0)
	if lack != "" {
		lacks = append(lacks, lack)
	}
	if code != "" && programs >= 0 {
		calls = append(calls, codeCall(p.tools[programs], code, p.message))
	}

	// A message with code is not a question, so do not search for it.
	if code != "" || lack != "" {
		return calls, lacks
	}

	if len(calls) > 0 || !p.searches(len(lacks) > 0) {
		return calls, lacks
	}

	// If the message names no tool, the message itself is the search query. If there are documents,
	// search the web only on request, because it rarely knows the organization's affairs.
	names := []string{toolKnowledge, toolWebSearch}
	if p.asksForWeb() {
		slices.Reverse(names)
	}
	for _, name := range names {
		if call, ok := p.search(name); ok {
			return []llm.ToolCall{call}, lacks
		}
	}
	return nil, lacks
}

// search returns a call of the search tool with the given name. It returns false if there is no
// such tool.
func (p prompt) search(name string) (call llm.ToolCall, ok bool) {
	i := find(p.tools, name)
	if i < 0 {
		return call, false
	}
	t, text := p.tools[i], query(p.message, name)
	switch document, ok := asksOverview(p.message); {
	case name != toolKnowledge || !ok:
	case document != "": // the search also finds names
		text = document
	case !slices.Contains(schemaFor(t).Required, "query"):
		return newCall(t, map[string]any{}), true // without a query, the tool returns the beginnings of the documents
	}
	return newCall(t, map[string]any{textProperty(t, "query"): text}), true
}

// namesWeb and namesWebLast match messages that ask for a search of the web, at their beginning or
// in their last sentence.
var (
	namesWeb     = regexp.MustCompile(`(?i)^(?:please\s+)?(?:` + webWords + `|google)\b`)
	namesWebLast = regexp.MustCompile(`(?i)[.?!;]\s*(?:please\s+)?` + webWords + `(?:\s+for\s+(?:it|this|that))?\s*[.!]*\s*$`)
)

// webWords matches the words that ask for a search of the web.
const webWords = `(?:search|look|browse)(?:\s+(?:on|in))?\s+(?:the\s+)?(?:web|internet)`

// asksForWeb reports whether the message asks for a search of the web.
func (p prompt) asksForWeb() bool {
	return namesWeb.MatchString(p.message) || namesWebLast.MatchString(p.message)
}

// searches reports whether the message is a search query. lacks is true if the message names a tool
// whose arguments are missing. Its text may then be meant only for that tool, so it must end with a
// question mark.
func (p prompt) searches(lacks bool) bool {
	if lacks {
		return asks.MatchString(p.message)
	}
	return isQuestion(p.message) || p.isTopic()
}

// Patterns and words that distinguish topics from other short messages.
var (
	asks = regexp.MustCompile(`[?？؟]\s*$`)
	// First words of messages that are not a topic, such as commands and remarks.
	noTopic = setFor(`yes no ok okay bye goodbye welcome sorry great good fine cool nice stop go start continue wait use run call send
 make create delete remove update write add set open close cancel refund book buy order pay show give remember help test hello hi hey
 thanks cheers let come read know never always check translate try say`)
	inTopic = setFor(`a an at for in my of on our the to`)
	// Matches words at the beginning of a message that address the agent and do not belong to the
	// query.
	preamble = regexp.MustCompile(`(?i)^(?:please|` + webWords + `(?:\s+(?:for|about))?|` +
		`search\s+for|look\s+up|google)(?:[\s,:]+|$)`)
)

// Maximum length of a topic in words or, in scripts without spaces between words, in characters.
const (
	topicWords = 5
	topicRunes = 40
)

// isTopic reports whether a message consists only of a topic to look up.
func (p prompt) isTopic() bool {
	fields := strings.Fields(p.message)
	if len(p.data) > 0 || len(fields) == 0 || len(fields) > topicWords || utf8.RuneCountInString(p.message) > topicRunes ||
		noTopic[strings.ToLower(firstWord(p.message))] || p.pleasantry() != "" || p.fromMemory() != "" {
		return false
	}
	for _, f := range fields {
		if w := strings.ToLower(f); (stopWords[w] && !inTopic[w]) || strings.ContainsAny(w, "{}[]<>=;:!`") {
			return false
		}
	}
	return len(words(p.message)) > 0 && strings.ContainsFunc(p.message, unicode.IsLetter)
}

// query returns a search query of at most maxQuery characters for a message. For a web search, it
// omits the words that address the agent. A search in documents gets the whole message, because
// that search ignores such words itself.
func query(message, tool string) string {
	text := strings.Join(strings.Fields(message), " ")
	if tool == toolWebSearch {
		bare := text
		if at := namesWebLast.FindStringIndex(bare); at != nil {
			bare = bare[:at[0]+1] // the sentence before, with its punctuation
		}
		for at := preamble.FindStringIndex(bare); at != nil; at = preamble.FindStringIndex(bare) {
			bare = bare[at[1]:]
		}
		if bare = strings.TrimRight(bare, ". "); bare != "" {
			text = bare
		}
	}
	return truncateWords(text, maxQuery)
}

// newCall returns a call without an id. Equal arguments always have the same JSON form.
func newCall(t llm.ToolSpec, args map[string]any) llm.ToolCall {
	b, err := json.Marshal(args) // map keys are sorted, so equal arguments have equal JSON
	if err != nil {
		return llm.ToolCall{Name: t.Name, Arguments: json.RawMessage("{}")}
	}
	return llm.ToolCall{Name: t.Name, Arguments: b}
}

// plain normalizes the name of a tool. For example, webSearch, web_search and web-search have the
// same normalized name.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
}

// find returns the index of the tool with the given normalized name, or -1.
func find(tools []llm.ToolSpec, name string) int {
	return slices.IndexFunc(tools, func(t llm.ToolSpec) bool { return plain(t.Name) == name })
}

// isQuestion reports whether a message ends with a question mark, or begins like a question or a
// request.
func isQuestion(message string) bool {
	message = strings.TrimSpace(message)
	return strings.HasSuffix(message, "?") || strings.HasSuffix(message, "？") || strings.HasSuffix(message, "؟") ||
		questioning.MatchString(message)
}

// codeFor returns a Python program for the code blocks or the calculation in a message, or "" if
// there is none. If runs is true, programs can be executed, and codeFor also supports computations
// such as statistics. lack is a sentence that names the code blocks that are not executed.
func codeFor(message string, runs bool) (code, lack string) {
	// Code that the message contains takes precedence over code that the model writes.
	if b := readBlocks(message); b.any {
		if runs {
			lack = b.notRun()
		}
		return b.code, lack
	}

	if runs {
		if c, ok := compute(message); ok {
			return c.program(), ""
		}
		if program, ok := programs[oneLine(message)]; ok {
			return program, ""
		}
	}

	// A message with a calculation needs no search, so the program is returned even if it cannot be
	// executed.
	if e, ok := findExpression(message); ok {
		return "print(" + strings.ReplaceAll(e, "^", "**") + ")\n", ""
	}
	return "", ""
}

// codeCall returns the tool call that executes a program. If the message contains code blocks, the
// call includes the files that the message names outside of them.
func codeCall(t llm.ToolSpec, code, message string) llm.ToolCall {
	args := map[string]any{textProperty(t, "code"): code}
	if files := filesFor(t, message); len(files) > 0 && codeBlock.MatchString(message) {
		args["files"] = files
	}
	return newCall(t, args)
}

// named returns the tools that a message names, except those with their own rules. spoken contains
// the part of the message for each tool. If no name occurs exactly, a tool counts as named if the
// message contains all words of its name. Of two such tools, only the one with the longer name
// counts if its name contains all words of the other name.
func named(tools []llm.ToolSpec, message string) (found []llm.ToolSpec, spoken []string) {
	var exact, loose []llm.ToolSpec
	said := setFor(strings.Join(nameWords(message), " "))
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
		return exact, passages(exact, message, func(t llm.ToolSpec) []string { return []string{t.Name} })
	}

	// A longer name that contains all words of a shorter name is the better match.
	loose = slices.DeleteFunc(slices.Clone(loose), func(t llm.ToolSpec) bool {
		return slices.ContainsFunc(loose, func(o llm.ToolSpec) bool {
			words := nameWords(o.Name)
			return len(words) > len(nameWords(t.Name)) && containsAll(setFor(strings.Join(words, " ")), nameWords(t.Name))
		})
	})
	return loose, passages(loose, message, func(t llm.ToolSpec) []string { return ownWords(t, loose) })
}

// ownWords returns the words of a tool's name that occur in no other tool's name.
func ownWords(t llm.ToolSpec, all []llm.ToolSpec) []string {
	return slices.DeleteFunc(nameWords(t.Name), func(w string) bool {
		return slices.ContainsFunc(all, func(o llm.ToolSpec) bool { return o.Name != t.Name && slices.Contains(nameWords(o.Name), w) })
	})
}

// passages divides a message among the tools that it names, so that no tool receives text for
// another tool. Each tool receives the text from its name up to the next tool's name.
func passages(tools []llm.ToolSpec, message string, names func(llm.ToolSpec) []string) []string {
	spoken := make([]string, len(tools))
	// A single tool receives the whole message, because its arguments may precede its name.
	if len(tools) == 1 {
		spoken[0] = message
		return spoken
	}
	type mention struct{ at, tool int }
	var all []mention
	for i, t := range tools {
		for _, name := range names(t) {
			for _, at := range occurrences(message, regexp.QuoteMeta(name)) {
				all = append(all, mention{at[0], i})
			}
		}
	}
	slices.SortFunc(all, func(a, b mention) int { return a.at - b.at })

	parts := make([][]string, len(tools))
	// A tool that the message names several times receives the text after each of these names.
	for i, m := range all {
		end := len(message)
		if i+1 < len(all) {
			end = all[i+1].at
		}
		parts[m.tool] = append(parts[m.tool], message[m.at:end])
	}

	for i := range spoken {
		spoken[i] = strings.Join(parts[i], "\n")
	}
	return spoken
}

// containsAll reports whether set contains all of the words. It returns false if words is empty.
func containsAll(set map[string]bool, words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !set[w] })
}

// nameWords splits a tool's name, or a text that contains names, into words in lower case:
// crm_findOrder becomes crm, find, order.
func nameWords(s string) []string {
	var words []string
	begin, last := -1, rune(0)
	end := func(at int) {
		if begin >= 0 {
			words = append(words, strings.ToLower(s[begin:at]))
		}
		begin = -1
	}

	// A word ends before a character that is neither a letter nor a digit, and before a capital
	// letter after a small one.
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

// mentions reports whether a text contains a name as separate words, in upper or lower case.
func mentions(text, name string) bool {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN_-])` + regexp.QuoteMeta(name) + `(?:$|[^\pL\pN_-])`).MatchString(text)
}
