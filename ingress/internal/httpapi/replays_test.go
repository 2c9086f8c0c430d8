package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/openai"
)

// replayOver is a request that repeats an earlier one with the same idempotency key.
type replayOver struct {
	name string
	ask  func() answer
}

// replays returns requests with idempotency keys in every protocol that runs agents. Requests to
// the same endpoint have the same key and message and therefore get the same run.
func (a *runEnv) replays(t *testing.T, h *testOrg, agentID string) []replayOver {
	t.Helper()
	var all []replayOver
	post := func(name, path, body string, more ...string) {
		headers := append([]string{h.key, "Idempotency-Key: k"}, more...)
		all = append(all, replayOver{name, func() answer { return a.from("POST", path, body, headers...) }})
	}
	chat, message := "/api/agents?action=chat&id="+agentID, `{"message":"large","sessionId":"s"}`
	post("chat", chat, message)
	post("chat, without waiting", chat, message, "Prefer: respond-async")
	post("chat as events", chat, message, "Accept: text/event-stream")
	post("chat for the AI SDK", chat+"&format=ai-sdk", message, "Accept: text/event-stream")
	post("chat for AG-UI", chat+"&format=ag-ui", message, "Accept: text/event-stream")
	post("automation", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"large"},"idempotencyKey":"k"}`)
	said := `{"model":"` + agentID + `","messages":[{"role":"user","content":"large"}]`
	post("completion", "/v1/chat/completions", said+`}`)
	post("completion as events", "/v1/chat/completions", said+`,"stream":true}`)
	said = `{"model":"` + agentID + `","input":"large"`
	post("response", "/v1/responses", said+`}`)
	post("response as events", "/v1/responses", said+`,"stream":true}`)
	post("response in the background", "/v1/responses", said+`,"background":true}`)

	session := a.toolClient(h.key)
	params := &mcp.CallToolParams{
		Name: toolFor(t, session, h.word+" agent").Name, Arguments: map[string]any{"message": "large"},
		Meta: mcp.Meta{"parley/idempotencyKey": "k"},
	}
	return append(all, replayOver{"tool", func() answer {
		result, err := session.CallTool(a.t.Context(), params)
		must(a.t, err)
		got := answer{status: http.StatusOK, header: http.Header{}, body: []byte(texts(result))}
		if code, detail, failed := strings.Cut(texts(result), ": the run "); result.IsError && failed && code == "rate_limited" {
			got.status = http.StatusTooManyRequests
			got.header.Set("Retry-After", "1") // a tool result has no Retry-After header, so set one
			got.header.Set(openai.HeaderRunID, strings.Fields(detail)[0])
		}
		return got
	}})
}

// In every protocol, a replay reads a large result from the database only if there is capacity for
// a large response. Otherwise the replay is rejected with the same error as a request to read the
// run, and the error contains the run's id. A rejected replay uses little memory and starts no run,
// and the client can repeat it.
func TestLargeReplaysAreCountedBeforeTheyAreRead(t *testing.T) { //nolint:paralleltest // measures the allocations of the whole process
	a := newWaitingRunEnv(t, unlimited)
	const size, refusals = 1 << 20, 3 // a run object contains its answer twice, so each replay needs more than twice this size
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	large := strings.Repeat("x", size)
	a.startWorker(func(runID, _ string) { a.end(runID, answers(large)) })
	hookID := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`)
	deliver := func() answer { return a.deliver(hookID, "hmac", "d1", "", `{"a":"large"}`) }
	delivered := deliver().text(t, "runId")
	runs := func() (n int) {
		must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM runs`).Scan(&n))
		return n
	}
	full := func() (leave func()) {
		other, err := a.api.large.Enter(h.org, httpx.AnswersPerOrganization, http.NewResponseController(httptest.NewRecorder()))
		must(t, err)
		return other.Leave
	}

	for _, over := range a.replays(t, h, agentID) {
		for ended := false; !ended; {
			ended = over.ask().status != http.StatusAccepted
		}
		known, leave := runs(), full()
		cost := allocated(func() {
			for range refusals {
				got := over.ask()
				of := got.header.Get("Location") + got.header.Get(openai.HeaderRunID)
				if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || !strings.Contains(of, "run_") {
					t.Errorf("%s, without room: %d, Retry-After %q, run %q: %.300s", over.name, got.status, got.header.Get("Retry-After"), of, got.body)
				}
			}
		})
		leave()
		if cost > refusals*size {
			t.Errorf("%s: %d refused replays allocated %d bytes", over.name, refusals, cost)
		}
		got := over.ask()
		if got.status != http.StatusOK || !strings.Contains(string(got.body), large) {
			t.Errorf("%s, with room: %d with %d bytes: %.300s", over.name, got.status, len(got.body), got.body)
		}
		if over.name != "tool" && got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: the response is not marked as a replay", over.name)
		}
		if now := runs(); now != known {
			t.Errorf("%s: replays began %d runs", over.name, now-known)
		}
		if held := a.api.large.Bytes(); held != 0 {
			t.Errorf("%s: %d bytes are still counted", over.name, held)
		}
	}

	defer full()()
	if cost := allocated(func() {
		for range refusals {
			if got := deliver(); got.status/100 != 2 || got.text(t, "runId") != delivered {
				t.Errorf("a repeated delivery: %d: %.300s", got.status, got.body)
			}
		}
	}); cost > refusals*size {
		t.Errorf("%d repeated deliveries allocated %d bytes", refusals, cost)
	}
}

// If there is no capacity for the large result of a run when it finishes, the request that has
// waited for it is rejected. Repeated later, the request gets the result.
func TestLargeResultsOfAwaitedRunsAreCounted(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	chat := "/api/agents?action=chat&id=" + a.newAgent(h)
	ask := func(more ...string) answer {
		return a.from("POST", chat, `{"message":"m","sessionId":"s"}`, append(more, h.key, "Idempotency-Key: k")...)
	}
	runID := ask("Prefer: respond-async").text(t, "id")
	other, err := a.api.large.Enter(h.org, httpx.AnswersPerOrganization, http.NewResponseController(httptest.NewRecorder()))
	must(t, err)
	waits := make(chan answer)
	go func() { waits <- ask() }()
	large := strings.Repeat("x", 300<<10)
	a.end(runID, answers(large))
	got := <-waits
	if got.status != http.StatusTooManyRequests || got.header.Get("Location") != "/api/runs?id="+runID {
		t.Errorf("without room: %d at %q: %.300s", got.status, got.header.Get("Location"), got.body)
	}
	other.Leave()
	if got = ask(); got.status != http.StatusOK || !strings.Contains(string(got.body), large) {
		t.Errorf("with room: %d with %d bytes", got.status, len(got.body))
	}
}

// If the run of a tool call expires while the call waits, the error says that the run has expired,
// and not that it was erased.
func TestToolsSayThatTheirRunHasExpired(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	a.newAgent(home)
	a.startWorker(func(runID, message string) {
		if message == "erase" {
			a.exec(`UPDATE runs SET result = NULL, status = 'cancelled', finished_at = now() WHERE id = $1`, runID)
			a.exec(`DELETE FROM open_runs WHERE run_id = $1`, runID)
			return
		}
		a.exec(`UPDATE runs SET expires_at = now() WHERE id = $1`, runID)
	})
	session := a.toolClient(home.key)
	tool := toolFor(t, session, "home agent").Name
	for message, want := range map[string]string{"expire": "not_found: the run run_", "erase": "erased: "} {
		got := call(t, session, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": message}})
		if !got.IsError || !strings.HasPrefix(texts(got), want) {
			t.Errorf("%s: %s", message, strconv.Quote(texts(got)))
		}
	}
}

// A list of many large agents consists of several pages, and each agent appears once.
func TestPagesOfAgentsAreBounded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	const agents = 20 // each has 128,000 bytes
	for range agents {
		a.newAgent(h)
	}
	a.exec(`UPDATE agents SET system_prompt = repeat($2, 32000) WHERE org_id = $1`, h.org, "\U0001F4A3")
	seen, pages := map[string]bool{}, 0
	for cursor := ""; ; {
		pages++
		got := a.ok("GET", "/api/agents?limit=100"+cursor, "", h.key)
		var page struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			HasMore    bool   `json:"hasMore"`
			NextCursor string `json:"nextCursor"`
		}
		must(t, json.Unmarshal(got.body, &page))
		if len(got.body) > 1<<20 || len(page.Data) == 0 {
			t.Fatalf("a page has %d agents and %d bytes", len(page.Data), len(got.body))
		}
		for _, agent := range page.Data {
			if seen[agent.ID] {
				t.Errorf("agent %s is on two pages", agent.ID)
			}
			seen[agent.ID] = true
		}
		if cursor = "&cursor=" + page.NextCursor; !page.HasMore {
			break
		}
	}
	if len(seen) != agents || pages < 3 {
		t.Errorf("%d pages have %d agents of %d", pages, len(seen), agents)
	}
}

// A repeated tool call finds its run in progress, reads the run's large log, and then waits for the
// run. While it waits, it does not block other large responses.
func TestAttachedToolCallsReleaseTheirTurn(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	attacker, victim := a.newTestOrg("attacker"), a.newTestOrg("victim")
	a.newAgent(attacker)
	begun := make(chan struct{}, 1)
	a.startWorker(func(runID, message string) {
		if message != "slow" {
			a.end(runID, answers(strings.Repeat("x", 300<<10)))
			return
		}
		a.claimAccepted(runID)
		a.exec(`INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events) VALUES ($1, $2, 1, 2, 2, $3)`,
			runID, attacker.org, `message.delta {"text":"`+strings.Repeat("y", 100<<10)+`"}`+"\n")
		begun <- struct{}{}
	})
	chat := "/api/agents?action=chat&id=" + a.newAgent(victim)
	large := a.from("POST", chat, `{"message":"m","sessionId":"s"}`, victim.key).want(t, "the victim's run", 200, "").text(t, "id")
	call := func() {
		session := a.toolClient(attacker.key)
		params := &mcp.CallToolParams{
			Name: toolFor(t, session, "attacker agent").Name, Arguments: map[string]any{"message": "slow"},
			Meta: mcp.Meta{"parley/idempotencyKey": "k"},
		}
		go func() { _, _ = session.CallTool(t.Context(), params) }() // ends with the test
	}
	call()
	<-begun
	call()
	<-time.After(500 * time.Millisecond) // time for the second call to read the log
	a.from("GET", "/api/runs?id="+large, "", victim.key).want(t, "a large run beside it", 200, "")
}

// A replay gets its run even if the resources to which its request refers have changed or were
// deleted. If the run itself was erased, the replay fails.
func TestReplaysOutliveWhatTheyReferTo(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	ask := func(key, input, more string) answer {
		return a.from("POST", "/v1/responses", `{"background":true,"model":"`+agentID+`","input":`+input+more+`}`, h.key, "Idempotency-Key: "+key)
	}
	after := func(responseID string) string { return `,"previous_response_id":"` + responseID + `"` }
	begun := func(key, input, more string) string { return ask(key, input, more).want(t, key, 200, "").text(t, "id") }

	first := begun("k1", `"m"`, "")
	a.finish("a1", runFor(first))
	second := begun("k2", `"m"`, after(first))
	a.finish("a2", runFor(second))
	a.exec(`UPDATE runs SET expires_at = now() WHERE id = $1`, runFor(first))
	if got := ask("k2", `"m"`, after(first)).want(t, "after the first run expired", 200, "").text(t, "id"); got != second {
		t.Errorf("got %s, want %s", got, second)
	}
	ask("k2", `"m"`, "").want(t, "without the reference", 422, "idempotency_key_reused")
	ask("k2", `"m"`, after(second)).want(t, "another reference", 422, "idempotency_key_reused")

	named := begun("k3", `"m"`, `,"conversation":"c"`)
	a.finish("a3", runFor(named))
	fourth := begun("k4", `"m"`, after(named))
	a.finish("a4", runFor(fourth))
	a.ok("DELETE", "/api/sessions?agentId="+agentID+"&id=c", "", h.key)
	ask("k4", `"m"`, after(named)).want(t, "after the session was erased", 410, "erased")

	open := begun("k5", `"m"`, "")
	referring := `[` + saysItem("user", "m") + `,` + refers(newMessage(runFor(open))) + `,` + saysItem("user", "n") + `]`
	sixth := begun("k6", referring, "")
	a.finish("a5", runFor(open))
	if got := begun("k6", referring, ""); got != sixth {
		t.Errorf("after the answer was finished: %s, want %s", got, sixth)
	}

	// The answer in the AG-UI thread is not in the session at first.
	chat, thread := "/api/agents?action=chat&format=ag-ui&id="+agentID, aguiMessages(t, "t", "user 1: m", "assistant x: hm", "user 2: last")
	c := edge{a, a.handler}.open("POST", chat, thread, h.key, "Idempotency-Key: k7")
	seventh := a.sessionRuns("last", 1)[0]
	c.leave()
	a.finish("hm", seventh)
	if got := a.from("POST", chat, thread, h.key, "Idempotency-Key: k7"); got.status != 200 || !strings.Contains(string(got.body), seventh) {
		t.Errorf("a thread whose answer the session has since: %d %s", got.status, got.body)
	}
}
