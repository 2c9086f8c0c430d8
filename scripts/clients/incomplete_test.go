package clients

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// longMessage has 3,000 words. An agent with a budget of shortBudget tokens can receive this
// message and answer with at least 256 tokens of its echo, but not with the whole echo.
var longMessage = strings.TrimSpace(strings.Repeat("a ", 3000))

const shortBudget = 9_000

// cuts creates an agent whose budget has room for one incomplete echo of longMessage.
func (s *testEnv) cuts(t *testing.T) (agentID string) {
	t.Helper()
	agentID = s.agent(t, map[string]any{"model": "offline/echo"})
	s.call(t, http.MethodPost, "/api/budgets", map[string]any{
		"scope": "agent", "subjectId": agentID, "metric": "tokens", "period": "month", "limit": shortBudget,
	}, nil)
	return agentID
}

// TestOpenAIGoIncompleteAnswers checks the finish reason of an answer that ended at the output
// limit. OpenAI's client receives this reason from chat completions and from responses, whether
// they are streamed or not. The run object has the same finish reason.
func TestOpenAIGoIncompleteAnswers(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)

	whole, err := client.Chat.Completions.New(t.Context(), chatFor(s.cuts(t), longMessage))
	if err != nil {
		t.Fatal(err)
	}
	if c := whole.Choices[0]; c.FinishReason != "length" || !strings.HasPrefix(c.Message.Content, "echo: a a") || len(c.Message.Content) >= len(longMessage) {
		t.Errorf("%s and %d bytes", c.FinishReason, len(c.Message.Content))
	}
	var run struct {
		FinishReason string
		AgentVersion int
	}
	s.call(t, http.MethodGet, "/api/runs?id=run_"+strings.TrimPrefix(whole.ID, "chatcmpl-"), nil, &run)
	if run.FinishReason != "length" || run.AgentVersion != 1 {
		t.Errorf("the run: %+v", run)
	}

	var all openai.ChatCompletionAccumulator
	chunks, err := read(client.Chat.Completions.NewStreaming(t.Context(), chatFor(s.cuts(t), longMessage)))
	for _, chunk := range chunks {
		all.AddChunk(chunk)
	}
	if err != nil || all.Choices[0].FinishReason != "length" {
		t.Errorf("streamed: %+v, %v", all.Choices, err)
	}

	response, err := client.Responses.New(t.Context(), responseFor(s.cuts(t), longMessage))
	if err != nil || response.Status != responses.ResponseStatusIncomplete || response.IncompleteDetails.Reason != "max_output_tokens" {
		t.Errorf("response: %+v, %v", response, err)
	}
	events, err := read(client.Responses.NewStreaming(t.Context(), responseFor(s.cuts(t), longMessage)))
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	if last := events[len(events)-1]; last.Type != "response.incomplete" || last.Response.IncompleteDetails.Reason != "max_output_tokens" {
		t.Errorf("the stream ends with %s", last.Type)
	}
}

// TestOpenAIGoFilteredAnswers checks the finish reason of an answer that the provider's content
// filter ended. OpenAI's client receives this reason from chat completions and from responses. The
// run object has the same finish reason and the version of the agent.
func TestOpenAIGoFilteredAnswers(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client, agent := s.goClient(s.parley.BaseURL), s.agent(t, map[string]any{"model": "openai/stub"})
	s.call(t, http.MethodPut, "/api/agents?id="+agent, map[string]any{"description": "changed"}, nil)
	const message, shown = "fault content_filter: one two three four", "echo: one two"

	whole := must[*openai.ChatCompletion](t)(client.Chat.Completions.New(t.Context(), chatFor(agent, message)))
	if c := whole.Choices[0]; c.FinishReason != "content_filter" || c.Message.Content != shown {
		t.Errorf("%s", whole.RawJSON())
	}
	var run struct {
		Status, FinishReason string
		AgentVersion         int
	}
	s.call(t, http.MethodGet, "/api/runs?id=run_"+strings.TrimPrefix(whole.ID, "chatcmpl-"), nil, &run)
	if run.Status != "completed" || run.FinishReason != "content_filter" || run.AgentVersion != 2 {
		t.Errorf("the run: %+v", run)
	}

	response := must[*responses.Response](t)(client.Responses.New(t.Context(), responseFor(agent, message)))
	if response.Status != responses.ResponseStatusIncomplete || response.IncompleteDetails.Reason != "content_filter" || response.OutputText() != shown {
		t.Errorf("%s", response.RawJSON())
	}
}
