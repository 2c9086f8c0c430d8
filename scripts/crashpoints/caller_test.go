package crashpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client makes a connection for each request, as callers of different processes do.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 80 * time.Second}

// answer is what a request got; err is none at all.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// into reads a body, and fails the test unless the answer has the status.
func (a answer) into(t *testing.T, status int, value any) {
	t.Helper()
	if a.err != nil || a.status != status {
		t.Fatalf("answer %d, %v, want %d: %s", a.status, a.err, status, a.body)
	}
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// send makes one request, as the organization unless the header says otherwise; it may be used from any goroutine.
func (b *testEnv) send(method, path string, header map[string]string, body any) answer {
	return b.sendWithin(b.Context(), method, path, header, body)
}

func (b *testEnv) sendWithin(ctx context.Context, method, path string, header map[string]string, body any) answer {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return answer{err: err}
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url()+path, bytes.NewReader(raw))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if b.key != "" {
		req.Header.Set("X-Api-Key", b.key)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: raw, err: err}
}

// call is what a client wants; its name is its key, and its bill's.
type call struct {
	name string
	tool string // that the agent pays with; empty: it echoes
	chat bool   // and else a trigger

	padding string // behind what it says, when it pays nothing
}

func (c call) message() string {
	if c.tool == "" {
		return c.name + c.padding
	}
	return "pay " + c.tool + " " + c.name
}

// post makes the call once; it may be used from any goroutine.
func (b *testEnv) post(ctx context.Context, c call) answer {
	header := map[string]string{"Idempotency-Key": c.name, "Prefer": "wait=20"}
	if c.chat {
		return b.sendWithin(ctx, http.MethodPost, "/api/agents?action=chat&id="+b.agentID, header,
			map[string]any{"sessionId": c.name, "message": c.message()})
	}
	header["X-Trigger-Type"], header["X-Automation-Id"] = "schedule", "crash"
	return b.sendWithin(ctx, http.MethodPost, "/api/internal/run-automation", header,
		map[string]any{"target": b.agentID, "input": map[string]any{"message": c.message()}})
}

// run is the run object, as far as these tests look at it.
type run struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Output *struct {
		Message string `json:"message"`
	} `json:"output"`
	RequiredAction *struct {
		ToolCallID string `json:"toolCallId"`
	} `json:"requiredAction"`
}

// settled is what became of a call: a terminal run's bytes.
type settled struct {
	call
	run

	body  []byte
	asked int // how often a person had to look at the till
	err   error
}

// begin makes a call again and again, on a goroutine of its own, until it has a run's end.
func (b *testEnv) begin(c call) <-chan settled {
	done := make(chan settled, 1)
	go func() { done <- b.settle(c) }()
	return done
}

func (b *testEnv) settle(c call) settled {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	s := settled{call: c}
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		got := b.post(ctx, c)
		s.run = run{}
		switch {
		case got.err != nil, got.status == http.StatusServiceUnavailable, got.status == http.StatusTooManyRequests:
			b.refused.Add(min(int64(got.status), 1))
		case got.status != http.StatusOK && got.status != http.StatusAccepted:
			s.err = fmt.Errorf("%s: refused with %d: %s", c.name, got.status, got.body)
			return s
		default:
			if s.err = json.Unmarshal(got.body, &s.run); s.err != nil || got.status == http.StatusOK {
				s.body = got.body
				return s
			}
			if s.RequiredAction != nil {
				s.asked += b.decide(ctx, s.run, c.name)
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	s.err = fmt.Errorf("%s: no end within %s", c.name, patience)
	return s
}

// decide is the person: who looks at the till, and says what became of the call.
func (b *testEnv) decide(ctx context.Context, r run, bill string) (decided int) {
	decision := "resend"
	if times, _ := b.till.of(bill); times > 0 {
		decision = "happened"
	}
	got := b.sendWithin(ctx, http.MethodPost, "/api/runs?id="+r.ID+"&action="+decision+"&toolCallId="+r.RequiredAction.ToolCallID, nil, nil)
	if got.err == nil && got.status == http.StatusOK {
		return 1
	}
	return 0
}

// await gives what became of a call, and fails the test unless that is what was to be.
func (b *testEnv) await(done <-chan settled) settled {
	b.Helper()
	s := <-done
	if s.err != nil {
		b.Fatal(s.err)
	}
	want := "echo: " + s.name
	if s.tool != "" {
		want = "done: "
	}
	if s.Status != "completed" || s.Output == nil || !strings.HasPrefix(s.Output.Message, want) {
		b.Fatalf("%s: want it completed with %q: %s", s.name, want, s.body)
	}
	return s
}

// check looks at everything when all calls are settled: each is one run and one effect, gets the same bytes again, and its row, which
// is given as it was when the run had ended, is as it was.
func (b *testEnv) check(all []settled, rows map[string]string) {
	b.Helper()
	for _, s := range all {
		again := b.post(b.Context(), s.call)
		if again.err != nil || again.status != http.StatusOK || again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.body, s.body) {
			b.Errorf("%s: the replay is %d, %v, %q, not the answer %q", s.name, again.status, again.err, again.body, s.body)
		}
		if row := b.row(s.ID); row != rows[s.ID] {
			b.Errorf("%s: its terminal row changed from %s to %s", s.name, rows[s.ID], row)
		}
		times, keys := b.till.of(s.name)
		switch {
		case s.tool == "" && times > 0, s.tool == once && times != 1, s.tool == byKey && keys != 1:
			b.Errorf("%s: %d effects under %d keys", s.name, times, keys)
		}
	}
	b.settled += len(all)
	if n := b.number(`SELECT count(*) FROM runs`); n != b.settled {
		b.Errorf("%d runs of %d keys", n, b.settled)
	}
	if n := b.number(`SELECT count(*) FROM open_runs`); n != 0 {
		b.Errorf("%d runs are open", n)
	}
	open := `SELECT count(*) FROM effects WHERE state IN ('ready', 'awaiting')`
	if !b.unkept {
		open += ` OR state = 'sending'`
	}
	if n := b.number(open); n != 0 {
		b.Errorf("%d effects are open", n)
	}
}

// settleAll awaits calls, keeps their rows as they are when each has ended, lets happen what then is to happen, which may bring
// further calls, and checks.
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
