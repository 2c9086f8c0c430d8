package clients

import (
	"net/http"
	"strings"
	"testing"
)

// langChainError is the error that LangChain returns for a failed request.
type langChainError struct{ Text, Name, Code, Message string }

// TestLangChain calls agents through LangChain: with single messages, with a history, streamed, in
// chains, and with requests that fail. The calls use the endpoints for chat completions and for
// responses.
func TestLangChain(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	broken, recording := s.faults(t).DropFirst(), s.faults(t).Pass()
	var output struct {
		Invoke struct {
			Text, Finish string
			Usage        struct {
				Input  int `json:"input_tokens"`
				Output int `json:"output_tokens"`
			}
			IsAI bool
		}
		History, Chain, Cold, Short, ResponsesStream string
		Stream, Batch, Session                       []string
		Responses                                    struct{ Text, ID string }
		Failed, Unknown, Unauthenticated, Broken     langChainError
	}

	decode(t, []byte(s.node(t, "langchain.mjs",
		"AGENT_ID="+s.agent(t, map[string]any{"model": "offline/echo"}), "FAILING_AGENT_ID="+s.agent(t, map[string]any{"model": "openai/stub"}),
		"BROKEN_BASE_URL="+broken.URL, "PARLEY_BASE_URL="+recording.URL)), &output)

	for what, pair := range map[string][2]string{
		"invoke":              {output.Invoke.Text, "echo: one"},
		"finish":              {output.Invoke.Finish, "stop"},
		"history":             {output.History, "echo: second"},
		"stream":              {strings.Join(output.Stream, ""), "echo: one two three"},
		"chain":               {output.Chain, "echo: a question"},
		"temperature":         {output.Cold, "echo: cold"},
		"output limit":        {output.Short, "echo: one length"},
		"batch":               {strings.Join(output.Batch, "|"), "echo: left|echo: right"},
		"session":             {strings.Join(output.Session, "|"), "echo: once|echo: twice"},
		"responses":           {output.Responses.Text, "echo: by responses"},
		"responses, streamed": {output.ResponsesStream, "echo: four five six"},
		"after a break":       {output.Broken.Text, "echo: after a break"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}

	if !output.Invoke.IsAI || output.Invoke.Usage.Input == 0 || output.Invoke.Usage.Output == 0 || len(output.Stream) < 3 {
		t.Errorf("%+v, %d pieces", output.Invoke, len(output.Stream))
	}
	if sent := broken.Requests(); len(sent) != 2 || broken.Faults() != 1 || sent[1].IdempotencyKey != "langchain-1" {
		t.Errorf("requests after the broken connection = %+v", sent)
	}

	checkFailed(t, output.Failed, "model_rejected")
	checkFailed(t, output.Unknown, "model_not_found")
	checkFailed(t, output.Unauthenticated, "invalid_api_key")
	if !t.Failed() {
		proves(t, "`@langchain/openai`", works, "history")
	}
	// Each of the fifteen calls must have sent one request, because LangChain must not retry failed
	// calls.
	if sent := len(recording.Sent(http.MethodPost, "/v1/chat/completions")) + len(recording.Sent(http.MethodPost, "/v1/responses")); sent != 15 {
		t.Errorf("%d requests: %+v", sent, recording.Requests())
	}
}

func checkFailed(t *testing.T, got langChainError, code string) {
	t.Helper()
	if got.Code != code || got.Message == "" || got.Text != "" {
		t.Errorf("%+v, want code %s", got, code)
	}
}
