package providers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/llm/providers"
)

// The list contains the models of each configured provider. If one provider fails, the models of
// the others are still listed.
func TestListOfModels(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/openai/v1/models" && r.Header.Get("Authorization") == "Bearer key":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"qwen3","object":"model"},{"id":"two words","object":"model"},{"id":"llama3.3","object":"model"}]}`)
		case r.URL.Path == "/anthropic/v1/models" && r.Header.Get("X-Api-Key") == "other":
			_, _ = io.WriteString(w, `{"data":[{"type":"model","id":"claude-x","display_name":"X","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)

	cfg := providers.Config{
		OpenAIAPIKey: "key", OpenAIBaseURL: server.URL + "/openai/v1", AnthropicAPIKey: "other", AnthropicBaseURL: server.URL + "/anthropic",
		DefaultModel: "openai/unlisted",
	}
	list := func() (domain.ModelList, error) {
		registry, err := providers.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return registry.List(t.Context())
	}

	want := domain.ModelList{Default: "openai/unlisted", Models: []string{
		"anthropic/claude-x", "offline", "offline/echo", "openai/llama3.3", "openai/qwen3", "openai/unlisted",
	}}
	if got, err := list(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("list = %+v, %v, want %+v", got, err, want)
	}

	cfg.OpenAIAPIKey = "wrong"
	want.Models = []string{"anthropic/claude-x", "offline", "offline/echo", "openai/unlisted"}
	if got, err := list(); err == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("list = %+v, %v, want %+v and an error", got, err, want)
	}
}
