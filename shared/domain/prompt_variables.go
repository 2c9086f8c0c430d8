package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxFilledPrompt is the maximum number of characters of a system prompt with the values of its
// variables.
const MaxFilledPrompt = 64_000

// PromptValues are the values of the variables in a system prompt.
type PromptValues struct {
	Organization string          // name of the organization in which the run is executed
	Now          time.Time       // creation of the run
	SessionID    string          // the run's session
	Message      string          // for input.message
	Input        json.RawMessage // the other fields of the input, an object; nil: none
}

// The variables of a system prompt. A name that begins with variableInput and a dot is a path in
// the run's input.
const (
	variableOrganization = "organization.name"
	variableNow          = "now"
	variableSession      = "session.id"
	variableInput        = "input"
)

// inputPath matches the names of variables of the input.
var inputPath = regexp.MustCompile(`^input(\.[^\s.{}]{1,64}){1,8}$`)

// promptPart is a part of a prompt: a text, or a variable.
type promptPart struct {
	text     string
	variable bool
}

// parsePrompt splits a prompt into its parts. A variable is {{name}}, with or without spaces around
// the name. After a backslash, {{ is literal text. The error contains the name of the invalid
// variable and its position.
func parsePrompt(prompt string) ([]promptPart, error) {
	var parts []promptPart
	for rest := prompt; ; {
		at := strings.Index(rest, "{{")
		if at < 0 {
			// The rest is the text after the last variable.
			return append(parts, promptPart{text: rest}), nil
		}
		// A backslash makes the braces literal text. The backslash itself is dropped.
		if at > 0 && rest[at-1] == '\\' {
			parts, rest = append(parts, promptPart{text: rest[:at-1] + "{{"}), rest[at+2:]
			continue
		}

		// Editors count characters from 1.
		position := utf8.RuneCountInString(prompt[:len(prompt)-len(rest)+at]) + 1
		length := strings.Index(rest[at:], "}}")
		if length < 0 {
			return nil, fmt.Errorf(`the variable at character %d has no end: write }} after its name, or \{{ for the text {{`, position)
		}
		name := strings.TrimSpace(rest[at+2 : at+length])
		switch {
		case name == variableOrganization, name == variableNow, name == variableSession, inputPath.MatchString(name):
		case name == variableInput:
			return nil, fmt.Errorf("the variable {{input}} at character %d needs the name of a field, such as {{input.customer}}", position)
		default:
			return nil, fmt.Errorf(`the variable {{%s}} at character %d is unknown: the variables are organization.name, now, `+
				`session.id and the fields of input, such as input.customer; write \{{ for the text {{`, shortName(name), position)
		}
		parts, rest = append(parts, promptPart{text: rest[:at]}, promptPart{text: name, variable: true}), rest[at+length+2:]
	}
}

// shortName returns the beginning of a variable's name, for an error message.
func shortName(name string) string {
	const most = 40
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	return string(runes[:most]) + "…"
}

// CheckPrompt returns an error if a system prompt has an unknown variable or a variable that is not
// closed. The error is a message for the author of the prompt.
func CheckPrompt(prompt string) error {
	_, err := parsePrompt(prompt)
	return err
}

// PromptUses reports whether a valid system prompt contains the variable for the organization's
// name. The name is read from the database only if a prompt uses it.
func PromptUses(prompt string) (organization bool) {
	parts, err := parsePrompt(prompt)
	if err != nil {
		return false
	}
	for _, p := range parts {
		organization = organization || p.variable && p.text == variableOrganization
	}
	return organization
}

// LongPromptMessage is the message for a prompt that the values of its variables make too long.
const LongPromptMessage = "The system prompt is longer than 64,000 characters after its variables are filled in."

var errLongPrompt = errors.New("the system prompt is too long after its variables are filled in")

// FillPrompt replaces the variables of a system prompt by their values. A missing value is empty. A
// variable inside a value is not replaced. A prompt with an invalid variable is returned unchanged,
// because agents that were created before variables existed may have such prompts. The result has
// at most MaxFilledPrompt characters.
func FillPrompt(prompt string, values PromptValues) (string, error) {
	if !strings.Contains(prompt, "{{") {
		return prompt, nil
	}
	parts, err := parsePrompt(prompt)
	if err != nil {
		return prompt, nil //nolint:nilerr // see the comment above
	}

	var out strings.Builder
	input := promptInput{message: values.Message, raw: values.Input}
	for left, i := MaxFilledPrompt, 0; i < len(parts); i++ {
		text := parts[i].text
		if parts[i].variable {
			text = values.value(text, &input)
		}
		// The length is checked before the text is added, so the prompt never exceeds the limit.
		if left -= utf8.RuneCountInString(text); left < 0 {
			return "", errLongPrompt
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// value returns the value of a variable.
func (v *PromptValues) value(name string, input *promptInput) string {
	switch name {
	case variableOrganization:
		return v.Organization
	case variableNow:
		return v.Now.UTC().Format(timeLayout)
	case variableSession:
		return v.SessionID
	default:
		return input.value(strings.Split(name, ".")[1:])
	}
}

// promptInput is the input of a run, which is parsed when it is first used.
type promptInput struct {
	message string
	raw     json.RawMessage
	fields  map[string]any
}

// value returns the text of the value at a path: a string unchanged, and any other value as JSON.
// It returns "" for null and for a missing value. Entries of lists have no path.
func (in *promptInput) value(path []string) string {
	if len(path) == 1 && path[0] == "message" {
		return in.message
	}
	if in.fields == nil {
		in.fields = map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(in.raw))
		decoder.UseNumber() // numbers stay as they were written
		if len(in.raw) > 0 && decoder.Decode(&in.fields) != nil {
			in.fields = map[string]any{}
		}
	}

	var value any = in.fields
	for _, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = object[name]
	}
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		return compactJSON(value)
	}
}

// compactJSON returns a decoded value as JSON, without escapes for HTML.
func compactJSON(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "" // unreachable: the value was decoded from JSON
	}
	return strings.TrimSuffix(out.String(), "\n")
}
