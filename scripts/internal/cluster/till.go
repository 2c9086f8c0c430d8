package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley/shared/testkit/openaistub"
)

// The tools with which agents pay bills. If the outcome of a call to PayOnce is unknown, a person
// must decide whether to repeat the call. PayByKey honours idempotency keys.
const (
	PayOnce  = "payOnce"
	PayByKey = "payByKey"
)

// Till is an HTTP handler that receives payments and counts them. It is safe for concurrent use.
type Till struct {
	// Delay returns how long the till waits before it confirms a payment that it has counted. If
	// Delay is nil, the till does not wait.
	Delay func(bill string) time.Duration

	mu       sync.Mutex
	payments []Payment
}

// Payment is one complete request that the till has received.
type Payment struct{ Key, Bill string }

// ServeHTTP counts a payment and confirms it.
func (t *Till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var asked struct {
		Bill string `json:"bill"`
	}
	if err != nil || json.Unmarshal(raw, &asked) != nil {
		w.WriteHeader(http.StatusBadRequest) // an incomplete request has no effect
		return
	}

	t.mu.Lock()
	t.payments = append(t.payments, Payment{Key: r.Header.Get("Idempotency-Key"), Bill: asked.Bill})
	t.mu.Unlock()
	if t.Delay != nil {
		<-time.After(t.Delay(asked.Bill)) // also if the requester has died
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"paid":true}`)
}

// Of returns the payments of a bill, and the number of different idempotency keys among them.
func (t *Till) Of(bill string) (payments []Payment, keys int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[string]bool{}
	for _, p := range t.payments {
		if p.Bill == bill {
			payments = append(payments, p)
			seen[p.Key] = true
		}
	}
	return payments, len(seen)
}

// Tally returns the number of payments of each bill.
func (t *Till) Tally() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := map[string]int{}
	for _, p := range t.payments {
		times[p.Bill]++
	}
	return times
}

// PayEndpoints returns the configuration of the tools PayOnce and PayByKey, which pay at the URL of
// a till.
func PayEndpoints(url string) []any {
	return []any{PayEndpoint(url, PayOnce, "unsafe"), PayEndpoint(url, PayByKey, "idempotent")}
}

// PayEndpoint returns the configuration of a tool that pays at the URL of a till.
func PayEndpoint(url, name, sideEffect string) map[string]any {
	return map[string]any{
		"name": name, "description": "Pays.", "method": "POST", "url": url + "/" + name, "sideEffect": sideEffect,
		"inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"bill": map[string]any{"type": "string"}}, "required": []string{"bill"},
		},
	}
}

// Pays is a script of the model stub. For the message "pay TOOL BILL", the model calls the tool,
// and calls it again if the tool was not available. Then it answers with the result. It uses the
// same call ID in every turn. The service must distinguish these calls nevertheless.
func Pays(req openaistub.Request) (openaistub.Reply, bool) {
	var tool, bill string
	if n, _ := fmt.Sscanf(req.Prompt(), "pay %s %s", &tool, &bill); n != 2 {
		return openaistub.Reply{}, false
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" && !strings.Contains(last.Content, "not available") {
		return openaistub.Reply{Text: "done: " + last.Content}, true
	}
	arguments := fmt.Sprintf(`{"bill":%q}`, bill)
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_pay", Name: tool, Arguments: arguments}}}, true
}
