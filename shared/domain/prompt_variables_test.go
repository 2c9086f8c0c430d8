package domain_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
)

func TestPromptsAreFilled(t *testing.T) {
	t.Parallel()
	values := domain.PromptValues{
		Organization: "Acme {{now}}", Now: time.Date(2026, 11, 29, 8, 5, 0, 123_456_789, time.FixedZone("", 3600)), SessionID: "s-1",
		Message: "hello", Input: json.RawMessage(`{"name":"Ada <b>","n":9007199254740993,"ok":true,"none":null,"deep":{"a":{"b":"c"},"l":[1,"<"]},"x":"{{session.id}}"}`),
	}
	for prompt, want := range map[string]string{
		"plain":                          "plain",
		"":                               "",
		"}} { {":                         "}} { {",
		"of {{organization.name}}":       "of Acme {{now}}", // a variable in a value is not replaced
		"{{ now }}|{{session.id}}":       "2026-11-29T07:05:00.123Z|s-1",
		"{{input.name}}, {{input.n}}":    "Ada <b>, 9007199254740993",
		"{{input.message}}":              "hello",
		"{{input.ok}}{{input.none}}":     "true",
		"[{{input.gone}}{{input.n.x}}]":  "[]",
		"{{input.deep.a.b}}":             "c",
		"{{input.deep.a}}":               `{"b":"c"}`,
		"{{input.deep.l}}":               `[1,"<"]`,
		"{{input.x}}":                    "{{session.id}}",
		`\{{now}} {{now}}`:               "{{now}} 2026-11-29T07:05:00.123Z",
		`a \{{ b \{{ c`:                  "a {{ b {{ c",
		"old {{customer}} and {{now}}":   "old {{customer}} and {{now}}", // prompts from before variables existed stay unchanged
		"{{#if x}}":                      "{{#if x}}",
		"ends with {{":                   "ends with {{",
		"{{input.ünïcode-1}}{{input.a}}": "",
	} {
		if got, err := domain.FillPrompt(prompt, values); err != nil || got != want {
			t.Errorf("%q becomes %q, %v, want %q", prompt, got, err, want)
		}
	}
	if got, err := domain.FillPrompt("{{input.a}}{{input.message}}", domain.PromptValues{Message: "m"}); err != nil || got != "m" {
		t.Errorf("without data: %q, %v", got, err)
	}
}

func TestPromptsWithWrongVariables(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"ü {{customer}}":                         "{{customer}} at character 3 is unknown",
		"{{input}}":                              "{{input}} at character 1 needs the name of a field",
		"{{ input }}":                            "needs the name of a field",
		"a {{now":                                "at character 3 has no end",
		"{{now}} {{":                             "at character 9 has no end",
		"{{}}":                                   "is unknown",
		"{{input.}}":                             "is unknown",
		"{{input..a}}":                           "is unknown",
		"{{input.a b}}":                          "is unknown",
		"{{Now}}":                                "is unknown",
		"{{organization.id}}":                    "is unknown",
		"{{input.a.b.c.d.e.f.g.h.i}}":            "is unknown",
		"{{{now}}}":                              "is unknown",
		strings.Repeat("{{now}}", 2_000) + "{{x": "has no end",
	} {
		if err := domain.CheckPrompt(prompt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v", prompt, err)
		}
	}
	for _, prompt := range []string{"", "x", `\{{customer}}`, "{{input.message}}", "{{ organization.name }}"} {
		if err := domain.CheckPrompt(prompt); err != nil {
			t.Errorf("%q: %v", prompt, err)
		}
	}
	if !domain.PromptUses("{{organization.name}}") || domain.PromptUses(`{{now}} \{{organization.name}}`) {
		t.Error("wrong about the organization's name")
	}
}

// A prompt with thousands of variables, each with a value of 2 MiB, does not become a text of
// gigabytes.
func TestFilledPromptsAreBounded(t *testing.T) {
	t.Parallel()
	values := domain.PromptValues{Input: json.RawMessage(`{"a":"` + strings.Repeat("ü", 1_000_000) + `"}`)}
	if got, err := domain.FillPrompt(strings.Repeat("{{input.a}}", 2_900), values); err == nil {
		t.Errorf("filled with %d bytes", len(got))
	}
	values.Input = json.RawMessage(`{"a":"` + strings.Repeat("ü", domain.MaxFilledPrompt) + `"}`)
	if got, err := domain.FillPrompt("{{input.a}}", values); err != nil || len(got) != 2*domain.MaxFilledPrompt {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// FillPrompt returns the same as referencePrompt, a simple implementation of the documented rules.
func FuzzFillPrompt(f *testing.F) {
	for _, seed := range [][2]string{
		{"{{now}} {{input.a}} \\{{", `{"a":"{{now}}"}`},
		{"{{input.a.b}}{{", `{"a":{"b":[1]}}`},
		{"{{ input.a.b }}|{{\tsession.id\n}}|{{organization.name}}", `{"a":{"b":[1,"<",null]}}`},
		{"{{input.message}}{{input.none}}{{input.gone.deeper}}", `{"message":1,"none":null,"gone":"text"}`},
		{`\\{{now}}\{{{{now}}}}{{{`, `{}`},
		{"{{input}}", `{"":1}`},
		{"{{input.a.b.c.d.e.f.g.h}}{{input.ä}}", `[1]`},
		{"{{input.a}}", `{"a":{"z":1e400,"b":{"y":"\u2028&"}},"a":{"z":-0}}`},
		{"{{input." + strings.Repeat("a", 64) + "}}", ""},
		{strings.Repeat("{{input.a}}", 7), `{"a":"` + strings.Repeat("ü", domain.MaxFilledPrompt/7+1) + `"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prompt, input string) {
		values := domain.PromptValues{
			Organization: "{{session.id}}", Now: time.Unix(1_800_000_000, 0), SessionID: "s", Message: "{{session.id}}", Input: json.RawMessage(input),
		}
		got, err := domain.FillPrompt(prompt, values)
		if !utf8.ValidString(prompt) || input != "" && !json.Valid([]byte(input)) {
			return // such requests are rejected earlier
		}
		want, valid := referencePrompt(prompt, values)
		if (domain.CheckPrompt(prompt) == nil) != valid {
			t.Errorf("%q is valid: %t", prompt, valid)
		}
		if tooLong := valid && strings.Contains(prompt, "{{") && utf8.RuneCountInString(want) > domain.MaxFilledPrompt; tooLong {
			want = ""
			if err == nil {
				t.Errorf("%q with %q has no error", prompt, input)
			}
		} else if err != nil {
			t.Errorf("%q with %q: %v", prompt, input, err)
		}
		if got != want {
			t.Errorf("%q with %q became %q, want %q", prompt, input, got, want)
		}
	})
}

// referencePrompt fills a prompt without a limit on its length, one byte at a time. If the prompt
// has an invalid variable, it returns the prompt unchanged and false.
func referencePrompt(prompt string, values domain.PromptValues) (filled string, valid bool) {
	for rest := prompt; rest != ""; {
		if literal, found := strings.CutPrefix(rest, `\{{`); found {
			filled, rest = filled+"{{", literal
			continue
		}
		variable, found := strings.CutPrefix(rest, "{{")
		if !found {
			filled, rest = filled+rest[:1], rest[1:]
			continue
		}
		name, after, closed := strings.Cut(variable, "}}")
		value, known := referenceValue(strings.TrimSpace(name), values)
		if !closed || !known {
			return prompt, false
		}
		filled, rest = filled+value, after
	}
	return filled, true
}

// referenceValue returns the value of a variable. It returns false if there is no such variable.
func referenceValue(name string, values domain.PromptValues) (string, bool) {
	switch name {
	case "organization.name":
		return values.Organization, true
	case "now":
		return values.Now.UTC().Format("2006-01-02T15:04:05.000Z"), true
	case "session.id":
		return values.SessionID, true
	}
	root, path, _ := strings.Cut(name, ".")
	fields := strings.Split(path, ".")
	if root != "input" || len(fields) > 8 {
		return "", false
	}
	for _, field := range fields {
		if field == "" || utf8.RuneCountInString(field) > 64 || strings.ContainsAny(field, "{} \t\n\f\r") {
			return "", false
		}
	}
	if path == "message" {
		return values.Message, true
	}

	at := values.Input
	for _, field := range fields {
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return "", true
		}
		at = object[field]
	}
	var text *string
	if at == nil || json.Unmarshal(at, &text) == nil {
		if text == nil {
			return "", true // missing or null
		}
		return *text, true
	}

	// Other values are compact JSON with sorted keys and without escapes for HTML.
	var value any
	var out strings.Builder
	decoder, encoder := json.NewDecoder(bytes.NewReader(at)), json.NewEncoder(&out)
	decoder.UseNumber()
	encoder.SetEscapeHTML(false)
	if err := decoder.Decode(&value); err != nil {
		return "", true
	}
	if err := encoder.Encode(value); err != nil {
		return "", true
	}
	return strings.TrimSuffix(out.String(), "\n"), true
}
