package clients

import "testing"

// TestEmbeddings embeds texts with clients from npm and the offline model.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Done bool }
	decode(t, []byte(s.node(t, "embeddings.mjs")), &got)
	if !got.Done {
		t.Error("the script did not reach its end")
	}
}
