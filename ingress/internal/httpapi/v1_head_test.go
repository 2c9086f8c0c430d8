package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/openai"
)

// For every GET route under /v1 except streams, the response to HEAD has the status and headers of
// the response to GET, without a body.
func TestHeadUnderV1AnswersAsGet(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("home"), a.newTestOrg("other")
	agentID := a.newAgent(h)
	responseID := a.respond(`{"model":"`+agentID+`","input":"m","background":true}`, h.key)
	fileID := a.answerWithFile(runFor(responseID), false).ID

	targets := map[string][]struct { // requests by the path of the route
		path   string
		status int
	}{
		"/v1/models":     {{"/v1/models", 200}, {"/v1/models?unknown=1", 200}},
		"/v1/models/:id": {{"/v1/models/" + agentID, 200}, {"/v1/models/tpl_support", 200}, {"/v1/models/none", 404}},
		"/v1/containers/:container/files/:id/content": {{"/v1/containers/s/files/" + fileID + "/content", 200}, {"/v1/containers/s/files/none/content", 404}},

		"/v1/responses/:id": {{"/v1/responses/" + responseID, 200}, {"/v1/responses/resp_x", 404}, {"/v1/responses/" + responseID + "?stream=true", 400}},
	}
	for _, r := range tableFor(t).routes() {
		if r.Method != http.MethodGet || !strings.HasPrefix(r.Path, openai.V1Prefix) || r.Stream {
			continue
		}
		if len(targets[r.Path]) == 0 {
			t.Errorf("nothing asks for HEAD of %s", r.Path)
		}
		for _, target := range targets[r.Path] {
			for key, status := range map[string]int{h.key: target.status, other.key: 0, "X-Nobody: 1": 401} {
				get, head := a.from("GET", target.path, "", key), a.from("HEAD", target.path, "", key)
				if status != 0 && get.status != status {
					t.Errorf("GET %s with %.9s: %d %s, want %d", target.path, key, get.status, get.body, status)
				}
				if head.status != get.status || len(head.body) > 0 {
					t.Errorf("HEAD %s with %.9s: %d %q, GET %d", target.path, key, head.status, head.body, get.status)
				}
				for _, name := range []string{"Content-Type", "Cache-Control", "Allow", httpx.HeaderPolicy, openai.HeaderRunID} {
					if head.header.Get(name) != get.header.Get(name) {
						t.Errorf("HEAD %s has %s %q, GET %q", target.path, name, head.header.Get(name), get.header.Get(name))
					}
				}
				if length := head.header.Get("Content-Length"); get.status == 200 && length != strconv.Itoa(len(get.body)) {
					t.Errorf("HEAD %s has the length %s, GET sends %d bytes", target.path, length, len(get.body))
				}
			}
		}
	}
	a.from("HEAD", "/v1/realtime?model="+agentID, "", h.key).want(t, "a stream", 405, "")
}
