package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestService runs the tests that crash no process, all on one cluster.
func TestService(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "RUN_DEADLINE=1h") // long enough for the run whose duration PARLEY_E2E_LONG sets
	first, second := c.ingress(t), c.ingress(t)
	c.worker(t)
	for name, test := range map[string]func(*testing.T, *cluster, *edge, *edge){
		"client_leaves":                     clientLeaves,
		"runs_of_a_session_follow_in_order": sessionOrder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c, first, second)
		})
	}
}

// clientLeaves closes the connection of a request that waits for its run. The run must continue,
// and any ingress must return its result.
func clientLeaves(t *testing.T, c *cluster, first, second *edge) { //nolint:thelper // a subtest, not a helper
	lasts := longRun(t)
	owner := signUp(t, first.url)
	message := lastingMessage(lasts, "nobody waited")
	ctx, leave := context.WithCancel(t.Context())
	began := time.Now()
	waiting := owner.start(ctx, trigger{message: message})
	c.model.awaitCalls(t, message, 1)
	leave()
	if got := awaitAnswer(t, waiting, 5*time.Second); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("response to a disconnected client = %d %s, want none", got.status, got.body)
	}

	id := c.text(t, "SELECT id FROM runs WHERE agent_id = $1", owner.agent)
	got := owner.at(second).result(t, id, 2*lasts+time.Minute)
	if took := time.Since(began); took < lasts {
		t.Fatalf("the run took %s, want at least %s", took, lasts)
	}

	r := got.run(t)
	if r.Status != "completed" || r.Output == nil || r.Output.Message != echoed("nobody waited") {
		t.Fatalf("the run did not complete: %s", got.body)
	}
}

// longRun returns how long the run of the subtest client_leaves takes.
func longRun(t *testing.T) time.Duration {
	t.Helper()
	lasts, source := 8*time.Second, "by default; PARLEY_E2E_LONG=10m for the long one"
	if set := os.Getenv("PARLEY_E2E_LONG"); set != "" {
		var err error
		if lasts, err = time.ParseDuration(set); err != nil {
			t.Fatalf("PARLEY_E2E_LONG: %v", err)
		}
		source = "by PARLEY_E2E_LONG"
	}
	fmt.Fprintf(os.Stderr, "e2e: the run whose client leaves takes %s (%s)\n", lasts, source)
	return lasts
}

// lastingMessage returns a message whose run takes at least the duration lasts. A model call may
// take only 30 s to its first word, so in longer runs the model returns errors, after which the
// service retries the call. The pause before a retry doubles from 1 s up to a minute. Each pause
// may be up to a quarter shorter.
func lastingMessage(lasts time.Duration, text string) string {
	const call, retryAfter = 20 * time.Second, 5 * time.Second
	if lasts <= call {
		return fmt.Sprintf("sleep %s: %s", lasts, text)
	}
	refusals, pause := 0, time.Second
	for sum := call; sum < lasts; pause = min(2*pause, time.Minute) {
		sum += call + max(retryAfter, pause*3/4)
		refusals++
	}
	return fmt.Sprintf("sleep %s: fault 503=%d*%d: %s", call, int(retryAfter.Seconds()), refusals, text)
}

// sessionOrder sends many triggers to one session. The service must execute them one by one and in
// order, and must not delay other sessions.
func sessionOrder(t *testing.T, c *cluster, first, second *edge) { //nolint:thelper // a subtest, not a helper
	const runs = 20
	owner := signUp(t, first.url)
	var messages, ids []string
	for n := range runs {
		messages = append(messages, "sleep 150ms: in order "+strconv.Itoa(n))
		through := owner.at([]*edge{first, second}[n%2])
		ids = append(ids, through.enqueue(t, trigger{message: messages[n], session: "named"}))
	}

	const aside = "sleep 10ms: another session"
	owner.post(t.Context(), trigger{message: aside, session: "other"}).completed(t, echoed("another session"), 1)
	for n, id := range ids {
		r := owner.result(t, id, 60*time.Second).completed(t, echoed("in order "+strconv.Itoa(n)), 1)
		if r.SessionID != "named" {
			t.Fatalf("session of run %d = %q", n, r.SessionID)
		}
	}

	calls := c.model.of(messages...)
	if len(calls) != runs {
		t.Fatalf("%d model calls, want %d", len(calls), runs)
	}

	for n, call := range calls {
		if call.prompt != messages[n] {
			t.Fatalf("prompt of model call %d = %q, want %q", n, call.prompt, messages[n])
		}
		if n > 0 && call.began.Before(calls[n-1].ended) {
			t.Fatalf("%q began %s before %q ended", call.prompt, calls[n-1].ended.Sub(call.began), calls[n-1].prompt)
		}
	}

	if other := c.model.of(aside); !other[0].began.Before(calls[runs-1].began) {
		t.Fatal("the other session waited for all runs in this session")
	}
	if history := c.model.historyFor(messages[runs-1]); strings.Count(history, "in order") < runs {
		t.Fatalf("the session's last run did not get all earlier turns:\n%s", history)
	}
}
