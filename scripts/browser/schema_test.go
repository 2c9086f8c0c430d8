package browser

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// schemaOfTotal is the schema of an object with one number. The offline model takes the number from
// the message.
const schemaOfTotal = `{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}}}`

// TestAgentSchema tries a schema of an agent's answers before saving it.
func TestAgentSchema(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Cashier", map[string]any{"model": "offline"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.isNot("button", "Try")
	p.fill("JSON Schema", `{"type":"object",`)
	p.fill("Test message", "The total is 42 euros.")
	p.sees("JSON Schema must be valid JSON")
	p.in("button", "Try").disabled(true)

	p.fill("JSON Schema", schemaOfTotal)
	p.seesNot("JSON Schema must be valid JSON")
	p.click("button", "Try")
	p.in("group", "Data").sees(`"total": 42`)
	p.inspect("schema")

	// The error of a schema that the service rejects stays beside the field until the field is
	// changed.
	p.fill("JSON Schema", `{"type":"sum"}`)
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Save changes")
	p.focusIs("textbox", "JSON Schema")
	p.sees("JSON Schema is not a usable JSON Schema")
	p.in("button", "Try").disabled(true)
	p.inspect("schema-wrong")
	p.fill("JSON Schema", `{"type":"object","required":["due"],"properties":{"due":{"type":"string","format":"date","pattern":"^2027-"}}}`)
	p.seesNot("JSON Schema is not a usable JSON Schema")

	// The offline model finds no date of 2027 in this message, so no answer matches.
	p.click("button", "Try")
	p.sees("The answer does not match the output schema: /due")

	p.fill("JSON Schema", schemaOfTotal)
	p.click("button", "Save changes")
	p.in("region", "…aved changes").sees("Saved")
	if made := a.chat(t, agent, "later", "The total is 7 euros."); made.Message != `{"total":7}` {
		t.Errorf("answer = %q", made.Message)
	}
}

// TestModelSettings sets model settings that the agent's model accepts, and settings that the model
// refuses. Requests can change only the settings that the agent allows.
func TestModelSettings(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Tuned", map[string]any{"model": "anthropic/claude-sonnet-4-5"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.sees("anthropic/claude-sonnet-4-5 accepts at most 1.")
	p.sees("anthropic/claude-sonnet-4-5 does not accept it.") // seed and reasoning effort

	p.fill("Temperature", "warm")
	p.click("button", "Save changes")
	p.sees("Temperature must be a number")
	p.fill("Temperature", "1.5")
	p.fill("Seed", "7")
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Save changes")
	p.focusIs("textbox", "Temperature")
	p.in("group", "Settings of Tuned").sees("Temperature must be between 0 and 1 for the model anthropic/claude-sonnet-4-5")
	p.in("group", "Settings of Tuned").sees("Seed is not supported by the model anthropic/claude-sonnet-4-5")
	p.inspect("model-settings-wrong")

	p.fill("Temperature", "0.5")
	p.fill("Seed", "")
	p.fill("Stop texts", `END\n`)
	p.click("checkbox", "Temperature")
	p.click("checkbox", "Parallel tool calls")
	p.click("button", "Save changes")
	p.in("region", "…aved changes").sees("Saved")

	var saved struct {
		Temperature float64
		Seed        *int64
		Stop        []string
		Overridable []string
	}
	a.call(t, http.MethodGet, "/api/agents?id="+agent, nil, &saved)
	want := []string{"topP", "maxOutputTokens", "reasoningEffort", "seed", "stop"}
	if saved.Temperature != 0.5 || saved.Seed != nil || !slices.Equal(saved.Stop, []string{"END\n"}) || !slices.Equal(saved.Overridable, want) {
		t.Errorf("saved: %+v", saved)
	}

	// When another model is chosen, the hints change before the settings are saved.
	p.choose("Model", "offline")
	p.seesNot("anthropic/claude-sonnet-4-5 does not accept it.")
	p.fill("Seed", "7")
	p.click("button", "Save changes")
	p.in("region", "…aved changes").sees("Saved")
	body := map[string]any{"sessionId": "s", "message": "Hello", "temperature": 1}
	err := a.try(t.Context(), http.MethodPost, "/api/agents?action=chat&id="+agent, body, nil)
	if err == nil || !strings.Contains(err.Error(), "status = 400,") || !strings.Contains(err.Error(), `"field":"temperature"`) {
		t.Errorf("a setting that requests may not change: %v", err)
	}
}

// TestPromptPreview fills the variables of a system prompt before the prompt is saved. A prompt
// with an unknown variable cannot be saved.
func TestPromptPreview(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.fill("System prompt", "Serve {{input.customer}} in {{session.id}}.")
	p.clickText("Preview the prompt")
	p.fill("Input", `{"customer":"Kim"}`)
	p.fill("Session", "desk 1")
	p.click("button", "Preview")
	p.holds("Prompt that the model receives", "Serve Kim in desk 1.")
	p.inspect("prompt-preview")

	p.fill("System prompt", "Serve {{customer}}.")
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Save changes")
	p.focusIs("textbox", "System prompt")
	p.in("group", "Settings of Clerk").sees("{{customer}}")
}

// disabled waits until the area's element is disabled, or enabled if want is false.
func (a area) disabled(want bool) {
	a.p.t.Helper()
	a.p.until("looking at "+a.String(), func() error {
		var disabled bool
		err := a.ask(&disabled, `function () { return this.disabled }`)
		if err == nil && disabled != want {
			err = errors.New("it has the other state")
		}
		return err
	})
}
