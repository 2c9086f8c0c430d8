package crashpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"parley/scripts/internal/api"
)

// postTo sends one POST request with the organization's API key, until ctx ends. The argument header
// may override the key. postTo is safe for concurrent use.
func (b *testEnv) postTo(ctx context.Context, path string, header map[string]string, body any) api.Answer {
	all := map[string]string{"X-Api-Key": b.key}
	maps.Copy(all, header)
	return api.Send(ctx, http.MethodPost, b.url()+path, all, body)
}

// call is a request for a run, which a client sends and repeats. Its name is also its idempotency
// key and the name of its bill.
type call struct {
	name string
	tool string // tool that pays the bill; empty: the agent echoes the message
	chat bool   // whether the chat endpoint is used instead of a trigger

	padding string // text that makes the message longer, if no tool pays
	rates   bool   // whether the client provides the tool rate, which the model then also calls
}

func (c call) message() string {
	switch {
	case c.rates && c.tool == "":
		return "rate " + c.name
	case c.rates:
		return "pay " + c.tool + " " + c.name + " rate"
	case c.tool == "":
		return c.name + c.padding
	}
	return "pay " + c.tool + " " + c.name
}

// post sends the request of a call once. It is safe for concurrent use.
func (b *testEnv) post(ctx context.Context, c call) api.Answer {
	header := map[string]string{"Idempotency-Key": c.name, "Prefer": "wait=20"}
	if c.chat {
		body := map[string]any{"sessionId": c.name, "message": c.message()}
		if c.rates {
			body["tools"] = []any{map[string]any{"name": rate}}
		}
		return b.postTo(ctx, "/api/agents?action=chat&id="+b.agentID, header, body)
	}
	header["X-Trigger-Type"], header["X-Automation-Id"] = "schedule", "crash"
	return b.postTo(ctx, "/api/internal/run-automation", header,
		map[string]any{"target": b.agentID, "input": map[string]any{"message": c.message()}})
}

// settled is the outcome of a call: the finished run and its JSON.
type settled struct {
	call
	api.Run

	body  []byte
	asked int // number of decisions that a person had to make
	err   error
}

// begin starts a goroutine that sends a call repeatedly until its run has finished.
func (b *testEnv) begin(c call) <-chan settled {
	done := make(chan settled, 1)
	go func() { done <- b.settle(c) }()
	return done
}

// settle sends a call repeatedly until its run has finished, for at most the duration patience. If
// the run waits for a decision or for results of the client's tool, settle sends the decision or
// the results.
func (b *testEnv) settle(c call) settled {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()

	s := settled{call: c}
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()

	for ctx.Err() == nil {
		got := b.post(ctx, c)
		s.Run = api.Run{}
		switch {
		case got.Err != nil, got.Status == http.StatusServiceUnavailable, got.Status == http.StatusTooManyRequests:
			b.refused.Add(min(int64(got.Status), 1))
		case got.Status != http.StatusOK && got.Status != http.StatusAccepted:
			s.err = fmt.Errorf("%s: refused with %d: %s", c.name, got.Status, got.Body)
			return s
		default:
			if s.err = json.Unmarshal(got.Body, &s.Run); s.err != nil || got.Status == http.StatusOK {
				s.body = got.Body
				return s
			}
			switch {
			case s.RequiredAction == nil:
			case s.RequiredAction.Kind == "client_tools":
				b.sendRates(ctx, s.Run, c)
			default:
				s.asked += b.decide(ctx, s.Run, c.name)
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}

	s.err = fmt.Errorf("%s: not finished within %s", c.name, patience)
	return s
}

// decide makes the person's decision for a waiting run, according to the payments that the till has
// counted. It returns the number of decisions that the service accepted.
func (b *testEnv) decide(ctx context.Context, r api.Run, bill string) (decided int) {
	decision := "resend"
	if payments, _ := b.till.Of(bill); len(payments) > 0 {
		decision = "happened"
	}
	got := b.postTo(ctx, "/api/runs?id="+r.ID+"&action="+decision+"&toolCallId="+r.RequiredAction.ToolCallID, nil, nil)
	if got.Err == nil && got.Status == http.StatusOK {
		return 1
	}
	return 0
}

// await returns the outcome of a call. It fails the test unless the run has completed with the
// expected answer.
func (b *testEnv) await(done <-chan settled) settled {
	b.Helper()
	s := <-done
	if s.err != nil {
		b.Fatal(s.err)
	}

	want := "echo: " + s.name
	if s.tool != "" || s.rates {
		want = "done: "
	}
	if s.Status != "completed" || s.Output == nil || !strings.HasPrefix(s.Output.Message, want) {
		b.Fatalf("%s: want a completed run with %q: %s", s.name, want, s.body)
	}
	return s
}

// check verifies finished calls. Each call must have one run and one effect, and a replay must
// return the same JSON. The run's row must not have changed since the run finished; rows contains
// the fingerprints taken at that time.
func (b *testEnv) check(all []settled, rows map[string]string) {
	b.Helper()
	for _, s := range all {
		again := b.post(b.Context(), s.call)
		if again.Err != nil || again.Status != http.StatusOK || !again.IsReplay() || !bytes.Equal(again.Body, s.body) {
			b.Errorf("%s: replay = %d, %v, %q; want the first response %q", s.name, again.Status, again.Err, again.Body, s.body)
		}
		if row := b.row(s.ID); row != rows[s.ID] {
			b.Errorf("%s: the terminal row changed from %s to %s", s.name, rows[s.ID], row)
		}
		payments, keys := b.till.Of(s.name)
		times := len(payments)
		switch {
		case s.tool == "" && times > 0, s.tool == once && times != 1, s.tool == byKey && keys != 1:
			b.Errorf("%s: effects = %d, keys = %d", s.name, times, keys)
		}
	}

	b.settled += len(all)
	if n := b.number(`SELECT count(*) FROM runs`); n != b.settled {
		b.Errorf("runs = %d, want one for each of %d keys", n, b.settled)
	}
	if n := b.number(`SELECT count(*) FROM open_runs`); n != 0 {
		b.Errorf("open runs = %d, want 0", n)
	}

	open := `SELECT count(*) FROM effects WHERE state IN ('ready', 'awaiting')`
	if !b.unkept {
		open += ` OR state = 'sending'`
	}
	if n := b.number(open); n != 0 {
		b.Errorf("open effects = %d, want 0", n)
	}
}

// settleAll awaits the calls and records the fingerprints of their rows. After that, it calls the
// argument then, a function that may return the outcomes of further calls, and checks all of the
// calls.
func (b *testEnv) settleAll(then func() []settled, calls ...<-chan settled) (all []settled) {
	b.Helper()
	rows := map[string]string{}
	for _, done := range calls {
		s := b.await(done)
		all = append(all, s)
		rows[s.ID] = b.row(s.ID)
	}

	if then == nil {
		b.check(all, rows)
		return all
	}

	for _, s := range then() {
		all = append(all, s)
		rows[s.ID] = b.row(s.ID)
	}

	b.check(all, rows)
	return all
}
