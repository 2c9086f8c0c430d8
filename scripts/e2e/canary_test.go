package e2e

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// busMessage is one NATS message.
type busMessage struct{ subject, text string }

// wiretap records all messages on a cluster's bus.
type wiretap struct {
	mu    sync.Mutex
	heard []busMessage
}

// tap subscribes a wiretap to all subjects of a cluster's bus.
func tap(t *testing.T, c *cluster) *wiretap {
	t.Helper()
	nc := testkit.NATSConn(t, c.nats.URL)
	w := &wiretap{}
	_, err := nc.Subscribe(">", func(m *nats.Msg) {
		text := string(m.Data)
		for name, values := range m.Header {
			text += "\n" + name + ": " + strings.Join(values, ", ")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.heard = append(w.heard, busMessage{m.Subject, text})
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// with returns the messages whose subject or text contains a word.
func (w *wiretap) with(word string) []busMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []busMessage
	for _, m := range w.heard {
		if strings.Contains(m.subject+"\n"+m.text, word) {
			found = append(found, m)
		}
	}
	return found
}

// markedOrg is an organization in which every text contains a word that is unique to the
// organization, its mark.
type markedOrg struct {
	account
	word   string
	secret string // value of a header that the agent's tool sends, and secret of the hook
	hook   string // URL of a hook that runs the agent
}

// newMarked creates an organization with an agent and a hook, whose texts all contain a new unique
// word.
func newMarked(t *testing.T, in *edge) markedOrg {
	t.Helper()
	m := markedOrg{account: signUp(t, in.url), word: "canary" + strings.ToLower(rand.Text()), secret: "secret" + rand.Text()}
	m.send(t, http.MethodPut, m.url+"/api/agents?id="+m.agent, map[string]any{
		"name": "name " + m.word, "description": "description " + m.word, "systemPrompt": "prompt " + m.word,
		"tools": map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": []any{map[string]any{
			"name": "lookup", "description": "description " + m.word, "method": "GET", "url": "https://" + m.word + ".example.com/",
			"headers": map[string]string{"Authorization": m.secret}, "sideEffect": "none",
		}}}},
	}).Want(t, http.StatusOK)

	made := m.send(t, http.MethodPost, m.url+"/api/hooks", map[string]any{
		"name": "hook " + m.word, "agentId": m.agent, "source": "token", "secret": m.secret, "messageTemplate": "an event: {{text}}",
	}).Want(t, http.StatusCreated)

	var hook struct {
		ID string `json:"id"`
	}

	made.Into(t, &hook)
	m.hook = m.url + "/api/hooks/receive/" + hook.ID
	return m
}

// delivered sends a delivery to the hook and waits for the run that it starts.
func (m markedOrg) delivered(t *testing.T) {
	t.Helper()
	got := api.Send(t.Context(), http.MethodPost, m.hook, map[string]string{"X-Token": m.secret}, map[string]string{"text": "delivered " + m.word})
	var taken struct {
		RunID string `json:"runId"`
	}
	got.Want(t, http.StatusAccepted).Into(t, &taken)
	m.result(t, taken.RunID, time.Minute)
}

// canariesStayWithTheirOrganization fills two organizations with unique words. Both
// organizations work in parallel and use the same session IDs and idempotency keys. No model call
// and no message on the bus may contain words of both organizations, and no log may contain any of
// these words.
func canariesStayWithTheirOrganization(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	first, second := s.first, s.second
	bus := tap(t, s.cluster)
	both := []markedOrg{newMarked(t, first), newMarked(t, second)}

	var all sync.WaitGroup
	for _, m := range both {
		for _, turn := range []string{"one", "two", "three"} {
			all.Go(func() {
				tr := trigger{message: "message " + turn + " " + m.word, key: "key " + turn, session: "shared"}
				if got := m.post(t.Context(), tr); got.Status != http.StatusOK || !strings.Contains(string(got.Body), m.word) {
					t.Errorf("response to a trigger = %d %s %v", got.Status, got.Body, got.Err)
				}
			})
		}
	}

	all.Wait()
	for _, m := range both {
		m.delivered(t)
		live := openStream(t, http.MethodPost, m.url+"/api/agents?action=chat&id="+m.agent, map[string]string{"x-api-key": m.key},
			map[string]any{"sessionId": "shared", "message": "streamed " + m.word, "stream": true})
		last := event{}
		for e, err := live.next(); err == nil; e, err = live.next() {
			last = e
		}
		if last.kind != "run.completed" || !strings.Contains(last.data, m.word) {
			t.Errorf("last event of a stream = %s %s", last.kind, last.data)
		}
	}

	// When the ingress has answered this request, the wiretap has received all earlier messages on
	// the bus.
	first.awaitReady(t)
	for i, m := range both {
		checkMarks(t, s.cluster, bus, m, both[1-i])
	}

	for _, log := range []string{first.Output(), second.Output(), s.worker.Output()} {
		for _, m := range both {
			if strings.Contains(log, m.word) || strings.Contains(log, m.secret) || strings.Contains(log, m.key) {
				t.Errorf("a log contains a text or a secret with the word %s", m.word)
			}
		}
	}
}

// checkMarks fails the test if a model call or a message on the bus contains the marks of both
// organizations. It also fails the test if a message contains a secret or a prompt of organization
// m, or if a model call contains the secret of m.
func checkMarks(t *testing.T, c *cluster, bus *wiretap, m, other markedOrg) {
	t.Helper()
	prompts := 0
	for _, asked := range c.model.stub.Requests() {
		body := string(asked.Body)
		if strings.Contains(body, m.secret) {
			t.Errorf("a prompt contains a secret: %s", body)
		}
		if !strings.Contains(body, m.word) {
			continue
		}
		prompts++
		if strings.Contains(body, other.word) {
			t.Errorf("a prompt contains words of two organizations: %s", body)
		}
	}

	if prompts < 5 {
		t.Errorf("prompts with the organization's word = %d: the model was not called as expected", prompts)
	}

	carried := bus.with(m.word)
	if len(carried) == 0 {
		t.Errorf("no bus message contains the organization's answers: the wiretap recorded nothing")
	}

	for _, message := range carried {
		switch {
		case strings.Contains(message.subject, m.word), strings.HasPrefix(message.subject, "jobs."):
			t.Errorf("message on %s contains a user's text: %s", message.subject, message.text)
		case strings.Contains(message.text, other.word):
			t.Errorf("message on %s contains words of two organizations: %s", message.subject, message.text)
		}
	}

	for _, secret := range []string{m.secret, m.key, "prompt " + m.word} {
		for _, message := range bus.with(secret) {
			t.Errorf("message on %s contains a secret or a prompt: %s", message.subject, message.text)
		}
	}

	eventually(t, 10*time.Second, "all runs have finished", func() bool {
		return c.number(t, "SELECT count(*) FROM open_runs WHERE agent_id = $1", m.agent) == 0
	})
	// Both organizations use the same session IDs and keys, but must have separate runs and
	// sessions.
	if n := c.number(t, `SELECT count(DISTINCT r.org_id) FROM runs r WHERE r.input::text LIKE '%' || $1 || '%' OR r.result LIKE '%' || $1 || '%'`, m.word); n != 1 {
		t.Errorf("runs of %d organizations contain the organization's word, want 1", n)
	}
}
