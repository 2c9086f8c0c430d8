package crashpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/shared/testkit/openaistub"
)

// The agent's tools. If the outcome of a call to payOnce is unknown, a person must decide whether
// to repeat the call. The other tool honours idempotency keys.
const (
	once  = "payOnce"
	byKey = "payByKey"
)

// till is an HTTP server that receives payments and counts them.
type till struct {
	host string // for example "127.0.0.1:8080"

	mu   sync.Mutex
	hits []hit
}

// hit is one complete request that the till has received.
type hit struct{ key, body string }

func newTill(t *testing.T) *till {
	t.Helper()
	l := &till{}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.host = strings.TrimPrefix(server.URL, "http://")
	return l
}

// ServeHTTP counts a payment and confirms it.
func (l *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // an incomplete request has no effect
	}
	l.mu.Lock()
	l.hits = append(l.hits, hit{key: r.Header.Get("Idempotency-Key"), body: string(raw)})
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"paid":true}`)
}

// of returns the number of payments of a bill, and the number of different keys among them.
func (l *till) of(bill string) (times, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	for _, h := range l.hits {
		if strings.Contains(h.body, `"`+bill+`"`) {
			times++
			seen[h.key] = true
		}
	}
	return times, len(seen)
}

// newModel starts the model provider. If the message is "pay payOnce x", the model calls the tool
// payOnce once and reports the result. It echoes all other messages.
func newModel(t *testing.T) (url string) {
	t.Helper()
	stub := openaistub.New()
	stub.Respond(pays)
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// pays answers a request to the model. It calls the tool that the message names, and then answers
// with the result of the tool.
func pays(req openaistub.Request) (openaistub.Reply, bool) {
	var tool, bill string
	last := req.Messages[len(req.Messages)-1]
	if strings.HasPrefix(req.Prompt(), "rate ") {
		return rates(last.Role, last.Content), true
	}
	if n, _ := fmt.Sscanf(req.Prompt(), "pay %s %s", &tool, &bill); n != 2 {
		return openaistub.Reply{}, false
	}
	if last.Role == "tool" && !strings.Contains(last.Content, "not available") {
		return openaistub.Reply{Text: "done: " + last.Content}, true
	}

	arguments, err := json.Marshal(map[string]string{"bill": bill})
	if err != nil {
		return openaistub.Reply{}, false
	}
	calls := []openaistub.ToolCall{{ID: "call_pay", Name: tool, Arguments: string(arguments)}}
	if strings.HasSuffix(req.Prompt(), " rate") {
		calls = append(rates(last.Role, last.Content).ToolCalls, calls...)
	}
	return openaistub.Reply{ToolCalls: calls}, true
}

// rate is the name of the client's tool.
const rate = "rate"

// rates answers with the result of the client's tool if the last message is a result. Otherwise it
// calls the client's tool.
func rates(lastRole, content string) openaistub.Reply {
	if lastRole == "tool" {
		return openaistub.Reply{Text: "done: " + content}
	}
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_rate", Name: rate, Arguments: "{}"}}}
}

// endpoints returns the configuration of the agent's tools.
func endpoints(host string) map[string]any {
	endpoint := func(name, effect string) map[string]any {
		return map[string]any{
			"name": name, "description": "Pays.", "method": "POST", "url": "http://" + host + "/" + name, "sideEffect": effect,
			"inputSchema": map[string]any{
				"type": "object", "properties": map[string]any{"bill": map[string]any{"type": "string"}}, "required": []string{"bill"},
			},
		}
	}
	return map[string]any{"httpRequest": map[string]any{
		"enabled": true, "endpoints": []any{endpoint(once, "unsafe"), endpoint(byKey, "idempotent")},
	}}
}
