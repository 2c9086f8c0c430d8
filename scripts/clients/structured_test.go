package clients

import (
	"testing"

	parley "parley/sdk/go"
)

// TestStructuredOutput asks agents for answers that match a schema, with clients from npm.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	document := s.searchable(t, "Everybody has 30 days of holidays a year. The canteen opens at noon. "+t.Name())
	var got struct{ Done bool }
	decode(t, []byte(s.node(t, "structured.mjs",
		"QUESTION=How many days of holidays does everybody have?",
		"DOCUMENT_ID="+document,
		"LAMPS_ID="+s.agent(t, map[string]any{"model": "offline"}),
		"ECHO_ID="+s.agent(t, map[string]any{"model": "offline/echo"}),
		"KNOWS_ID="+s.agent(t, map[string]any{
			"tools": map[string]any{"knowledge": map[string]any{"enabled": true, "documentIds": []string{document}}},
		}),
		"FIXED_ID="+s.agent(t, map[string]any{"model": "offline", "outputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"age": map[string]any{"type": "integer"}}, "required": []string{"age"},
		}}),
	)), &got)
	if !got.Done {
		t.Error("the script did not reach its end")
	}
}

// goStructured requests answers that match a schema with the Go SDK.
func goStructured(t *testing.T, client *parley.Client) {
	t.Helper()
	agent := must[*parley.Agent](t)(client.Agents.Create(t.Context(), parley.NewAgent{
		Name: new(t.Name() + " data"), SystemPrompt: new("Answer."), Model: new("offline"), AllowedCallers: []string{"user", "system"},
	}))
	schema := map[string]any{"type": "object", "properties": map[string]any{"watts": map[string]any{"type": "integer"}}, "required": []string{"watts"}}
	var lamp struct{ Watts int }
	run := must[*parley.Run](t)(client.Chat.Send(t.Context(), parley.ChatParams{AgentID: agent.ID, Message: "a lamp of 7 watts", Output: schema}))
	if err := run.Parse(&lamp); err != nil || lamp.Watts != 7 {
		t.Errorf("chat: %+v, %v", lamp, err)
	}
	run = must[*parley.Run](t)(client.Automations.Run(t.Context(), parley.AutomationParams{Target: agent.ID, Message: "9 watts", Output: schema}))
	if err := run.Parse(&lamp); err != nil || lamp.Watts != 9 {
		t.Errorf("trigger: %+v, %v", lamp, err)
	}
	plain := must[*parley.Run](t)(client.Chat.Send(t.Context(), parley.ChatParams{AgentID: agent.ID, Message: "hello"}))
	if err := plain.Parse(&lamp); err == nil {
		t.Error("an answer in text was parsed")
	}
	if err := client.Agents.Delete(t.Context(), agent.ID); err != nil {
		t.Error(err)
	}
}
