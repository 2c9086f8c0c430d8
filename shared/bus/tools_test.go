package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

const kind = "test"

func caller(t *testing.T, url string) *bus.ToolCaller {
	t.Helper()
	c, err := dial(t, url).NewToolCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve starts a tool worker. The worker stops at the end of the test, unless the test calls stop
// before.
func serve(t *testing.T, url string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool)) (stop func(context.Context)) {
	t.Helper()
	stop, err := dial(t, url).ServeTool(kind, cfg, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		stop(ended)
	})
	return stop
}

func echo(_ context.Context, m bus.ToolMessage) ([]byte, bool) {
	return []byte(m.Capability + ":" + string(m.Body)), true
}

func soon() time.Time { return time.Now().Add(time.Minute) }

func TestACallIsAnswered(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	deadlines := make(chan time.Time, 1)
	serve(t, url, bus.ToolOptions{Slots: 1}, func(ctx context.Context, m bus.ToolMessage) ([]byte, bool) {
		own, ok := ctx.Deadline()
		if !ok || !own.Equal(m.Deadline.Add(5*time.Second)) {
			t.Errorf("deadline %v, %v", own, m.Deadline)
		}
		deadlines <- m.Deadline
		return echo(ctx, m)
	})
	deadline := soon()
	got, err := caller(t, url).Call(t.Context(), kind, "cap", []byte("hello"), deadline)
	if err != nil || string(got) != "cap:hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if received := <-deadlines; received.After(deadline) || deadline.Sub(received) > time.Millisecond {
		t.Errorf("the worker's deadline is %v, the call's %v", received, deadline)
	}
}

func TestWithoutAWorkerACallFailsSoon(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	c := caller(t, url)
	nc := testkit.NATSConn(t, url)
	// One subscriber never replies, like a frozen worker. Another subscriber always replies that it
	// has no free slot.
	for subject, answer := range map[string]string{"frozen": "", "full": string(contract.StageBusy), "nobody": ""} {
		if subject == "nobody" {
			continue
		}
		if _, err := nc.Subscribe(contract.ToolSubject(subject), func(m *nats.Msg) {
			if answer != "" {
				_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{contract.HeaderStage: {answer}}})
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for subject, within := range map[string]time.Duration{"nobody": time.Second, "frozen": 2 * time.Second, "full": 2 * time.Second} {
		all.Go(func() {
			began := time.Now()
			_, err := c.Call(t.Context(), subject, "", nil, soon())
			if took := time.Since(began); !errors.Is(err, bus.ErrNoToolWorker) || took > testkit.Within(within) {
				t.Errorf("%s: %v after %s", subject, err, took)
			}
		})
	}
	all.Wait()
}

func TestABusyWorkersCallGoesToAnother(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	var full, other atomic.Int32
	serve(t, url, bus.ToolOptions{Slots: 1}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
		full.Add(1)
		entered <- struct{}{}
		<-release
		return []byte("first"), true
	})
	c := caller(t, url)
	first := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), kind, "", nil, soon())
		first <- fmt.Sprint(string(got), err)
	}()
	<-entered
	serve(t, url, bus.ToolOptions{Slots: 1}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
		other.Add(1)
		return []byte("other"), true
	})
	for range 10 {
		if got, err := c.Call(t.Context(), kind, "", nil, soon()); err != nil || string(got) != "other" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	close(release)
	if got := <-first; got != "first<nil>" || full.Load() != 1 || other.Load() != 10 {
		t.Errorf("got %s; %d and %d calls", got, full.Load(), other.Load())
	}
}

func TestTwoWorkersShareCalls(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	var mine [2]atomic.Int32
	for n := range mine {
		serve(t, url, bus.ToolOptions{Slots: 4, Queue: 100}, func(ctx context.Context, m bus.ToolMessage) ([]byte, bool) {
			mine[n].Add(1)
			return echo(ctx, m)
		})
	}
	c := caller(t, url)
	var all sync.WaitGroup
	for n := range 60 {
		all.Go(func() {
			want := fmt.Sprintf("c%d:b%d", n, n)
			if got, err := c.Call(t.Context(), kind, fmt.Sprint("c", n), fmt.Append(nil, "b", n), soon()); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %s", got, err, want)
			}
		})
	}
	all.Wait()
	if mine[0].Load() == 0 || mine[1].Load() == 0 || mine[0].Load()+mine[1].Load() != 60 {
		t.Errorf("%d and %d calls", mine[0].Load(), mine[1].Load())
	}
}

func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	var begun atomic.Int32
	serve(t, url, bus.ToolOptions{Slots: 1, Owner: func(m bus.ToolMessage) (string, bool) { return "o", m.Capability != "bad" }},
		func(_ context.Context, m bus.ToolMessage) ([]byte, bool) {
			begun.Add(1)
			return nil, m.Capability != "worse"
		})
	c := caller(t, url)
	for capability, want := range map[string]error{"good": nil, "bad": bus.ErrToolRefused, "worse": bus.ErrToolRefused} {
		if _, err := c.Call(t.Context(), kind, capability, nil, soon()); !errors.Is(err, want) {
			t.Errorf("%s: %v", capability, err)
		}
	}
	if begun.Load() != 2 {
		t.Errorf("%d calls begun", begun.Load())
	}
	nc := testkit.NATSConn(t, url)
	for name, deadline := range map[string]string{"no deadline": "", "no time": "tomorrow", "past": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)} {
		m, err := nc.RequestMsg(&nats.Msg{Subject: contract.ToolSubject(kind), Header: nats.Header{contract.HeaderDeadline: {deadline}}}, 10*time.Second)
		if err != nil || m.Header.Get(contract.HeaderStage) != string(contract.StageRefused) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if err := nc.Publish(contract.ToolSubject(kind), []byte("nobody waits")); err != nil {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), kind, "good", nil, soon()); err != nil || begun.Load() != 3 {
		t.Errorf("afterwards: %v, %d calls begun", err, begun.Load())
	}
}

func TestALongCallIsNotLost(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serve(t, url, bus.ToolOptions{Slots: 1, Queue: 1}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
		<-time.After(7 * time.Second) // longer than silenceTimeout, after which a worker counts as lost
		return []byte("done"), true
	})
	c := caller(t, url)
	var all sync.WaitGroup
	for range 2 { // the second call waits for its turn, and heartbeats are sent in the meantime
		all.Go(func() {
			if got, err := c.Call(t.Context(), kind, "", nil, soon()); err != nil || string(got) != "done" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestASilentWorkerIsLost(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	b, entered := dial(t, url), make(chan struct{})
	stop, err := b.ServeTool(kind, bus.ToolOptions{Slots: 1}, func(ctx context.Context, _ bus.ToolMessage) ([]byte, bool) {
		close(entered)
		<-ctx.Done()
		return nil, true
	})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	t.Cleanup(func() { stop(over) })
	go func() {
		<-entered
		b.Close() // as if the worker had crashed
	}()
	began := time.Now()
	_, err = caller(t, url).Call(t.Context(), kind, "", nil, time.Now().Add(time.Minute))
	if took := time.Since(began); !errors.Is(err, bus.ErrToolLost) || took > testkit.Within(10*time.Second) {
		t.Errorf("%v after %s", err, took)
	}
}

func TestACallEndsWithItsContextAndItsDeadline(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	ends := make(chan error, 2)
	entered := make(chan struct{}, 2)
	serve(t, url, bus.ToolOptions{Slots: 2}, func(ctx context.Context, _ bus.ToolMessage) ([]byte, bool) {
		entered <- struct{}{}
		<-ctx.Done()
		ends <- ctx.Err()
		<-t.Context().Done() // the worker never answers
		return nil, true
	})
	c := caller(t, url)
	began := time.Now()
	if _, err := c.Call(t.Context(), kind, "", nil, began.Add(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past its deadline: %v", err)
	}
	<-entered
	if err := <-ends; !errors.Is(err, context.DeadlineExceeded) || testkit.Late(began, 10*time.Second) {
		t.Errorf("the worker ended with %v after %s", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := c.Call(ctx, kind, "", nil, time.Now().Add(2*time.Second)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	// The worker continues until the deadline, because its result may still be stored.
	if err := <-ends; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the worker ended with %v", err)
	}
	if _, err := c.Call(t.Context(), kind, "", nil, time.Now().Add(-time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("begun past its deadline: %v", err)
	}
}

func TestARefusedCallIsOfferedToAnotherWorker(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	// Two workers have different keys, as happens during a key rotation.
	none := func(bus.ToolMessage) (string, bool) { return "", false }
	serve(t, url, bus.ToolOptions{Slots: 4, Owner: none}, func(context.Context, bus.ToolMessage) ([]byte, bool) { return nil, false })
	serve(t, url, bus.ToolOptions{Slots: 4}, func(context.Context, bus.ToolMessage) ([]byte, bool) { return []byte("done"), true })
	c := caller(t, url)
	done := 0
	for range 8 {
		if got, err := c.Call(t.Context(), kind, "", nil, soon()); err == nil && string(got) == "done" {
			done++
		}
	}
	if done < 7 { // each call is offered many times; the probability that it never reaches the right worker is one in thousands
		t.Errorf("%d of 8 calls were made", done)
	}
}

func TestLargeCallsAndAnswers(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serve(t, url, bus.ToolOptions{Slots: 1}, func(_ context.Context, m bus.ToolMessage) ([]byte, bool) { return m.Body, true })
	c := caller(t, url)
	body := bytes.Repeat([]byte("0123456789abcdef"), 512<<10/16)
	if got, err := c.Call(t.Context(), kind, strings.Repeat("c", 2000), body, soon()); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Call(t.Context(), kind, "", bytes.Repeat(body, 3), soon()); !errors.Is(err, bus.ErrToolTooLarge) {
		t.Errorf("more than a message holds: %v", err)
	}
}

func TestAStoppingWorkerFinishesWhatItHas(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	entered, release, asked := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
	owner := func(bus.ToolMessage) (string, bool) {
		asked <- struct{}{}
		return "", true
	}
	stop := serve(t, url, bus.ToolOptions{Slots: 1, Queue: 1, Owner: owner}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
		entered <- struct{}{}
		<-release
		return []byte("old"), true
	})
	c := caller(t, url)
	got := make(chan string, 2)
	for range 2 { // one call is running, and the other is in the queue
		go func() {
			answer, err := c.Call(t.Context(), kind, "", nil, soon())
			got <- fmt.Sprint(string(answer), err)
		}()
		<-asked
	}
	<-entered
	go func() { // closes all other workers
		for range asked {
		}
	}()
	t.Cleanup(func() { close(asked) })
	serve(t, url, bus.ToolOptions{Slots: 1}, func(context.Context, bus.ToolMessage) ([]byte, bool) { return []byte("new"), true })
	stopped := make(chan struct{})
	go func() { stop(t.Context()); close(stopped) }()
	for range 20 { // another worker serves new calls, and calls that were sent just before the stop
		if answer, err := c.Call(t.Context(), kind, "", nil, soon()); err != nil || string(answer) != "new" {
			t.Errorf("got %q, %v", answer, err)
		}
	}
	select {
	case <-stopped:
		t.Error("stopped with calls unfinished")
	default:
	}
	close(release)
	<-stopped
	for range 2 {
		if answer := <-got; answer != "old<nil>" {
			t.Errorf("got %s", answer)
		}
	}
}

func TestAWorkerThatMustStopCancelsItsCalls(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	entered := make(chan struct{}, 1)
	stop := serve(t, url, bus.ToolOptions{Slots: 1}, func(ctx context.Context, _ bus.ToolMessage) ([]byte, bool) {
		entered <- struct{}{}
		<-ctx.Done()
		return []byte("interrupted"), true
	})
	got := make(chan string, 1)
	c := caller(t, url)
	go func() {
		answer, err := c.Call(t.Context(), kind, "", nil, soon())
		got <- fmt.Sprint(string(answer), err)
	}()
	<-entered
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stop(over)
	if answer := <-got; answer != "interrupted<nil>" {
		t.Errorf("got %s", answer)
	}
}

func TestCallsGoOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, t.TempDir())
	serve(t, server.URL, bus.ToolOptions{Slots: 1}, echo)
	c := caller(t, server.URL)
	server.Kill9()
	server.Restart()
	got, err := c.Call(t.Context(), kind, "c", []byte("b"), soon())
	if err != nil || string(got) != "c:b" {
		t.Fatalf("%q, %v", got, err)
	}
}

// TestACallOutlivesAnOutageOfTheServer makes calls during two outages of the NATS server. During
// the first outage, which outlasts maxOutage, the call fails. During the second outage, which
// outlasts acceptTimeout but not maxOutage, the call succeeds.
func TestACallOutlivesAnOutageOfTheServer(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, t.TempDir())
	serve(t, server.URL, bus.ToolOptions{Slots: 1}, echo)
	c := caller(t, server.URL)
	if _, err := c.Call(t.Context(), kind, "c", nil, soon()); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	began := time.Now()
	if _, err := c.Call(t.Context(), kind, "c", nil, soon()); !errors.Is(err, bus.ErrToolsAway) || !errors.Is(err, bus.ErrNoToolWorker) {
		t.Fatalf("with no server: %v", err)
	}
	if took := time.Since(began); took < 6*time.Second || took > testkit.Within(10*time.Second) {
		t.Errorf("given up after %s", took)
	}
	type outcome struct {
		answer []byte
		err    error
	}
	got := make(chan outcome, 1)
	late := time.NewTimer(2500 * time.Millisecond) // later than acceptTimeout, after which a call without a worker fails
	defer late.Stop()
	go func() {
		answer, err := c.Call(t.Context(), kind, "c", []byte("b"), soon())
		got <- outcome{answer, err}
	}()
	select {
	case early := <-got:
		t.Fatalf("while the server was away: %q, %v", early.answer, early.err)
	case <-late.C:
	}
	server.Restart()
	if now := <-got; now.err != nil || string(now.answer) != "c:b" {
		t.Fatalf("when it was back: %q, %v", now.answer, now.err)
	}
	began = time.Now()
	if _, err := c.Call(t.Context(), "nobody", "c", nil, soon()); errors.Is(err, bus.ErrToolsAway) || !errors.Is(err, bus.ErrNoToolWorker) {
		t.Errorf("without a worker, the server being there: %v after %s", err, time.Since(began))
	}
}
