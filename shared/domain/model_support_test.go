package domain_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
)

// faults returns the settings that a model does not accept, as a text with spaces between them.
func faults(t *testing.T, rules domain.ModelRules, model, settings string, fallbacks ...string) string {
	t.Helper()
	var s domain.ModelSettings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range rules.Faults(model, fallbacks, s) {
		if f.Message == "" || !strings.Contains(f.Message, "/") && !strings.Contains(f.Message, "offline") {
			t.Errorf("%s: the message names no model: %q", model, f.Message)
		}
		names = append(names, string(f.Setting))
	}
	return strings.Join(names, " ")
}

func TestSettingsThatModelsAccept(t *testing.T) {
	t.Parallel()
	const all = `{"temperature":0.5,"topP":0.5,"maxOutputTokens":9,"reasoningEffort":"low","seed":1,"stop":["x"],"parallelToolCalls":false}`
	for _, c := range []struct{ model, settings, want string }{
		{"offline", all, ""},
		{"offline/echo", all, ""},
		{"openai/gpt-6", all, ""}, // no entry of the table matches
		{"openai/gpt-4.1-mini", all, "reasoningEffort"},
		{"openai/gpt-4o", `{"temperature":2,"topP":0}`, ""},
		{"openai/gpt-5-chat-latest", `{"temperature":0.3,"stop":["x"]}`, ""},
		{"openai/gpt-5-mini", all, "temperature topP stop"},
		{"openai/gpt-5", `{"reasoningEffort":"minimal","temperature":1,"topP":1}`, ""},
		{"openai/gpt-5-nano", `{"reasoningEffort":"none"}`, "reasoningEffort"},
		{"openai/gpt-5.1", `{"temperature":0.2,"reasoningEffort":"none"}`, ""},
		{"openai/gpt-5.1", `{"temperature":0.2}`, ""},
		{"openai/gpt-5.1", `{"temperature":0.2,"topP":0.1,"reasoningEffort":"low"}`, "temperature topP"},
		{"openai/gpt-5.1", `{"temperature":1,"topP":1,"reasoningEffort":"low"}`, ""},
		{"openai/gpt-5.1", `{"reasoningEffort":"xhigh","stop":["x"]}`, "reasoningEffort stop"},
		{"openai/gpt-5.2", `{"reasoningEffort":"xhigh"}`, ""},
		{"openai/gpt-5.5", `{"stop":["x"],"temperature":0}`, ""},
		{"openai/o3", all, "temperature topP stop parallelToolCalls"},
		{"openai/o4-mini", `{"parallelToolCalls":true}`, ""},
		{"anthropic/claude-3-5-haiku-latest", all, "reasoningEffort seed"},
		{"anthropic/claude-3-5-haiku-latest", `{"temperature":1.1}`, "temperature"},
		{"anthropic/claude-sonnet-4-5", `{"temperature":0.2,"topP":0.5}`, "topP"},
		{"anthropic/claude-sonnet-4-5", `{"temperature":0.2,"topP":1}`, ""},
		{"anthropic/claude-haiku-4-5", `{"reasoningEffort":"low"}`, "reasoningEffort"},
		{"anthropic/claude-opus-4-5", `{"reasoningEffort":"high"}`, ""},
		{"anthropic/claude-opus-4-6", `{"reasoningEffort":"minimal"}`, "reasoningEffort"},
		{"anthropic/claude-opus-4-8", `{"temperature":0.2}`, "temperature"},
		{"anthropic/claude-sonnet-5-5", all, "temperature topP seed"},
		{"anthropic/claude-sonnet-5-5", `{"temperature":1,"topP":1,"reasoningEffort":"xhigh"}`, ""},
		{"anthropic/claude-sonnet-5-5", `{"stop":["a"," \n"]}`, "stop"},
		{"anthropic/other", all, "seed"},
		{"", all, "temperature topP stop"}, // the default model
	} {
		if got := faults(t, domain.ModelRules{DefaultModel: "openai/gpt-5-mini"}, c.model, c.settings); got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.model, c.settings, got, c.want)
		}
	}

	if got := faults(t, domain.ModelRules{OpenAICompatible: true}, "openai/gpt-5-mini", all); got != "" {
		t.Errorf("a compatible server: %q", got)
	}
	if got := faults(t, domain.ModelRules{OpenAICompatible: true}, "anthropic/claude-sonnet-5-5", `{"seed":1}`); got != "seed" {
		t.Errorf("Anthropic beside a compatible server: %q", got)
	}
	if got := faults(t, domain.ModelRules{}, "openai/gpt-4o", `{"seed":1,"stop":["x"]}`, "openai/o3", "anthropic/claude-3-x"); got != "stop seed" {
		t.Errorf("fallback models: %q", got)
	}
}

func TestValuesThatNoModelAccepts(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		`{}`: "",
		`{"temperature":0,"topP":0,"maxOutputTokens":1,"seed":-9007199254740991,"stop":["\n\n"]}`:               "",
		`{"temperature":2,"topP":1,"maxOutputTokens":1000000,"seed":9007199254740991,"stop":["a","b","c","d"]}`: "",
		`{"temperature":-0.1,"topP":1.1,"maxOutputTokens":0,"reasoningEffort":"much","seed":9007199254740992}`:  "temperature topP maxOutputTokens reasoningEffort seed",
		`{"temperature":2.1,"maxOutputTokens":1000001,"reasoningEffort":""}`:                                    "temperature maxOutputTokens reasoningEffort",
		`{"stop":["a","","` + strings.Repeat("ü", 257) + `","a\u0000"]}`:                                        "stop[1] stop[2] stop[3]",
		`{"stop":["a","b","c","d","e"]}`: "stop",
	} {
		var s domain.ModelSettings
		if err := json.Unmarshal([]byte(settings), &s); err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, p := range s.Problems() {
			paths = append(paths, p.Path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
}

func TestSettingsOfRequestsTakePrecedence(t *testing.T) {
	t.Parallel()
	agent := domain.ModelSettings{Temperature: new(0.2), Seed: new(int64(7)), Stop: []string{"a"}}
	asked := &domain.RunSettings{
		ModelSettings: domain.ModelSettings{Temperature: new(0.0), TopP: new(0.5)}, Cleared: []domain.Setting{domain.SettingSeed},
	}
	want := domain.ModelSettings{Temperature: new(0.0), TopP: new(0.5), Stop: []string{"a"}}
	if got := asked.Over(agent); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := (*domain.RunSettings)(nil).Over(agent); !reflect.DeepEqual(got, agent) {
		t.Errorf("without a request's: %+v", got)
	}
	if got := asked.Names(); !reflect.DeepEqual(got, []domain.Setting{"temperature", "topP", "seed"}) {
		t.Errorf("names %v", got)
	}
	if new(domain.ModelSettings).Pointer() != nil || agent.Pointer() == nil {
		t.Error("wrong about empty settings")
	}

	// Every setting has a name, and every name belongs to a field.
	var s domain.ModelSettings
	fields := reflect.TypeFor[domain.ModelSettings]()
	if fields.NumField() != len(domain.ModelSettingNames) {
		t.Fatalf("%d fields, %d names", fields.NumField(), len(domain.ModelSettingNames))
	}
	whole := domain.ModelSettings{
		Temperature: new(0.0), TopP: new(0.0), MaxOutputTokens: new(int64(0)), ReasoningEffort: new(""), Seed: new(int64(0)),
		Stop: []string{""}, ParallelToolCalls: new(false),
	}
	for i, name := range domain.ModelSettingNames {
		tag, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if s.Copy(name, whole); tag != string(name) || !s.Has(name) || reflect.ValueOf(s).Field(i).IsZero() {
			t.Errorf("%s is not the field %s", name, tag)
		}
	}
}
