package clients

import "testing"

// TestCitations reads chat completions that cite documents, with several clients. Some of the
// clients reject annotations of unknown types.
func TestCitations(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	document := s.searchable(t, "Everybody has thirty days of holidays a year. The canteen opens at noon. "+t.Name())
	knowledge := map[string]any{"knowledge": map[string]any{"enabled": true, "documentIds": []string{document}}}
	var got struct{ Annotations int }
	decode(t, []byte(s.node(t, "citations.mjs",
		"QUESTION=How many days of holidays does everybody have?", "DOCUMENT_ID="+document,
		"KNOWS_ID="+s.agent(t, map[string]any{"tools": knowledge}),
	)), &got)
	if got.Annotations == 0 {
		t.Error("no annotations")
	}
}
