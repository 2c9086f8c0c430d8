package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/scripts/internal/cluster"
	"parley/shared/lifecycle"
	"parley/shared/testkit/openaistub"
)

// paidMark is a text that the answer of a run contains if its bill was paid.
const paidMark = `\"paid\":true`

// confirmedMark is a text that a run's answer contains if a person confirmed the payment.
const confirmedMark = "A person confirmed that this call was executed."

// bill is a payment that a message requests. The message "pay unsafe bill-7" requests the payment
// of bill-7 with the tool unsafe.
type bill struct{ tool, name string }

func billFor(message string) (bill, bool) {
	var b bill
	n, _ := fmt.Sscanf(message, "pay %s %s", &b.tool, &b.name)
	return b, n == 2
}

// withRate is the end of a message that requests a payment and a call of the client's tool rateTool
// in the same turn. rateMark is a text that the run's answer contains if the model has received the
// result of the client's tool.
const (
	withRate = "with rate"
	rateTool = "rate"
	rateMark = `\"rate\":3`
)

// turnFor parses the message of a session's turn, such as "turn session-7 2".
func turnFor(message string) (session string, n int, known bool) {
	found, _ := fmt.Sscanf(message, "turn %s %d", &session, &n)
	return session, n, found == 2
}

// model is the model provider of all agents. It runs in the test process, which is never killed.
type model struct {
	url  string
	past *history
}

func newModel(t *testing.T, past *history) *model {
	t.Helper()
	m := &model{past: past}
	stub := openaistub.New()
	stub.Respond(m.answer)
	server := httptest.NewServer(stub)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	m.url = server.URL + "/v1"
	return m
}

// answer pays bills and answers turns of sessions. The stub's rules answer all other messages.
func (m *model) answer(req openaistub.Request) (openaistub.Reply, bool) {
	prompt := req.Prompt()
	delay := time.Duration(len(req.Body)*7919%400) * time.Millisecond // varied, but the same for equal requests
	if b, known := billFor(prompt); known && strings.HasSuffix(prompt, withRate) {
		return payWithRate(req, b, delay), true
	} else if known {
		reply, _ := cluster.Pays(req)
		reply.Delay = delay
		return reply, true
	}

	session, n, known := turnFor(prompt)
	if !known {
		return openaistub.Reply{}, false
	}

	shown := turn{Session: session, N: n}
	for _, message := range req.Messages {
		if s, other, isTurn := turnFor(message.Content); isTurn && s == session && message.Role == "user" {
			shown.Before = append(shown.Before, other)
		}
	}

	shown.Before = shown.Before[:len(shown.Before)-1] // removes the last message, which belongs to the current turn
	m.past.note(func(all *evidence) { all.Turns = append(all.Turns, shown) })
	return openaistub.Reply{Text: "answered " + strconv.Itoa(n), Delay: delay}, true
}

// payWithRate answers a message that requests a payment and a call of the client's tool. The first
// turn calls both tools, and names the client's tool first. If the agent's tool was not available,
// a further turn calls it again.
func payWithRate(req openaistub.Request, b bill, delay time.Duration) openaistub.Reply {
	pay := openaistub.ToolCall{ID: "call_pay", Name: b.tool, Arguments: fmt.Sprintf(`{"bill":%q}`, b.name)}
	results, paid := "", false // results of the calls after the message
	for _, m := range req.Messages {
		if m.Role != "tool" {
			continue
		}
		results += m.Content
		paid = paid || strings.Contains(m.Content, "paid")
	}
	switch {
	case results == "":
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_rate", Name: rateTool, Arguments: "{}"}, pay}, Delay: delay}
	case !paid:
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{pay}, Delay: delay}
	default:
		return openaistub.Reply{Text: "done: " + results, Delay: delay}
	}
}

// ledger receives the side effects of tools and counts them. It is never killed.
type ledger struct {
	url, host string
	past      *history

	unsafe atomic.Int64 // number of unsafe bills whose payment is being received

	mu   sync.Mutex
	paid map[string]int // number of payments, by bill
}

func newLedger(t *testing.T, past *history) *ledger {
	t.Helper()
	l := &ledger{past: past, paid: map[string]int{}}
	server := httptest.NewServer(l)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	l.url, l.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return l
}

// ServeHTTP counts an effect. It waits before and after counting, so that faults can strike at both
// times.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body struct {
		Bill string `json:"bill"`
	}
	if err != nil || json.Unmarshal(raw, &body) != nil || body.Bill == "" {
		w.WriteHeader(http.StatusBadRequest) // an incomplete request has no effect
		return
	}
	if strings.HasSuffix(r.URL.Path, "unsafe") {
		l.unsafe.Add(1)
		defer l.unsafe.Add(-1)
	}

	// The payment continues even if the requester has died, because its request has arrived.
	_ = lifecycle.Sleep(context.WithoutCancel(r.Context()), time.Duration(len(body.Bill)*31%5)*20*time.Millisecond)
	l.mu.Lock()
	l.paid[body.Bill]++
	l.mu.Unlock()
	l.past.note(func(all *evidence) {
		all.Effects = append(all.Effects, effect{
			Bill: body.Bill, Tool: strings.TrimPrefix(r.URL.Path, "/"), Key: r.Header.Get("Idempotency-Key"), At: time.Now(),
		})
	})

	_ = lifecycle.Sleep(context.WithoutCancel(r.Context()), time.Duration(len(raw)*17%7)*25*time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"paid":true}`)
}

// times returns the number of payment requests for a bill that the ledger has received.
func (l *ledger) times(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paid[name]
}

// client is like api.Fresh, but its timeout is far longer than the service's limits, so that a stuck
// request is noticed.
var client = &http.Client{Transport: api.Fresh.Transport, Timeout: 5 * time.Minute}

// account is an organization with an API key and an agent.
type account struct{ name, key, agent string }

func send(ctx context.Context, method, url string, header map[string]string, body any) api.Answer {
	return api.SendBy(ctx, client, method, url, header, body)
}

// signUp creates an organization with an agent. The agent's tools book payments in the ledger.
func signUp(t *testing.T, url, name string, receiver *ledger) account {
	t.Helper()
	a := account{name: name, key: api.SignUp(t, url)}
	var endpoints []any
	for _, tool := range tools {
		endpoints = append(endpoints, cluster.PayEndpoint(receiver.url, tool, tool))
	}
	a.agent = api.CreateAgent(t, url, a.key, map[string]any{
		"name": "Chaos", "systemPrompt": "Follow the instructions of the user.", "model": "openai/chaos",
		"tools": map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": endpoints}},
	})
	return a
}

// tools are the names of the agents' HTTP tools. Each name is the side effect that the tool
// declares.
var tools = []string{"none", "idempotent", "unsafe"}

// person decides about waiting runs, according to the payments that the ledger has counted.
type person struct {
	accounts []account
	ledger   *ledger
	urls     []string
	past     *history
}

// work makes decisions until ctx ends.
func (p *person) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for _, a := range p.accounts {
			p.look(ctx, a, p.urls[n%len(p.urls)])
		}
		_ = lifecycle.Sleep(ctx, time.Second)
	}
}

// unreadable records a response that cannot be decoded as a request with a wrong response.
func (p *person) unreadable(got api.Answer, err error) {
	p.past.note(func(all *evidence) {
		now := time.Now()
		all.Requests = append(all.Requests, request{
			Kind: "list of waiting runs", Sent: now, Done: now, Status: wrongResponse, Problem: fmt.Sprintf("%v: %s", err, got.Body),
		})
	})
}

// look decides about all waiting runs of an account. It reports a bill as paid if the ledger has
// counted the payment. Otherwise it lets the run send the payment again.
func (p *person) look(ctx context.Context, a account, url string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()

	header := map[string]string{"x-api-key": a.key}
	got := send(ctx, http.MethodGet, url+"/api/runs?status=requires_action", header, nil)
	var list struct {
		Data []api.Run `json:"data"`
	}
	if got.Check(http.StatusOK) != nil {
		return // the person tries again later
	}
	if err := json.Unmarshal(got.Body, &list); err != nil {
		p.unreadable(got, err)
		return
	}

	for _, run := range list.Data {
		if run.RequiredAction == nil || run.RequiredAction.Kind == "client_tools" { // the client sends the results itself
			continue
		}
		var asked struct {
			Bill string `json:"bill"`
		}
		if err := json.Unmarshal(run.RequiredAction.Input, &asked); err != nil {
			p.unreadable(got, err)
			continue
		}
		name, said := asked.Bill, "resend"
		if p.ledger.times(name) > 0 {
			said = "happened"
		}
		query := fmt.Sprintf("/api/runs?id=%s&action=%s&toolCallId=%s", run.ID, said, run.RequiredAction.ToolCallID)
		// The decision is recorded first, because the service may receive it even if the response
		// is lost.
		p.past.note(func(all *evidence) {
			all.Decisions = append(all.Decisions, decision{Run: run.ID, Bill: name, Said: said, At: time.Now()})
		})
		send(ctx, http.MethodPost, url+query, header, nil) // the person tries again later
	}
}
