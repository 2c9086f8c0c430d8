package clients

import "testing"

// TestSources reads answers that end with a list of sources or with links to files, using OpenAI's
// client. It also tests an agent's connections.
func TestSources(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	document := s.searchable(t, "Everybody has thirty days of holidays a year. The canteen opens at noon. "+t.Name())
	knowledge := map[string]any{"knowledge": map[string]any{"enabled": true, "documentIds": []string{document}}}
	var got struct{ Done bool }
	decode(t, []byte(s.node(t, "sources.mjs",
		"QUESTION=How many days of holidays does everybody have?",
		"KNOWS_ID="+s.agent(t, map[string]any{"tools": knowledge}),
		"LISTS_ID="+s.agent(t, map[string]any{"tools": knowledge, "appendSources": true}),
		"LACKS_ID="+s.agent(t, map[string]any{"model": "offline/echo", "tools": map[string]any{"mcp": map[string]any{
			"enabled": true, "servers": []any{map[string]any{"name": "missing", "url": "https://mcp.invalid/mcp"}},
		}}}),
	)), &got)
	if !got.Done {
		t.Error("the script did not reach its end")
	}
}
