package offline

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/workers/internal/llm"
)

// codeOutput is the output of the tool codeExecution.
// Fields that another version of the tool adds are ignored.
type codeOutput struct {
	Error  string `json:"error"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Value  string `json:"value"`
	Limit  string `json:"limit"`
	Note   string `json:"note"`
	Files  []struct {
		Name string `json:"name"`
	} `json:"files"`
}

// programOutput parses the output of a program that a tool executed. It returns false if the result
// has another form.
func programOutput(r llm.ToolResult) (codeOutput, bool) {
	// Every output of a program has the field stdout, even if the program printed nothing.
	var out codeOutput
	var object map[string]json.RawMessage
	if plain(r.Name) != toolCode || json.Unmarshal(r.Output, &object) != nil || object["stdout"] == nil {
		return out, false
	}
	return out, json.Unmarshal(r.Output, &out) == nil
}

// codeReport describes the output and the files of a program, or the error with which it ended.
func codeReport(failed bool, out codeOutput) string {
	var parts []string
	printed := strings.TrimSpace(strings.TrimRight(out.Stdout, "\n") + "\n" + strings.TrimRight(out.Stderr, "\n"))
	switch {
	case failed:
		text := strings.TrimRight(out.Error, "\n ")
		parts = append(parts, fmt.Sprintf("The program failed: %s", excerpt(unfenced.Replace(errorLine(text, out.Limit != "")), quotedText)))
		// An error of several lines, such as a traceback, is also shown completely.
		if sentence, rest, more := strings.Cut(text, "\n"); more {
			if out.Limit != "" && sentence != "" { // the first part of the answer already mentions the limit
				text = rest
			}
			parts = append(parts, block(text))
		}
		if printed != "" {
			parts = append(parts, "Before that it printed:", block(printed))
		}
	case printed != "":
		parts = append(parts, "The program printed:", block(printed))
	case out.Value == "":
		parts = append(parts, "The program printed nothing.")
	}

	if out.Value != "" {
		parts = append(parts, "The value of the last expression:", block(out.Value))
	}
	return strings.Join(append(parts, out.left()...), "\n\n")
}

// block formats a text as a code block. It keeps the indentation of the text's lines.
func block(text string) string {
	text = strings.ReplaceAll(strings.Trim(text, "\n"), "```", "'''")
	// Trailing white space alone is not an omission.
	if short := truncateWords(text, quotedOutput); short != strings.TrimSpace(text) && short != text {
		text = short + "…"
	}
	return "```\n" + text + "\n```"
}

// errorLine returns the line of an error message that names the error. If a limit ended the
// program, this is the first line. Otherwise it is the last line of a traceback.
func errorLine(text string, limit bool) string {
	lines := strings.Split(text, "\n")
	if limit {
		return lines[0]
	}
	return lines[len(lines)-1]
}

// left returns sentences about a program's notes and about the files that the program created. The
// file of a plot is only named, because people see the plot.
func (o codeOutput) left() []string {
	var names, parts []string
	for _, f := range o.Files {
		if f.Name == plotFile {
			parts = append(parts, "The plot is in the file "+plotFile+".")
			continue
		}
		names = append(names, "`"+unfenced.Replace(excerpt(f.Name, quotedText))+"`")
	}

	switch {
	case len(names) == 1:
		parts = append(parts, "It left the file "+names[0]+".")
	case len(names) > 1:
		parts = append(parts, "It left the files "+excerpt(strings.Join(names, ", "), quotedOutput)+".")
	}

	if o.Note != "" {
		parts = append(parts, excerpt(unfenced.Replace(o.Note), quotedText))
	}
	return parts
}
