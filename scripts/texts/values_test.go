package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	yaml "github.com/oasdiff/yaml3"

	"parley/shared/testkit"
)

// worded lists the enumerations of the API that the dashboard shows. Each entry names a module and
// the constant in it that contains a word for each value. The constant is a table or a list of
// options.
var worded = map[string]struct{ module, constant string }{
	"Role":                   {"texts/org.tsx", "roles"},
	"HookSource":             {"pages/hooks/sources.ts", "sources"},
	"HookFilter.op":          {"pages/hooks/conditions.tsx", "ops"},
	"DeliveryStatus":         {"texts/values.ts", "statuses"},
	"DocumentStatus":         {"texts/values.ts", "statuses"},
	"ModelSetting":           {"pages/agent/draft.ts", "settingWords"},
	"ReasoningEffort":        {"texts/values.ts", "efforts"},
	"Approval":               {"pages/agent/tools.tsx", "approvals"},
	"SideEffect":             {"pages/agent/endpoints.tsx", "effects"},
	"EndpointName":           {"toolnames.ts", "toolWords"},
	"RunStatus":              {"texts/values.ts", "statuses"},
	"ToolCall.status":        {"texts/values.ts", "statuses"},
	"ToolCallSummary.status": {"texts/values.ts", "statuses"},
	"RunErrorCode":           {"texts/values.ts", "runErrors"},
	"Span.status":            {"texts/values.ts", "statuses"},
	"UsageReport.interval":   {"texts/values.ts", "periods"},
	"BudgetScope":            {"pages/org/budgets.tsx", "scopes"},
	"BudgetMetric":           {"pages/org/budgets.tsx", "metrics"},
	"BudgetPeriod":           {"texts/values.ts", "periods"},
	"NotificationEvent":      {"texts/org.tsx", "events"},
	"NotificationStatus":     {"texts/values.ts", "statuses"},
	"HomeStep.name":          {"pages/home/steps.tsx", "words"},
	"Limits.rates.per":       {"texts/org.tsx", "counted"},
}

// unworded lists the other enumerations of the API, each with the reason why the dashboard has no
// words for its values.
var unworded = map[string]string{
	"AllowedCallers":                  "each value has its own switch",
	"KeyScope":                        "a condition chooses between two texts",
	"Member.status":                   "a condition chooses between two texts",
	"Invitation.status":               "has a single value",
	"RequiredAction.kind":             "each kind has its own view",
	"RequiredActionSummary.kind":      "each kind has its own view",
	"SpanKind":                        "each kind has a function for its name",
	"FinishReason":                    "conditions choose a note for the reasons that end an answer early",
	"Endpoint.method":                 "the method is the same in each language",
	"EndpointChange.method":           "the method is the same in each language",
	"ErrorCode":                       "shown only as an identifier next to the error's message",
	"FieldErrorCode":                  "the error's message is shown instead",
	"Message.role":                    "not shown",
	"Found.matchedBy":                 "not shown",
	"PagePicture.mimeType":            "not shown",
	"AnsweredInvitation.status":       "not shown",
	"CallerView.caller.kind":          "not shown",
	"Health.status":                   "not used by the dashboard",
	"Readiness.status":                "not used by the dashboard",
	"Readiness.checks":                "not used by the dashboard",
	"Endpoint.inputSchema.type":       "part of a JSON Schema",
	"EndpointChange.inputSchema.type": "part of a JSON Schema",
}

// protocols matches the names of schemas that the dashboard does not show: events, secrets, and the
// schemas of other protocols.
var protocols = regexp.MustCompile(`^(OpenAi|AgUi|AiSdk|Mcp|OpenApi)|Event\.(event|id|data)|[sS]ecret$`)

// TestValuesHaveWords checks that the dashboard has a word for each value of the API's enumerations.
// A new enumeration must be added to one of the lists.
func TestValuesHaveWords(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	raw, err := os.ReadFile(filepath.Join(root, "ingress", "internal", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct{ Schemas map[string]any }
	}
	if err := yaml.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}

	found := map[string][]string{}
	for name, schema := range document.Components.Schemas {
		collect(found, name, schema)
	}
	for name, values := range found {
		if protocols.MatchString(name) {
			continue
		}
		at, shown := worded[name]
		if _, not := unworded[name]; shown == not {
			t.Errorf("%s %v must be in exactly one of the lists worded and unworded", name, values)
			continue
		}
		if !shown {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, "ingress", "web", "dashboard", at.module))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			if !slices.Contains(valuesIn(string(content), at.constant), value) {
				t.Errorf("%s of %s has no word for %q of %s", at.constant, at.module, value, name)
			}
		}
	}
	for _, name := range slices.Concat(mapKeys(worded), mapKeys(unworded)) {
		if found[name] == nil {
			t.Errorf("%s is no enumeration of the API", name)
		}
	}
}

var row = regexp.MustCompile(`value: "([^"]+)"|"([^"]+)":|\b(\w+):`)

// valuesIn returns the values that a table or a list of options in a module contains.
func valuesIn(module, name string) []string {
	constant := regexp.MustCompile(`(?ms)^(?:export )?const ` + name + `\b[^=]*= ([{\[].*?[}\]];)$`).FindStringSubmatch(module)
	if constant == nil {
		return nil
	}
	var values []string
	for _, found := range row.FindAllStringSubmatch(constant[1], -1) {
		values = append(values, found[1]+found[2]+found[3])
	}
	return values
}

// mapKeys returns the keys of a map.
func mapKeys[V any](of map[string]V) []string {
	var keys []string
	for key := range of {
		keys = append(keys, key)
	}
	return keys
}

// collect adds the enumerations in a schema to the map found: the values of each enumeration, by
// the path of its property.
func collect(found map[string][]string, path string, schema any) {
	switch s := schema.(type) {
	case []any:
		for _, part := range s {
			collect(found, path, part)
		}
	case map[string]any:
		if value, ok := s["const"].(string); ok {
			found[path] = append(found[path], value)
		}
		if values, ok := s["enum"].([]any); ok {
			for _, value := range values {
				if text, ok := value.(string); ok {
					found[path] = append(found[path], text)
				}
			}
		}
		if properties, ok := s["properties"].(map[string]any); ok {
			for property, of := range properties {
				collect(found, path+"."+property, of)
			}
		}
		for _, key := range []string{"items", "oneOf", "anyOf", "allOf", "not", "additionalProperties"} {
			collect(found, path, s[key])
		}
	}
}
