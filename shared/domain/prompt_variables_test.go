package domain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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

// FillPrompt fails only if the result is too long, and never replaces a variable in a value.
func FuzzFillPrompt(f *testing.F) {
	f.Add("{{now}} {{input.a}} \\{{", `{"a":"{{now}}"}`)
	f.Add("{{input.a.b}}{{", `{"a":{"b":[1]}}`)
	f.Fuzz(func(t *testing.T, prompt, input string) {
		values := domain.PromptValues{SessionID: "s", Message: "{{session.id}}", Input: json.RawMessage(input)}
		got, err := domain.FillPrompt(prompt, values)
		if err != nil && len(prompt)+2_000*len(input) < domain.MaxFilledPrompt && !strings.Contains(prompt, "{{") {
			t.Errorf("%q with %q: %v", prompt, input, err)
		}
		if domain.CheckPrompt(prompt) != nil && got != prompt {
			t.Errorf("the wrong prompt %q became %q", prompt, got)
		}
	})
}
