package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"parley/scripts/internal/api"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
	"parley/shared/wordvector"
)

// roles contains the roles of workers. Each role has its own user in deploy/nats/accounts.conf.
var roles = []string{"agent", "tool", "ingest", "voice", "sweep"}

// busSecrets returns the environment variables with the users' passwords for the configuration of
// the servers. The password of the user agent is passagent, and so on.
func busSecrets() (env []string) {
	for _, user := range append([]string{"ingress", "operator", "admin"}, roles...) {
		env = append(env, "NATS_"+strings.ToUpper(user)+"_PASSWORD=pass"+user)
	}
	return append(env, "NATS_ROUTE_PASSWORD=passroutes")
}

// busURL returns the servers' addresses with the name and password of a user.
func busURL(user string, servers ...*testkit.NATSServer) string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, strings.Replace(s.URL, "nats://", "nats://"+user+":pass"+user+"@", 1))
	}
	return strings.Join(urls, ",")
}

func busConfig(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "deploy", "nats", name)
}

// startWorkers starts a worker process for each role. Each process connects to the bus as the
// role's user.
func (c *cluster) startWorkers(t *testing.T, settings []string, servers ...*testkit.NATSServer) {
	t.Helper()
	for _, role := range roles {
		if role == "voice" {
			continue // needs a speech program
		}
		c.worker(t, append([]string{"ROLES=" + role, "NATS_URL=" + busURL(role, servers...)}, settings...)...)
	}
}

// TestAgentsMayCallEveryTool checks that deploy/nats/accounts.conf lets agent workers call each tool.
// Voice is no tool that models call.
func TestAgentsMayCallEveryTool(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(busConfig(t, "accounts.conf"))
	if err != nil {
		t.Fatal(err)
	}
	_, agent, _ := strings.Cut(string(config), "user: agent,")
	agent, _, _ = strings.Cut(agent, "subscribe:")
	for _, name := range append([]string{contract.ToolAttachment}, domain.ToolNames...) {
		if subject := `"` + contract.ToolSubject(name) + `"`; strings.Contains(agent, subject) == (name == "voice") {
			t.Errorf("agent workers may publish %s: %t", subject, name == "voice")
		}
	}
}

// TestServiceWithLeastRightsOnTheBus runs each part of the service as its own user of
// deploy/nats/accounts.conf. The bus must not reject the use of any subject that a part needs.
func TestServiceWithLeastRightsOnTheBus(t *testing.T) {
	t.Parallel()
	bus := testkit.NATSWith(t, busConfig(t, "single.conf"), busSecrets())
	c := newClusterOn(t, &testkit.NATSServer{Process: bus.Process, URL: busURL("ingress", bus)}, sandboxed, "EMBEDDINGS_MODEL=openai/words")
	first, second := c.ingress(t), c.ingress(t)
	c.startWorkers(t, nil, bus)
	owner := signUp(t, first.url)
	owner.embeds(t, c, "How long is the warranty?", "Größe: 3 m", "東京は日本の首都です。")

	changes := owner.changes(t)
	owner.post(t.Context(), trigger{message: "guarded"}).Completed(t, echoed("guarded"), 1)
	changes.shows(t, owner, "completed")
	streamed := owner.enqueue(t, trigger{message: "sleep 2s: streamed"})
	if text := bytesFor(owner.at(second).watch(t, streamed, "").rest(t)); !strings.Contains(text, "streamed") {
		t.Errorf("stream from another ingress = %s", text)
	}

	cancelled := owner.enqueue(t, trigger{message: "sleep 20s: to be cancelled"})
	c.model.awaitCalls(t, "sleep 20s: to be cancelled", 1)
	owner.at(second).send(t, http.MethodPost, second.url+"/api/runs?id="+cancelled+"&action=cancel", nil).Want(t, http.StatusOK)
	eventually(t, 10*time.Second, "the unneeded model call ends", func() bool {
		calls := c.model.of("sleep 20s: to be cancelled")
		return len(calls) == 1 && !calls[0].ended.IsZero()
	})

	sent := owner.upload(t, "manual.pdf", manual("zqguarded"), "")
	if d := owner.processed(t, sent.ID, 60*time.Second); d.Status != "ready" {
		t.Fatalf("%+v", d)
	}
	if found := owner.finds(t, "How long is the warranty of the Heron lamp?"); len(found) == 0 {
		t.Error("a search found nothing")
	}
	if r := owner.reader(t, "offline").chats(t, "s", "How long is the warranty of the Heron lamp?"); len(r.Citations) == 0 {
		t.Errorf("%+v", r)
	}

	attached := owner.reader(t, "offline")
	got := attached.send(t, http.MethodPost, attached.url+"/api/agents?action=chat&id="+attached.agent, map[string]any{
		"sessionId": "attached", "message": "How long is the warranty of the Heron lamp?",
		"attachments": []any{map[string]any{"name": "lamps.md", "data": []byte(lampText)}},
	}).Want(t, http.StatusOK)
	if !strings.Contains(string(got.Body), "lamps.md") || !strings.Contains(string(got.Body), "thirty-one months") {
		t.Errorf("the answer does not use the attached document: %s", got.Body)
	}

	r := owner.analyst(t, "offline", false).asks(t, "s", "Compute the squares of 1 to 10.")
	if len(r.ToolCalls) != 1 || r.ToolCalls[0].Status != "completed" {
		t.Errorf("%+v", r)
	}
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Logf("NOT TESTED: speaking with least rights on the bus: %v", err)
	} else {
		c.voiceWorker(t, newListener(t, "nothing"), "NATS_URL="+busURL("voice", bus))
		k := owner.speaks(t).converse(t, "spoken")
		k.ask("Hello.")
		if a := k.answer(); a.Transcript != echoed("Hello.") || len(a.PCM) == 0 {
			t.Errorf("%q, %d bytes", a.Transcript, len(a.PCM))
		}
	}

	wantNoRefusals(t, bus)
}

// embeds fails the test unless /v1/embeddings returns the vectors of the model provider. Only tool
// workers send requests to this provider.
func (a account) embeds(t *testing.T, c *cluster, texts ...string) {
	t.Helper()
	const size = 16
	var got struct {
		Model string `json:"model"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	api.Send(t.Context(), http.MethodPost, a.url+"/v1/embeddings", map[string]string{"Authorization": "Bearer " + a.key}, map[string]any{
		"model": "words", "input": texts, "dimensions": size,
	}).Want(t, http.StatusOK).Into(t, &got)
	if got.Model != "openai/words" || len(got.Data) != len(texts) || got.Usage.PromptTokens == 0 || c.model.stub.Count(texts[len(texts)-1]) != 1 {
		t.Fatalf("%d vectors of %d texts, %d calls of the provider: %+v", len(got.Data), len(texts), c.model.stub.Count(texts[len(texts)-1]), got)
	}
	for n, vector := range got.Data {
		if vector.Index != n || !slices.Equal(vector.Embedding, wordvector.Vector(texts[n], size)) {
			t.Errorf("%q: vector %+v, want %v", texts[n], vector, wordvector.Vector(texts[n], size))
		}
	}
}

func wantNoRefusals(t *testing.T, servers ...*testkit.NATSServer) {
	t.Helper()
	for _, s := range servers {
		for line := range strings.Lines(s.Output()) {
			if strings.Contains(line, "Violation") || strings.Contains(line, "authentication error") {
				t.Errorf("the bus refused a needed permission: %s", line)
			}
		}
	}
}

// refusals lists the subjects to which each user must not publish or subscribe. The subjects that
// are forbidden to all users are in TestBusUsersHaveLeastRights.
var refusals = map[string]struct{ publish, subscribe []string }{
	"ingress": {
		[]string{"$JS.API.CONSUMER.MSG.NEXT.JOBS.chat", "$JS.ACK.JOBS.chat.1.1.1.1.1", "tools.webSearch", "tools.codeExecution", "runs.events.run_1", "_INBOX.agent.x"},
		[]string{"tools.*", "tools.search", "voice.open", "jobs.chat.>"},
	},
	"agent": {
		[]string{"$JS.API.CONSUMER.MSG.NEXT.JOBS.ingest", "jobs.ingest.0.doc_1", "tools.search", "voice.open", "runs.cancel.run_1", "tools.embed", "_INBOX.tool.x"},
		[]string{"tools.*", "tools.embed", "voice.open", "changes.*.*", "runs.*.*", "runs.done.*"},
	},
	"tool": {
		[]string{"$JS.API.STREAM.INFO.JOBS", "jobs.chat.0.run_1", "tools.webSearch", "runs.done.run_1", "runs.events.run_1", "changes.runs.org_1", "_INBOX.voice.x"},
		[]string{"voice.open", "changes.*.*", "runs.done.*", "runs.events.*"},
	},
	"ingest": {
		[]string{"$JS.API.CONSUMER.MSG.NEXT.JOBS.chat", "$JS.ACK.JOBS.chat.1.1.1.1.1", "jobs.ingest.0.doc_1", "tools.mcp", "runs.done.run_1", "changes.runs.org_1", "_INBOX.ingress.x"},
		[]string{"tools.*", "runs.*.*", "changes.*.*", "voice.open"},
	},
	"voice": {
		[]string{"$JS.API.STREAM.INFO.JOBS", "jobs.chat.0.run_1", "tools.webSearch", "runs.done.run_1", "changes.runs.org_1", "_INBOX.agent.x"},
		[]string{"tools.*", "runs.*.*", "changes.*.*"},
	},
	"sweep": {
		[]string{"$JS.API.CONSUMER.MSG.NEXT.JOBS.chat", "$JS.ACK.JOBS.chat.1.1.1.1.1", "tools.webSearch", "runs.events.run_1", "voice.open", "_INBOX.agent.x"},
		[]string{"tools.*", "runs.*.*", "voice.open", "changes.*.*"},
	},
	"operator": {
		[]string{"jobs.chat.0.run_1", "tools.webSearch", "runs.done.run_1", "runs.cancel.run_1", "changes.runs.org_1", "voice.open", "_INBOX.ingress.x"},
		[]string{"tools.*", "runs.*.*", "changes.*.*", "voice.open"},
	},
}

// TestBusUsersHaveLeastRights connects as each user and tries to use subjects of other parts of the
// service, and subjects that no part needs. The server must reject each attempt.
func TestBusUsersHaveLeastRights(t *testing.T) {
	t.Parallel()
	bus := testkit.NATSWith(t, busConfig(t, "single.conf"), busSecrets())
	for _, address := range []string{bus.URL, strings.Replace(busURL("agent", bus), "passagent", "passtool", 1)} {
		if nc, err := nats.Connect(address); err == nil {
			nc.Close()
			t.Error("the bus accepted an unknown user")
		}
	}

	for user, own := range refusals {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			none := []string{
				"$JS.API.STREAM.DELETE.JOBS", "$JS.API.STREAM.PURGE.JOBS", "$JS.API.STREAM.UPDATE.JOBS", "$JS.API.STREAM.MSG.DELETE.JOBS",
				"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.SNAPSHOT.JOBS", "$JS.API.CONSUMER.DELETE.JOBS.chat", "$JS.API.CONSUMER.CREATE.JOBS.other",
				"$JS.API.CONSUMER.CREATE.JOBS.other.jobs.>", "$SYS.REQ.SERVER.PING", "other",
			}
			if user == "sweep" { // the sweeper recreates a damaged stream
				none = slices.DeleteFunc(none, func(subject string) bool {
					return subject == "$JS.API.STREAM.DELETE.JOBS" || subject == "$JS.API.STREAM.UPDATE.JOBS"
				})
			}
			if user == "operator" { // the operator manages the stream and its consumers
				none = slices.DeleteFunc(none, func(subject string) bool { return strings.HasPrefix(subject, "$JS.API.") })
			}
			unheard := []string{">", "jobs.>", "*.>", "_INBOX.>", "_INBOX.*.>", "$SYS.>", "$JS.>"}
			for other := range refusals {
				if other != user {
					unheard = append(unheard, "_INBOX."+other+".>")
				}
			}
			nc := testkit.NATSConn(t, busURL(user, bus), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			for _, subject := range slices.Concat(none, own.publish) {
				refused(t, nc, subject, nc.Publish(subject, nil))
			}
			for _, subject := range slices.Concat(unheard, own.subscribe) {
				_, err := nc.SubscribeSync(subject)
				refused(t, nc, subject, err)
			}
		})
	}
}

// refused fails the test unless the server has rejected the last use of a subject.
func refused(t *testing.T, nc *nats.Conn, subject string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // after the flush, an error from the server has arrived
		t.Fatal(err)
	}
	if last := nc.LastError(); last == nil || !strings.Contains(last.Error(), `"`+subject+`"`) {
		t.Errorf("%s was not refused: %v", subject, last)
	}
}
