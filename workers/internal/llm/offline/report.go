package offline

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/workers/internal/llm"
)

// fromResults answers from tool results. It quotes their sources with markers or, if there are no
// sources, describes the output of the tools. It omits a failed search if another search found the
// answer.
func fromResults(results []llm.ToolResult, message string) string {
	var parts []string
	q := parseQuestion(message)
	if silent := fromDocuments(results, q); silent != "" {
		parts = append(parts, silent)
	}

	found := fromSources(results, q)
	if found != "" {
		parts = append(parts, found)
	}
	for _, r := range results {
		if r.Failed && found != "" && searches(r) {
			continue
		}
		// An empty search in documents was already reported as notSaid.
		if r.Failed || len(r.Sources) == 0 && plain(r.Name) != toolKnowledge {
			parts = append(parts, report(r, message))
		}
	}
	return strings.Join(parts, "\n\n")
}

// toolOutput contains the fields of tool outputs that the model supports.
type toolOutput struct {
	Error     string          `json:"error"`
	Note      string          `json:"note"`
	Stdout    string          `json:"stdout"`
	Stderr    string          `json:"stderr"`
	Status    int             `json:"status"`
	Body      json.RawMessage `json:"body"`
	Text      string          `json:"text"`
	Truncated bool            `json:"truncated"`
}

// report describes the result of a call that failed or has no sources.
func report(r llm.ToolResult, message string) string {
	if program, ok := programOutput(r); ok {
		if results := computed(message, program); results != "" && !r.Failed {
			return results
		}
		return codeReport(r.Failed, program)
	}
	return plainReport(r)
}

// plainReport describes the result of a tool without its own rules.
func plainReport(r llm.ToolResult) string {
	var out toolOutput
	if json.Unmarshal(r.Output, &out) != nil {
		out = toolOutput{} // the output is not an object, or its fields have unexpected types
	}
	switch {
	case r.Failed && refused(out.Error):
		return fmt.Sprintf("A person refused the call of %s, so it was not made.", r.Name)
	case r.Failed:
		return fmt.Sprintf("%s failed: %s", r.Name, excerpt(outputText(r.Output, out), quotedText))
	case searches(r):
		return r.Name + " found nothing."
	case out.Note != "" && out.Status == 0 && out.Text == "":
		return fmt.Sprintf("%s: %s", r.Name, excerpt(out.Note, quotedText))
	}

	text := outputText(r.Output, out)
	answered := r.Name + " answered"
	if out.Status != 0 {
		answered += fmt.Sprintf(" with status %d", out.Status)
	}
	if strings.TrimSpace(text) == "" {
		return answered + ", and said nothing."
	}
	if out.Truncated {
		text += "\n(cut here: the output is longer)"
	}
	return fmt.Sprintf("%s:\n\n```\n%s\n```", answered, fenced(text))
}

// refused reports whether the call failed because a person rejected it. It recognizes the service's
// own messages.
func refused(reason string) bool {
	return strings.Contains(reason, "person") && (strings.Contains(reason, "refused") || strings.Contains(reason, "denied"))
}

// searches reports whether a result comes from a search tool.
func searches(r llm.ToolResult) bool {
	return plain(r.Name) == toolKnowledge || plain(r.Name) == toolWebSearch
}

// outputText returns a tool's output as text. If the output is a string, the output of a program or
// an HTTP response, it returns the text inside. Otherwise it returns the JSON.
func outputText(output json.RawMessage, out toolOutput) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	// The output is a response of an HTTP endpoint.
	if out.Status != 0 {
		if len(out.Body) == 0 || string(out.Body) == "null" {
			return ""
		}
		return outputText(out.Body, toolOutput{})
	}

	if printed := strings.TrimSpace(out.Stdout + "\n" + out.Stderr + "\n" + out.Text + "\n" + out.Error); printed != "" {
		return printed
	}
	return compact(output)
}
