package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/domain"
)

// largeBodies maps endpoints to bodies that contain the placeholder $message.
func largeBodies(agentID string) map[string]string {
	return map[string]string{
		"/api/agents?action=chat&id=" + agentID:               `{"sessionId":"s","message":"$message"}`,
		"/api/agents?action=chat&format=ai-sdk&id=" + agentID: `{"id":"s","messages":[{"role":"user","parts":[{"type":"text","text":"$message"}]}]}`,
		"/api/agents?action=chat&format=ag-ui&id=" + agentID:  `{"sessionId":"s","message":"$message"}`,
		"/api/internal/run-automation":                        `{"target":"` + agentID + `","input":{"message":"$message"}}`,
		"/v1/chat/completions":                                `{"model":"` + agentID + `","stream":true,"messages":[{"role":"user","content":"$message"}]}`,
		"/v1/responses":                                       `{"model":"` + agentID + `","background":true,"input":"$message"}`,
	}
}

// bodyOfSize returns a body of the given size, and the message in it. In the body, only the first
// character of the message is escaped.
func bodyOfSize(body string, bytes int) (whole, message string) {
	message = strings.Repeat("m", bytes-len(body)+len("$message")-len("\\u003c")) // the escape sequence decodes to the character <
	return strings.Replace(body, "$message", "\\u003c"+message, 1), "<" + message
}

// unknownLength hides the length of a body, so that it is sent in chunks.
type unknownLength struct{ io.Reader }

// At every endpoint that accepts messages, a message may fill a request body of up to 2 MiB. The
// message arrives complete, and the slot of the request is released.
func TestAMessageMayBeAsLongAsItsBody(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	stored := func(runID string) (message string) {
		must(t, a.sql.QueryRowContext(t.Context(), `SELECT input->>'message' FROM runs WHERE id = $1`, runID).Scan(&message))
		return message
	}
	newest := func() (runID string) {
		must(t, a.sql.QueryRowContext(t.Context(), `SELECT id FROM runs ORDER BY created_at DESC LIMIT 1`).Scan(&runID))
		return runID
	}
	for target, body := range largeBodies(agentID) {
		for _, chunked := range []bool{false, true} {
			send := func(bytes int) (answer, string) {
				whole, message := bodyOfSize(body, bytes)
				var from io.Reader = strings.NewReader(whole)
				if chunked {
					from = unknownLength{from}
				}
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, from)
				for name, value := range map[string]string{"Content-Type": "application/json", "Prefer": "respond-async"} {
					req.Header.Set(name, value)
				}
				name, value, _ := strings.Cut(h.key, ": ")
				req.Header.Set(name, value)
				rec := openapitest.Serve(t, a.handler, req)
				return answer{rec.Code, rec.Header(), rec.Body.Bytes()}, message
			}
			for _, bytes := range []int{httpx.MaxBody, httpx.MaxBody + 1, httpx.MaxMessageBody} {
				got, message := send(bytes)
				if got.status >= 300 {
					t.Errorf("%s with %d bytes, chunked %v: %d %.300s", target, bytes, chunked, got.status, got.body)
					continue
				}
				if kept := stored(newest()); kept != message {
					t.Errorf("%s with %d bytes, chunked %v: a message of %d bytes is stored, want %d", target, bytes, chunked, len(kept), len(message))
				}
			}
			got, _ := send(httpx.MaxMessageBody + 1)
			if got.status != 413 || !strings.Contains(string(got.body), "2097152") {
				t.Errorf("%s with a byte too many, chunked %v: %d %.300s", target, chunked, got.status, got.body)
			}
		}
	}
	if n := a.openBodies(); n != 0 {
		t.Errorf("%d slots stay taken", n)
	}
}

// Visitors of widgets and of the demo may send bodies of at most 256 KiB: they need no account, and
// the organization pays for their runs.
func TestVisitorsSendShortMessages(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	agentID := a.newWidgetAgent(a.newTestOrg("home"), widgetPage)
	for target, headers := range map[string][]string{
		"id=" + agentID: a.guest(agentID, "").headers, "template=tpl_support": {"X-Tenant-Id: " + domain.DemoTenant},
	} {
		for bytes, status := range map[int]int{httpx.MaxBody: 202, httpx.MaxBody + 1: 413} {
			body, _ := bodyOfSize(`{"sessionId":"s","message":"$message"}`, bytes)
			if got := a.from("POST", "/api/agents?action=chat&"+target, body, append(headers, "Prefer: respond-async")...); got.status != status {
				t.Errorf("%s with %d bytes: %d %.300s", target, bytes, got.status, got.body)
			}
		}
	}
}

// Large bodies take slots, which are limited per organization. Smaller bodies take none. The slot
// is released when the run is accepted, even if the request then waits for the run.
func TestLargeBodiesTakeSlots(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h, other := a.newTestOrg("home"), a.newTestOrg("other")
	agentID, otherAgent := a.newAgent(h), a.newAgent(other)
	const small = `{"sessionId":"s","message":"m"}`
	large, _ := bodyOfSize(`{"sessionId":"s","message":"$message"}`, httpx.MaxBody+1)
	chat := "/api/agents?action=chat&id="

	begun := make(chan string, 8)
	a.startWorker(func(runID, _ string) { begun <- runID })
	answered := make(chan answer)
	go func() { answered <- a.from("POST", chat+agentID, large, h.key) }()
	runID := <-begun
	if n := a.openBodies(); n != 0 {
		t.Errorf("a request that waits for its run has %d slots", n)
	}
	a.end(runID, answers("answer"))
	(<-answered).want(t, "a request that waited", 200, "")

	for range transfer.Messages.PerCredential {
		takeSlot(t, &a.api.bodies.Limiter, nil, callerOwner(callerFor(t, a, h)))
	}
	refused := a.from("POST", chat+agentID, large, h.key).want(t, "one more", 429, "rate_limited")
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %s", refused.header)
	}
	a.from("POST", chat+agentID, small, h.key, "Prefer: respond-async").want(t, "a small body", 202, "")
	a.from("POST", chat+otherAgent, large, other.key, "Prefer: respond-async").want(t, "another organization", 202, "")
}

func (a *runEnv) openBodies() int {
	a.api.bodies.Mu.Lock()
	defer a.api.bodies.Mu.Unlock()
	return len(a.api.bodies.Open)
}
