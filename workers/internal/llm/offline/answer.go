package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// Bounds of what an answer quotes, in characters but for the number of sources.
const (
	quotedSources = 3
	quotedText    = 300
	quotedOutput  = 2000
)

// answer writes the answer to a prompt, from the results of tools if there are any.
func (p prompt) answer() string {
	if len(p.results) > 0 {
		return p.fromResults()
	}
	for _, rule := range []func() string{p.pleasantry, p.arithmetic, p.fromMemory, p.fromData, p.fromInstructions} {
		if text := rule(); text != "" {
			return text
		}
	}
	if isQuestion(p.message) {
		return fmt.Sprintf("You asked: “%s”. I have no tool and no note that answers this, and without a language model I do not guess.",
			excerpt(p.message, quotedText))
	}
	return fmt.Sprintf("I have read your message (%d words): “%s”.", countWords(p.message), excerpt(p.message, quotedText))
}

var (
	greeting = regexp.MustCompile(`(?i)^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening))\b[\s,!.\pL]{0,20}$`)
	thanking = regexp.MustCompile(`(?i)^\s*(?:thanks|thank you|cheers)\b[\s,!.\pL]{0,20}$`)
)

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
		return expression + " ≈ " + value
	}
}

// fromData names what was sent along, and the value of a key that the message asks for.
func (p prompt) fromData() string {
	var data map[string]json.RawMessage
	if len(p.data) == 0 || json.Unmarshal(p.data, &data) != nil || len(data) == 0 {
		return ""
	}
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if len(k) > 1 && mentions(p.message, k) {
			return fmt.Sprintf("The data sent along says %s is %s.", k, excerpt(compact(data[k]), quotedText))
		}
	}
	return fmt.Sprintf("I have read your message, “%s”, and the data sent along (%s).",
		excerpt(p.message, quotedText), excerpt(strings.Join(keys, ", "), quotedText))
}

// fromInstructions looks for a fact among the system prompt's sentences; orders to the agent are none.
func (p prompt) fromInstructions() string {
	if !isQuestion(p.message) {
		return ""
	}
	sentence, score := bestSentence(p.system, words(p.message), func(s string) bool { return !isOrder(s) })
	if score < 2 {
		return ""
	}
	return "From what I have been told: " + excerpt(sentence, quotedText)
}

var order = regexp.MustCompile(`(?i)^(?:you|your|always|never|do|don't|use|answer|be|if|when|please|act|reply|respond|keep|write|say|refuse|avoid|only)\b`)

func isOrder(sentence string) bool { return order.MatchString(sentence) }

// fromResults answers from what the tools found: their sources with markers, else their output.
func (p prompt) fromResults() string {
	var found, rest []string
	asked := words(p.message)
	for _, r := range p.results {
		switch {
		case r.Failed:
			rest = append(rest, fmt.Sprintf("%s failed: %s", r.Name, excerpt(outputText(r.Output), quotedText)))
		case len(r.Sources) > 0:
			for _, s := range r.Sources {
				if len(found) < quotedSources {
					found = append(found, fmt.Sprintf("- %s [%d]", quote(s, asked), s.ID))
				}
			}
		case searches(r):
			rest = append(rest, fmt.Sprintf("%s found nothing.", r.Name))
		default:
			rest = append(rest, fmt.Sprintf("%s answered:\n\n```\n%s\n```", r.Name, fenced(outputText(r.Output))))
		}
	}
	if len(found) > 0 {
		rest = append([]string{"This is what I found:\n\n" + strings.Join(found, "\n")}, rest...)
	}
	return strings.Join(rest, "\n\n")
}

func searches(r llm.ToolResult) bool {
	return plain(r.Name) == toolKnowledge || plain(r.Name) == toolWebSearch
}

// foreignMarkers are numbers in brackets that a source brought along; in an answer they would cite something else.
var foreignMarkers = regexp.MustCompile(`\[\s*\d+\s*\]`)

func quote(s domain.Citation, asked []string) string {
	text, _ := bestSentence(foreignMarkers.ReplaceAllString(s.CitedText, ""), asked, nil)
	if text == "" {
		text = strings.TrimSpace(foreignMarkers.ReplaceAllString(s.Title, ""))
	}
	if text == "" {
		text = "Untitled"
	}
	return excerpt(text, quotedText)
}

var sentenceEnd = regexp.MustCompile(`[.!?](?:\s+|$)|\n+`)

// bestSentence gives the first sentence with the most of the words asked for, and how many it has.
func bestSentence(text string, asked []string, allowed func(string) bool) (best string, score int) {
	score = -1
	for text != "" {
		end := len(text)
		if at := sentenceEnd.FindStringIndex(text); at != nil {
			end = at[1]
		}
		sentence := strings.TrimSpace(text[:end])
		text = text[end:]
		if sentence == "" || (allowed != nil && !allowed(sentence)) {
			continue
		}
		if n := overlap(words(sentence), asked); n > score {
			best, score = sentence, n
		}
	}
	return best, score
}

func overlap(have, asked []string) int {
	n := 0
	for i, w := range asked {
		if !slices.Contains(asked[:i], w) && slices.Contains(have, w) {
			n++
		}
	}
	return n
}

// outputText gives a tool's output for reading: a text as it is, what a program printed, else the JSON.
func outputText(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var ran struct {
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
		Error  string `json:"error"`
	}
	if json.Unmarshal(output, &ran) == nil {
		if text := strings.TrimSpace(ran.Stdout + "\n" + ran.Stderr + "\n" + ran.Error); text != "" {
			return text
		}
	}
	return compact(output)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// fenced makes a text fit between code fences.
func fenced(text string) string {
	return excerpt(strings.ReplaceAll(strings.TrimRight(text, "\n"), "```", "'''"), quotedOutput)
}

// excerpt trims a text to so many characters.
func excerpt(text string, n int) string {
	text = strings.TrimSpace(text)
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return strings.TrimSpace(string(runes[:n])) + "…"
}
