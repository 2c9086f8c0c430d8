package workers_test

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit/openaistub"
)

// startInput starts a run with the given input and returns the run's id.
func (r *testEnv) startInput(agent, session string, input domain.Input) string {
	r.Helper()
	return r.startRun(id.New(id.Run), agent, "system", session, input)
}

// newAgent creates an agent with the given configuration in the organization of the test, and
// returns the agent's id.
func (r *testEnv) newAgent(a domain.Agent) string {
	r.Helper()
	a.ID, a.Name, a.AllowedCallers = id.New(id.Agent), "a", []domain.CallerKind{domain.CallerSystem}
	made, err := r.store.Agents.CreateAgent(r.Context(), r.org, a)
	if err != nil {
		r.Fatal(err)
	}
	return made.ID
}

// The settings of a request override those of the agent. The model receives the resulting settings,
// and the run shows them.
func TestRunsUseModelSettings(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	agent := r.newAgent(domain.Agent{
		SystemPrompt: "Agent of {{organization.name}} at {{now}} in {{session.id}} for {{input.customer}}: {{input.message}}", Model: "openai/test",
		AnswerSettings: domain.AnswerSettings{ModelSettings: domain.ModelSettings{
			Temperature: new(0.2), Seed: new(int64(7)), MaxOutputTokens: new(int64(50)), Stop: []string{"END"},
		}},
	})
	run := r.result(r.startInput(agent, "s-1", domain.Input{
		Message: "hello {{now}}", Data: json.RawMessage(`{"customer":"Ada {{session.id}}"}`),
		RunOptions: domain.RunOptions{Settings: &domain.RunSettings{
			ModelSettings: domain.ModelSettings{Temperature: new(0.0), TopP: new(0.5)}, Cleared: []domain.Setting{domain.SettingSeed},
		}},
	}))
	want := &domain.ModelSettings{Temperature: new(0.0), TopP: new(0.5), MaxOutputTokens: new(int64(50)), Stop: []string{"END"}}
	if run.Status != domain.RunCompleted || !reflect.DeepEqual(run.Settings, want) {
		t.Fatalf("run %+v, settings %+v, error %+v", run.Status, run.Settings, run.Error)
	}
	request := stub.Requests()[0]
	for _, part := range []string{`"temperature":0,`, `"top_p":0.5`, `"max_tokens":50`, `"stop":["END"]`} {
		if !strings.Contains(string(request.Body), part) {
			t.Errorf("no %s in %s", part, request.Body)
		}
	}
	if strings.Contains(string(request.Body), `"seed"`) {
		t.Errorf("the cleared seed is in %s", request.Body)
	}
	organization, err := r.store.Organizations.Organization(t.Context(), r.org)
	if err != nil {
		t.Fatal(err)
	}
	created := run.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	prompt := "Agent of " + organization.Name + " at " + created + " in s-1 for Ada {{session.id}}: hello {{now}}"
	if system := request.Messages[0].Content; !strings.HasPrefix(system, prompt) {
		t.Errorf("system prompt %q, want %q", system, prompt)
	}
	if last := request.Messages[len(request.Messages)-1].Content; !strings.HasPrefix(last, "hello {{now}}") {
		t.Errorf("a variable in a message was replaced: %q", last)
	}
}

func TestOfflineModelsObeyTheOutputLimit(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, config.Workers{})
	agent := r.newAgent(domain.Agent{
		SystemPrompt: "p", Model: "offline/echo",
		AnswerSettings: domain.AnswerSettings{ModelSettings: domain.ModelSettings{MaxOutputTokens: new(int64(2))}},
	})
	for _, c := range []struct {
		options domain.RunSettings
		message string
		reason  domain.FinishReason
	}{
		{domain.RunSettings{}, "echo: one", domain.FinishLength},
		{domain.RunSettings{ModelSettings: domain.ModelSettings{MaxOutputTokens: new(int64(3))}}, "echo: one two", domain.FinishLength},
		{domain.RunSettings{Cleared: []domain.Setting{domain.SettingMaxOutputTokens}}, "echo: one two three", domain.FinishStop},
		{domain.RunSettings{ModelSettings: domain.ModelSettings{Stop: []string{" one"}}}, "echo:", domain.FinishStop},
	} {
		run := r.result(r.startInput(agent, id.New(id.Run), domain.Input{Message: "one two three", RunOptions: domain.RunOptions{Settings: &c.options}}))
		if run.Message == nil || *run.Message != c.message || *run.FinishReason != c.reason {
			t.Errorf("%+v: %+v, %v", c.options, run.Message, run.FinishReason)
		}
	}
}

// A prompt that was stored before variables existed is used unchanged. If the values of variables
// are too long, the run fails instead of using them.
func TestPromptVariablesHaveLimits(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	agent := r.newAgent(domain.Agent{SystemPrompt: `{{now}} {{input.a}}`, Model: "openai/test"})
	run := r.result(r.startInput(agent, "s", domain.Input{Message: "m", Data: json.RawMessage(`{"a":"` + strings.Repeat("x", 70_000) + `"}`)}))
	if run.Status != domain.RunFailed || run.Error.Code != "context_too_long" || !strings.Contains(run.Error.Message, "64,000") {
		t.Errorf("run %s, error %+v", run.Status, run.Error)
	}
	old := r.newAgent(domain.Agent{SystemPrompt: `Dear {{customer}} \{{ {{now}}`, Model: "openai/test"})
	if run := r.result(r.startInput(old, "s", domain.Input{Message: "m"})); run.Status != domain.RunCompleted {
		t.Fatalf("run %+v", run.Error)
	}
	if system := stub.Requests()[0].Messages[0].Content; !strings.HasPrefix(system, `Dear {{customer}} \{{ {{now}}`) {
		t.Errorf("system prompt %q", system)
	}
}
