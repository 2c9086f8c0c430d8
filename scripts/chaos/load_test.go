package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/lifecycle"
)

const (
	// waitDefault is the service's limit for a request that waits for its run. patience is an
	// additional tolerance for a busy machine.
	waitDefault = 20 * time.Second
	patience    = 40 * time.Second
	retryPause  = 150 * time.Millisecond
	leaves      = 300 * time.Millisecond
	lastTurn    = 4
)

// load is a group of clients that start runs.
type load struct {
	accounts []account
	urls     []string
	past     *history
	seed     uint64

	numbers atomic.Int64
	again   sync.Map // requests to repeat soon (type asked), by number
	asked   sync.Map // all requests that have a key (type asked), by key
	group   sync.WaitGroup
}

// asked is a request of a client for a run.
type asked struct {
	kind    string
	account account
	chat    bool // whether the chat endpoint is used instead of run-automation
	key     string
	session string
	message string
	early   bool // whether a 202 response suffices
	rates   bool // whether the client has the tool rate, which the model calls together with the agent's tool
}

// full returns the key prefixed with organization and endpoint, such as "one/automation/key-7".
func (a asked) full() string {
	endpoint := "automation"
	if a.chat {
		endpoint = "chat"
	}
	if a.key == "" {
		return ""
	}
	return a.account.name + "/" + endpoint + "/" + a.key
}

// run starts clients. After the channel named until is closed, the clients begin no new work, but
// continue to wait for the results of earlier work until ctx ends.
func (l *load) run(ctx context.Context, clients int, until <-chan struct{}) {
	for n := range clients {
		random := rand.New(rand.NewPCG(l.seed, uint64(n)+100))
		l.group.Go(func() {
			for {
				select {
				case <-until:
					return
				case <-ctx.Done():
					return
				default:
					l.one(ctx, random)
				}
			}
		})
	}
}

// kinds lists what clients can do, in the order in which they do it. Each kind of work uses the
// same key in every account.
var kinds = []string{
	"pay none", "pay unsafe", "pay idempotent", "repeated", "rate", "turn", "plain", "no key", "pay unsafe", "left", "chat", "plain", "pay none",
	"repeated", "pay idempotent", "rate", "pay unsafe", "turn", "repeated", "plain", "no key", "pay idempotent",
}

// one performs the next activity of a client.
func (l *load) one(ctx context.Context, random *rand.Rand) {
	n := l.numbers.Add(1) - 1
	round := n / int64(len(l.accounts))
	a := asked{
		kind: kinds[round%int64(len(kinds))], account: l.accounts[n%int64(len(l.accounts))], key: fmt.Sprintf("key-%d", round),
		message: fmt.Sprintf("sleep %dms: number %d", random.IntN(1000), n),
	}

	via := random.IntN(len(l.urls))
	switch a.kind {
	case "plain":
		l.until(ctx, a, via)
	case "repeated":
		l.simultaneously(ctx, a)
		l.again.Store(n, a)
	case "turn", "chat":
		l.session(ctx, a, via, n)
	case "no key":
		a.key, a.early = "", true
		l.follow(ctx, a, via)
	case "rate":
		a.chat, a.rates, a.session = true, true, fmt.Sprintf("rate-%d", n)
		a.message = fmt.Sprintf("pay idempotent bill-%d %s", n, withRate)
		l.until(ctx, a, via)
	case "left":
		l.leave(ctx, a, via)
		l.again.Store(n, a)
	default:
		a.message = fmt.Sprintf("%s bill-%d", a.kind, n)
		l.until(ctx, a, via)
	}

	l.revisit(ctx, via)
}

// revisit repeats a request with a key that was used before.
func (l *load) revisit(ctx context.Context, via int) {
	l.again.Range(func(n, value any) bool {
		if _, mine := l.again.LoadAndDelete(n); mine {
			if a, ok := value.(asked); ok {
				l.until(ctx, a, via)
			}
		}
		return false
	})
}

// simultaneously sends the same request through all ingresses at the same time.
func (l *load) simultaneously(ctx context.Context, a asked) {
	var both sync.WaitGroup
	for via := range l.urls {
		both.Go(func() { l.until(ctx, a, via) })
	}
	both.Wait()
}

// session performs several turns of a session. A chat starts each turn after the previous answer.
// Other kinds of work start each turn as soon as the service has accepted the previous one.
func (l *load) session(ctx context.Context, a asked, via int, n int64) {
	first := a.key
	a.chat, a.session = a.kind == "chat", fmt.Sprintf("session-%d", n)
	for turn := 1; turn <= lastTurn && ctx.Err() == nil; turn++ {
		a.early = !a.chat && turn < lastTurn
		a.key, a.message = fmt.Sprintf("%s-turn-%d", first, turn), fmt.Sprintf("turn %s %d", a.session, turn)
		if !l.until(ctx, a, via).accepted() {
			return
		}
	}
}

// follow starts a run without a key and, if it is accepted, polls it until it finishes.
func (l *load) follow(ctx context.Context, a asked, via int) {
	got := l.post(ctx, a, via)
	if !got.accepted() {
		return // it is unknown whether the service has accepted the run
	}
	for ; ctx.Err() == nil && !api.Terminal(got.RunStatus); via++ {
		got = l.get(ctx, a, got.Run, via)
	}
}

// leave sends a request and aborts it before the response.
func (l *load) leave(ctx context.Context, a asked, via int) {
	ctx, cancel := context.WithTimeout(ctx, leaves)
	defer cancel()
	l.post(ctx, a, via)
}

// until repeats a request until it gets a final response, as a scheduler does. It uses each ingress
// in turn.
func (l *load) until(ctx context.Context, a asked, via int) request {
	for ; ; via++ {
		got := l.post(ctx, a, via)
		if ctx.Err() != nil || got.accepted() && (a.early || api.Terminal(got.RunStatus)) {
			return got
		}
		if len(got.Calls) > 0 {
			l.sendRates(ctx, a, got, via+1)
		}
		_ = lifecycle.Sleep(ctx, retryPause)
	}
}

// sendRates sends the results of the client's tool for which a run waits. If the response is lost,
// it sends the same results again with the function until.
func (l *load) sendRates(ctx context.Context, a asked, waiting request, via int) {
	var results []any
	for _, id := range waiting.Calls {
		results = append(results, map[string]any{"toolCallId": id, "output": map[string]any{"rate": 3}})
	}
	url := l.urls[via%len(l.urls)] + "/api/runs?action=tool-results&id=" + waiting.Run

	sent := time.Now()
	got := send(ctx, http.MethodPost, url, map[string]string{"x-api-key": a.account.key}, map[string]any{"results": results})
	problem := string(got.Body)
	if got.Err != nil {
		problem = got.Err.Error()
	}
	l.past.note(func(all *evidence) {
		all.Results = append(all.Results, clientResults{Run: waiting.Run, Status: got.Status, Problem: problem, Sent: sent, Done: time.Now()})
	})
}

func (l *load) post(ctx context.Context, a asked, via int) request {
	if a.key != "" {
		l.asked.Store(a.full(), a)
	}

	url := l.urls[via%len(l.urls)]
	header := map[string]string{"x-api-key": a.account.key}
	var body map[string]any
	if a.chat {
		url += "/api/agents?action=chat&id=" + a.account.agent
		header["Idempotency-Key"] = a.key
		body = map[string]any{"sessionId": a.session, "message": a.message}
		if a.rates {
			body["tools"] = []any{map[string]any{"name": rateTool}}
		}
	} else {
		url += "/api/internal/run-automation"
		header["x-trigger-type"], header["x-automation-id"] = "schedule", "chaos"
		body = map[string]any{"target": a.account.agent, "input": map[string]any{"message": a.message}}
		if a.key != "" {
			body["idempotencyKey"] = a.key
		}
		if a.session != "" {
			body["sessionId"] = a.session
		}
	}
	if a.early {
		header["Prefer"] = "respond-async"
	}
	return l.send(ctx, a, via, http.MethodPost, url, header, body)
}

// get requests the state of a run, which may not have finished.
func (l *load) get(ctx context.Context, a asked, id string, via int) request {
	url := l.urls[via%len(l.urls)] + "/api/runs?wait=10&id=" + id
	got := l.send(ctx, a, via, http.MethodGet, url, map[string]string{"x-api-key": a.account.key}, nil)
	got.Run = id
	if !got.accepted() {
		_ = lifecycle.Sleep(ctx, retryPause)
	}
	return got
}

// send sends a request and records its outcome.
func (l *load) send(ctx context.Context, a asked, via int, method, url string, header map[string]string, body any) request {
	r := request{
		Kind: a.kind, Key: a.full(), Via: fmt.Sprintf("ingress %d", via%len(l.urls)+1), Sent: time.Now(), Within: waitDefault + patience,
	}

	got := send(ctx, method, url, header, body)
	r.Done, r.Left = time.Now(), ctx.Err() != nil
	switch {
	case got.Err != nil:
		r.Problem = got.Err.Error()
	case got.Status < 200 || got.Status >= 300:
		r.Status, r.Problem, r.RetryAfter = got.Status, string(got.Body), got.Header.Get("Retry-After") != ""
	default:
		var run api.Run
		if err := json.Unmarshal(got.Body, &run); err != nil || run.ID == "" {
			r.Status, r.Problem = wrongResponse, "no run: "+string(got.Body)
			break
		}
		r.Status, r.Run, r.RunStatus, r.Replayed = got.Status, run.ID, run.Status, got.IsReplay()
		if run.RequiredAction != nil {
			for _, call := range run.RequiredAction.Calls {
				r.Calls = append(r.Calls, call.ToolCallID)
			}
		}
		if api.Terminal(run.Status) && method == http.MethodPost {
			r.Body = string(got.Body)
		}
	}

	l.past.note(func(all *evidence) { all.Requests = append(all.Requests, r) })
	return r
}

// replayAll requests each key once more after the faults.
func (l *load) replayAll(ctx context.Context, clients int) {
	var next atomic.Int64
	var wanted []asked
	l.asked.Range(func(_, value any) bool {
		if a, ok := value.(asked); ok {
			a.early = false
			wanted = append(wanted, a)
		}
		return true
	})

	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(wanted) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				l.until(ctx, wanted[n], n)
			}
		})
	}

	group.Wait()
}
