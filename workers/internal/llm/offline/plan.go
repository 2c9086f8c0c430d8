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

var questioning = regexp.MustCompile(`(?i)^(?:please\s+)?(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|` +
	`will|would|should|has|have|search|find|look up|tell me|explain|describe|summari[sz]e|list|compare)\b`)

// maxQuery bounds a search, in characters.
const maxQuery = 400

// The tools with a use of their own, by plain name; every other tool is an endpoint to be named.
const (
	toolKnowledge = "knowledge"
	toolWebSearch = "websearch"
	toolCode      = "codeexecution"
)

// plan gives the calls that fit a message, in the order of the package's drawing, and says what tools lack that the
// message names without giving what they require: those are not called.
func (p prompt) plan() (calls []llm.ToolCall, lacks []string) {
	tools, spoken := named(p.tools, p.message)
	for i, t := range tools {
		args, missing := arguments(t, spoken[i])
		if len(missing) > 0 {
			if !slices.ContainsFunc(p.results, func(r llm.ToolResult) bool { return r.Name == t.Name }) {
				lacks = append(lacks, lack(t, missing))
			}
			continue
		}
		calls = append(calls, newCall(t, args))
	}
	programs := find(p.tools, toolCode)
	code, lack := codeFor(p.message, programs >= 0 && len(calls)+len(lacks) == 0)
	if lack != "" {
		lacks = append(lacks, lack)
	}
	if code != "" && programs >= 0 {
		calls = append(calls, codeCall(p.tools[programs], code, p.message))
	}
	if code != "" || lack != "" {
		return calls, lacks
	}
	if len(calls) > 0 || !p.searches(len(lacks) > 0) {
		return calls, lacks
	}
	for _, name := range []string{toolKnowledge, toolWebSearch} {
		if i := find(p.tools, name); i >= 0 {
			calls = append(calls, newCall(p.tools[i], map[string]any{textProperty(p.tools[i], "query"): query(p.message, name)}))
		}
	}
	return calls, lacks
}

// searches reports whether a message is one to search for. What names a tool that lacks something may hold what is
// for that tool alone, and is searched for only if it plainly asks.
func (p prompt) searches(lacks bool) bool {
	if lacks {
		return asks.MatchString(p.message)
	}
	return isQuestion(p.message) || p.isTopic()
}

var (
	asks = regexp.MustCompile(`[?？؟]\s*$`)
	// No topic begins like this: what tells to do something, or is said in passing.
	noTopic = setFor(`yes no ok okay bye goodbye welcome sorry great good fine cool nice stop go start continue wait use run call send
 make create delete remove update write add set open close cancel refund book buy order pay show give remember help test hello hi hey
 thanks cheers let come read know never always check translate try say`)
	inTopic = setFor(`a an at for in my of on our the to`)
	// What a message says to the agent rather than to the search.
	preamble = regexp.MustCompile(`(?i)^(?:please|(?:search|look|browse)(?:\s+(?:on|in))?\s+(?:the\s+)?(?:web|internet)(?:\s+(?:for|about))?|` +
		`search\s+for|look\s+up|google)(?:[\s,:]+|$)`)
)

// The longest bare topic, in words, and in characters for scripts that put no space between them.
const (
	topicWords = 5
	topicRunes = 40
)

// isTopic reports whether a message is nothing but a few words to look up, such as a name.
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

// query gives what to search for, no longer than search tools take: the message, for the web without what is none of it.
func query(message, tool string) string {
	text := strings.Join(strings.Fields(message), " ")
	if tool == toolWebSearch {
		bare := text
		for at := preamble.FindStringIndex(bare); at != nil; at = preamble.FindStringIndex(bare) {
			bare = bare[at[1]:]
		}
		if bare = strings.TrimRight(bare, ". "); bare != "" {
			text = bare
		}
	}
	return clip(text, maxQuery)
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
	return strings.HasSuffix(message, "?") || strings.HasSuffix(message, "？") || strings.HasSuffix(message, "؟") ||
		questioning.MatchString(message)
}

// codeFor gives Python for a message with code blocks or a calculation, and where a program can be run for any computation
// that is understood, "" for any other; and says what of the message is not run.
func codeFor(message string, runs bool) (code, lack string) {
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
	}
	if e, ok := findExpression(message); ok {
		return "print(" + strings.ReplaceAll(e, "^", "**") + ")\n", ""
	}
	return "", ""
}

// codeCall has a program run, with the files that the message names beside a code block.
func codeCall(t llm.ToolSpec, code, message string) llm.ToolCall {
	args := map[string]any{textProperty(t, "code"): code}
	if files := filesFor(t, message); len(files) > 0 && codeBlock.MatchString(message) {
		args["files"] = files
	}
	return newCall(t, args)
}

// named gives the tools that a message names, those with a use of their own apart, and what the message says to each:
// by name, or else by all words of a name, where a name whose words are all in another's that is named too does not count.
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
	loose = slices.DeleteFunc(slices.Clone(loose), func(t llm.ToolSpec) bool {
		return slices.ContainsFunc(loose, func(o llm.ToolSpec) bool {
			words := nameWords(o.Name)
			return len(words) > len(nameWords(t.Name)) && containsAll(setFor(strings.Join(words, " ")), nameWords(t.Name))
		})
	})
	return loose, passages(loose, message, func(t llm.ToolSpec) []string { return ownWords(t, loose) })
}

// ownWords gives the words of a tool's name that are in no other's.
func ownWords(t llm.ToolSpec, all []llm.ToolSpec) []string {
	return slices.DeleteFunc(nameWords(t.Name), func(w string) bool {
		return slices.ContainsFunc(all, func(o llm.ToolSpec) bool { return o.Name != t.Name && slices.Contains(nameWords(o.Name), w) })
	})
}

// passages takes a message that names several tools apart, so that none is called with what is said to another: each
// has what stands from its name to the next one's.
func passages(tools []llm.ToolSpec, message string, names func(llm.ToolSpec) []string) []string {
	spoken := make([]string, len(tools))
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
