package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/shared/truncate"
	"parley/workers/internal/llm"
)

// Limits on the quotations in an answer: the number of sources, and lengths in characters.
const (
	quotedSources = 3
	quotedText    = 300
	quotedOutput  = 2000
)

// answer returns the answer to a prompt. It uses the tool results if there are any.
func (p prompt) answer() string {
	if len(p.results) > 0 {
		// The answer also names the tools that were not called. It may add a calculation and a hint
		// about searches of the web.
		parts := append([]string{fromResults(p.results, p.message)}, p.lacks...)
		parts = append(parts, p.withoutProgram()...)
		return strings.Join(append(parts, p.webOffer()...), "\n\n")
	}

	if len(p.lacks) > 0 {
		return strings.Join(p.lacks, "\n")
	}

	// Use the first rule that returns an answer.
	for _, rule := range []func() string{
		p.prepared, p.help, p.fromAttachments, p.pleasantry, p.arithmetic, p.fromMemory, p.fromData, p.fromInstructions,
	} {
		if text := rule(); text != "" {
			return text
		}
	}

	runs := find(p.tools, toolCode) >= 0
	switch {
	// An agent with code execution explains which programs the model can write.
	case runs && isQuestion(p.message):
		return fmt.Sprintf("You asked: “%s”. %s", excerpt(p.message, quotedText), noProgram)
	case isQuestion(p.message):
		return fmt.Sprintf("You asked: “%s”. I have no tool and no note that answers this, and without a language model I do not guess.",
			excerpt(p.message, quotedText))
	}

	read := fmt.Sprintf("I have read your message (%d words): “%s”.", countWords(p.message), excerpt(p.message, quotedText))
	if runs {
		return read + " " + noProgram
	}
	return read
}

// webOffer returns a sentence that explains how to search the web. It returns nothing if the agent
// cannot search the web, or if the documents answer the message.
func (p prompt) webOffer() []string {
	elsewhere := func(r llm.ToolResult) bool { return plain(r.Name) != toolKnowledge }
	if find(p.tools, toolWebSearch) < 0 || slices.ContainsFunc(p.results, elsewhere) {
		return nil
	}
	// A failed search does not show whether the documents contain the answer.
	failed := !slices.ContainsFunc(p.results, func(r llm.ToolResult) bool { return !r.Failed })
	if !failed && fromDocuments(p.results, parseQuestion(p.message)) != notSaid {
		return nil
	}
	return []string{"To search the web, begin your message with “search the web for”."}
}

// noProgram explains which code can run without a language model.
const noProgram = "Without a language model I write no program for this. I run a ```python block that you send, and I compute and plot " +
	"what I understand, such as “the mean of 3, 4 and 8” or “the squares of 1 to 10”."

// withoutProgram returns the result of a calculation as a sentence. The model calculates it itself,
// because the program for it has failed.
func (p prompt) withoutProgram() []string {
	failed := slices.ContainsFunc(p.results, func(r llm.ToolResult) bool { return r.Failed && plain(r.Name) == toolCode })
	if text := p.arithmetic(); failed && text != "" && !codeBlock.MatchString(p.message) {
		return []string{"Calculated without it: " + text}
	}
	return nil
}

// helping matches messages that ask what the agent can do.
var helping = regexp.MustCompile(`(?i)^\s*(?:(?:hi|hello|hey)\b[\s,!.]*)?(?:please\s+)?(?:help(?:\s+me)?|what\s+can\s+(?:you|i)\s+do(?:\s+(?:for\s+me|here|with\s+you))?|` +
	`what\s+(?:are\s+your\s+tools|tools\s+do\s+you\s+have))\s*[?.!]*\s*$`)

// asksForHelp reports whether the message only asks about the agent's abilities.
func (p prompt) asksForHelp() bool { return helping.MatchString(p.message) }

// help returns a list of the tools, each with the first sentence of its description.
func (p prompt) help() string {
	if !p.asksForHelp() {
		return ""
	}
	if len(p.tools) == 0 {
		// These abilities need no tools.
		return "I have no tools. I can calculate, and find what was said earlier in this session."
	}

	var b strings.Builder
	b.WriteString("I can use these tools:\n")
	for _, t := range p.tools {
		b.WriteString("\n- " + t.Name)
		if first := withoutMarkers(firstSentence(t.Description)); first != "" {
			b.WriteString(": " + excerpt(first, quotedText))
		}
	}
	return b.String()
}

// Patterns of messages that consist only of a greeting or of thanks.
var (
	greeting = regexp.MustCompile(`(?i)^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening))\b[\s,!.\pL]{0,20}$`)
	thanking = regexp.MustCompile(`(?i)^\s*(?:thanks|thank you|cheers)\b[\s,!.\pL]{0,20}$`)
)

// pleasantry returns the answer to a greeting or to thanks, or "" if the message is neither.
func (p prompt) pleasantry() string {
	switch {
	case greeting.MatchString(p.message):
		return "Hello. What can I do for you?"
	case thanking.MatchString(p.message):
		return "You are welcome."
	default:
		return ""
	}
}

// arithmetic returns the answer to a calculation, or "" if the message contains none. The answer
// repeats the calculation as it was understood.
func (p prompt) arithmetic() string {
	expression, ok := findExpression(p.message)
	if !ok {
		return ""
	}

	value, exact, err := calculate(expression)
	switch {
	case errors.Is(err, errZero):
		return expression + " has no value: it divides by zero."
	case err != nil:
		return expression + " is too large for me to calculate."
	case exact:
		return expression + " = " + value
	default:
		return expression + " ≈ " + rounded(value)
	}
}

// fromData answers with values from the data that was sent with the message. It returns the value
// of the first key that the message mentions, or else lists the keys.
func (p prompt) fromData() string {
	var data map[string]json.RawMessage
	if len(p.data) == 0 || json.Unmarshal(p.data, &data) != nil || len(data) == 0 {
		return ""
	}
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	// The order of a map is random, but the answer must always be the same.
	slices.Sort(keys)

	for _, k := range keys {
		if len(k) > 1 && mentions(p.message, k) {
			return fmt.Sprintf("The data sent along says %s is %s.", k, excerpt(compact(data[k]), quotedText))
		}
	}
	return fmt.Sprintf("I have read your message, “%s”, and the data sent along (%s).",
		excerpt(p.message, quotedText), excerpt(strings.Join(keys, ", "), quotedText))
}

// fromInstructions answers with a fact from the system prompt. A command to the agent is not a
// fact.
func (p prompt) fromInstructions() string {
	if !isQuestion(p.message) {
		return ""
	}
	q := parseQuestion(p.message)
	sentence, _ := bestSentence(p.system, q, func(p part) bool { return !isOrder(p.text) })
	// One common word is no evidence that the sentence is about the question.
	if q.count(sentence.text) < 2 {
		return ""
	}
	return "According to my instructions: " + excerpt(sentence.text, quotedText)
}

// order matches the beginning of a sentence that is a command to the agent.
var order = regexp.MustCompile(`(?i)^(?:you|your|always|never|do|don't|use|answer|be|if|when|please|act|reply|respond|keep|write|say|refuse|avoid|only)\b`)

// isOrder reports whether a sentence gives the agent a command instead of a fact.
func isOrder(sentence string) bool { return order.MatchString(sentence) }

// compact removes white space from JSON. It returns invalid JSON unchanged.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// fenced prepares a text for a code block. It truncates the text, and replaces the fences in it,
// which would end the block.
func fenced(text string) string {
	return excerpt(strings.ReplaceAll(strings.TrimRight(text, "\n"), "```", "'''"), quotedOutput)
}

// excerpt shortens a text to n characters and marks the omission.
func excerpt(text string, n int) string {
	text = strings.TrimSpace(text)
	if short := truncateWords(text, n); short != text {
		return short + "…"
	}
	return text
}

// truncateWords shortens a text to n characters, between two words if possible.
func truncateWords(text string, n int) string {
	kept := truncate.Runes(text, n)
	if len(kept) == len(text) {
		return text
	}
	text = kept
	if at := strings.LastIndexByte(text, ' '); at > len(text)*3/4 {
		text = text[:at]
	}
	return strings.TrimSpace(text)
}
