package anthropicstub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/shared/testkit/anthropicstub"
)

// TestWhatTheAPIRefuses checks that the stub rejects requests that violate the protocol.
func TestWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	post := func(body string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages", strings.NewReader(body))
		req.Header.Set("Anthropic-Version", "2023-06-01")
		res := httptest.NewRecorder()
		anthropicstub.New().ServeHTTP(res, req)
		return res.Code
	}
	const use = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}`
	const result = `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]}`
	tests := map[string]int{
		`{"role":"user","content":"q"}`: 200,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[` + result + `]}`:                               200,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[` + result + `,{"type":"text","text":"and?"}]}`: 200,
		``:                                   400,
		`{"role":"assistant","content":"a"}`: 400,
		`{"role":"user","content":"q"},{"role":"user","content":"q"}`:                                                                400,
		`{"role":"user","content":"q"},{"role":"assistant","content":"a"}`:                                                           400,
		`{"role":"user","content":" "}`:                                                                                              400,
		`{"role":"user","content":[]}`:                                                                                               400,
		`{"role":"user","content":[{"type":"hologram"}]}`:                                                                            400,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":"no result"}`:                                            400,
		`{"role":"user","content":[` + result + `]}`:                                                                                 400,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[{"type":"text","text":"first"},` + result + `]}`:        400,
		`{"role":"user","content":"q"},` + strings.Replace(use, `{}`, `"x"`, 1) + `,{"role":"user","content":[` + result + `]}`:      400,
		`{"role":"user","content":"q"},` + strings.Replace(use, `"id":"a"`, `"id":"a:b"`, 1) + `,{"role":"user","content":"result"}`: 400,
	}
	for messages, want := range tests {
		if got := post(`{"model":"m","max_tokens":5,"messages":[` + messages + `]}`); got != want {
			t.Errorf("%s: %d", messages, got)
		}
	}
	for _, body := range []string{`{`, `{"messages":[{"role":"user","content":"q"}]}`, `{"max_tokens":5,"tools":[{"name":"a b"}],"messages":[]}`} {
		if got := post(body); got != http.StatusBadRequest {
			t.Errorf("%s: %d", body, got)
		}
	}
}
