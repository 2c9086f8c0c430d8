package e2e

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// suggestionOwner is an agent or a template with suggested messages.
type suggestionOwner struct {
	ID                string
	Name              string
	Tools             map[string]any
	Suggestions       []string // of an agent
	SuggestedMessages []string // of a template
}

// asker asks suggested questions.
type asker struct {
	name string
	url  string
	as   map[string]string // headers of the requests
}

// TestSuggestedQuestionsWork asks all questions that agents and templates suggest in a new
// installation, which has no language model. The questions are asked in the first organization, in
// a new organization that has added the sample documents, and by a visitor of the demo.
func TestSuggestedQuestionsWork(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	up(t, dir, testkit.FreePort(t), "LIMIT_DEMO=299")
	creds := readCredentials(t, dir)
	var templates struct{ Data []suggestionOwner }
	api.Send(t.Context(), http.MethodGet, creds.BaseURL+"/api/agents/templates", nil, nil).Want(t, http.StatusOK).Into(t, &templates)
	if len(templates.Data) < 6 {
		t.Fatalf("%d templates", len(templates.Data))
	}

	t.Run("first_organization", func(t *testing.T) {
		t.Parallel()
		a := asker{"the first organization", creds.BaseURL, map[string]string{"x-api-key": creds.APIKey}}
		a.awaitSamples(t)
		var agents struct{ Data []suggestionOwner }
		a.get(t, "/api/agents").Into(t, &agents)
		if len(agents.Data) != 2 {
			t.Errorf("%d agents, want the demo agent and the echo agent", len(agents.Data))
		}
		for _, agent := range agents.Data {
			a.asksAll(t, "id="+agent.ID, agent.Name, agent.Suggestions, false) // the demo agent answers some questions without documents
		}
		for _, template := range templates.Data {
			a.asksAll(t, "template="+template.ID, template.Name, template.SuggestedMessages, template.Tools["knowledge"] != nil)
		}
	})

	t.Run("new_organization", func(t *testing.T) {
		t.Parallel()
		nightly(t, "the questions of the first organization, asked again")
		account := signUp(t, creds.BaseURL)
		a := asker{"a new organization", creds.BaseURL, map[string]string{"x-api-key": account.key}}
		api.Send(t.Context(), http.MethodPost, a.url+"/api/knowledge/samples", a.as, nil).Want(t, http.StatusAccepted)
		a.awaitSamples(t)
		for _, template := range templates.Data {
			var agent suggestionOwner
			api.Send(t.Context(), http.MethodPost, a.url+"/api/agents", a.as, map[string]any{"templateId": template.ID}).Want(t, http.StatusCreated).Into(t, &agent)
			if !slices.Equal(agent.Suggestions, template.SuggestedMessages) {
				t.Errorf("%s: the agent suggests %q", template.ID, agent.Suggestions)
			}
			a.asksAll(t, "id="+agent.ID, agent.Name, agent.Suggestions, template.Tools["knowledge"] != nil)
		}
	})

	t.Run("demo", func(t *testing.T) {
		t.Parallel()
		nightly(t, "the questions of the first organization, asked again")
		a := asker{"a visitor of the demo", creds.BaseURL, map[string]string{"x-tenant-id": "tenant_demo"}}
		wanted := map[string]int{ // the minimum number of citations; together, the answers cite all sample documents
			"Are gift vouchers refunded?": 1, "What does express shipping cost?": 1, "How do I clean a glass shade?": 1, "Compare how much energy LED bulbs save.": 2,
		}
		testkit.Poll(t, time.Second, time.Minute, "the sample documents of the demo are processed", func() bool {
			for question, least := range wanted {
				if a.ask(t, "template=tpl_documents", question).citations < least {
					return false
				}
			}
			return true
		})
		for _, template := range templates.Data {
			a.asksAll(t, "template="+template.ID, template.Name, template.SuggestedMessages, template.Tools["knowledge"] != nil)
		}
		api.Send(t.Context(), http.MethodGet, a.url+"/api/knowledge", a.as, nil).Refused(t, http.StatusForbidden, "demo_restricted")
	})
}

func (a asker) get(t *testing.T, path string) api.Answer {
	t.Helper()
	return api.Send(t.Context(), http.MethodGet, a.url+path, a.as, nil).Want(t, http.StatusOK)
}

// awaitSamples waits until the sample documents are processed.
func (a asker) awaitSamples(t *testing.T) {
	t.Helper()
	testkit.Poll(t, 200*time.Millisecond, time.Minute, "the sample documents of "+a.name+" are processed", func() bool {
		var list struct{ Data []struct{ Status *string } }
		a.get(t, "/api/knowledge/samples").Into(t, &list)
		unready := func(sample struct{ Status *string }) bool { return sample.Status == nil || *sample.Status != "ready" }
		return len(list.Data) > 0 && !slices.ContainsFunc(list.Data, unready)
	})
}

// suggestedAnswer is the part of an answer to a suggested question that the test checks.
type suggestedAnswer struct {
	status, text string
	failed       []string // names of the tools whose calls failed
	citations    int
}

// mainPoints is a question that an empty chat offers if its agent searches documents and has no
// suggestions.
const mainPoints = "What are the main points of the documents?"

// asksAll asks questions. Each answer must be complete, without a failed call of a tool. If cites
// is true, asksAll also asks for the main points, and each answer must cite a document.
func (a asker) asksAll(t *testing.T, target, name string, questions []string, cites bool) {
	t.Helper()
	if len(questions) < 2 {
		t.Errorf("%s suggests %d questions", name, len(questions))
	}
	if cites {
		questions = append(slices.Clone(questions), mainPoints)
	}
	for _, question := range questions {
		got := a.ask(t, target, question)
		for range 3 { // on a busy machine, a program may exceed its time limit
			if !strings.Contains(got.text, "The program ran for longer than") {
				break
			}
			got = a.ask(t, target, question)
		}
		if got.status != "completed" || got.text == "" || len(got.failed) > 0 || cites && got.citations == 0 {
			t.Errorf("%s asks %s: %q: the run is %s, %d citations, failed calls %v: %s", a.name, name, question, got.status, got.citations, got.failed, got.text)
		}
	}
}

// ask asks a question in a new session.
func (a asker) ask(t *testing.T, target, question string) (got suggestedAnswer) {
	t.Helper()
	var run struct {
		Status    string
		Output    struct{ Message string }
		Citations []struct{}
		ToolCalls []struct{ Name, Status string }
	}
	body := map[string]any{"sessionId": rand.Text(), "message": question}
	api.Send(t.Context(), http.MethodPost, a.url+"/api/agents?action=chat&"+target, a.as, body).Want(t, http.StatusOK).Into(t, &run)
	got = suggestedAnswer{status: run.Status, text: run.Output.Message, citations: len(run.Citations)}
	for _, call := range run.ToolCalls {
		if call.Status != "completed" {
			got.failed = append(got.failed, call.Name)
		}
	}
	return got
}
