package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

const (
	deliveries   = 500                   // about one subject
	deliveryPace = 60 * time.Millisecond // the deliveries take 30 s, but a run may coalesce deliveries only for 20 s (maxWaitSeconds)
	hookSecret   = "a secret of this test"
)

// received is the hook's response to a delivery.
type received struct {
	Status    string  `json:"status"`
	RunID     *string `json:"runId"`
	Duplicate bool    `json:"duplicate"`
}

// source sends deliveries to a hook, as GitHub does. It can use each of the ingresses.
type source struct {
	paths    []string
	fail     context.CancelCauseFunc // stops the deliveries
	taken    atomic.Int64
	answered [deliveries]received
	tries    [deliveries]int
}

func deliveryID(n int) string { return fmt.Sprintf("delivery-%03d", n) }

// post sends the nth delivery to the ingress that the argument through selects. It returns an error
// unless the hook has accepted the delivery. It calls fail if the hook's response cannot be
// decoded.
func (s *source) post(ctx context.Context, n, through int) (got received, err error) {
	body := fmt.Sprintf(`{"action":"synchronize","number":%d,"pull_request":{"id":7}}`, n)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = mac.Write([]byte(body)) // a hash never fails
	answered := api.Send(ctx, http.MethodPost, s.paths[through%len(s.paths)], map[string]string{
		"X-GitHub-Event": "pull_request", "X-GitHub-Delivery": deliveryID(n), "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	}, json.RawMessage(body))
	if err := answered.Check(http.StatusAccepted); err != nil {
		return received{}, err
	}
	if err := json.Unmarshal(answered.Body, &got); err != nil {
		err = fmt.Errorf("decoding the response to delivery %d, %q: %w", n, answered.Body, err)
		s.fail(err)
		return received{}, err
	}
	return got, nil
}

// deliver repeats a delivery until the hook has accepted it.
func (s *source) deliver(ctx context.Context, n int) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()

	for ctx.Err() == nil {
		got, err := s.post(ctx, n, n+s.tries[n])
		s.tries[n]++
		if err == nil {
			s.answered[n] = got
			s.taken.Add(1)
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// sendAll sends all deliveries in order at a steady pace, and returns when the hook has accepted
// all.
func (s *source) sendAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	pace := time.NewTicker(deliveryPace)
	defer pace.Stop()
	for n := range deliveries {
		all.Go(func() { s.deliver(ctx, n) })
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// TestChaosCollecting sends hundreds of deliveries about one subject, and kills an ingress and a
// sweeper meanwhile. The service coalesces the deliveries into a few runs, which together contain
// each delivery exactly once.
func TestChaosCollecting(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ingresses := []*edge{c.ingress(t), c.ingress(t)}
	c.worker(t, "ROLES=agent")
	sweepers := []*testkit.Process{c.worker(t, "ROLES=sweep"), c.worker(t, "ROLES=sweep")}
	owner := signUp(t, ingresses[0].url).at(ingresses[1])
	var hook struct {
		ID string `json:"id"`
	}

	owner.send(t, http.MethodPost, owner.url+"/api/hooks", map[string]any{
		"name": "reviews", "agentId": owner.agent, "source": "github", "secret": hookSecret, "messageTemplate": "Review {{pull_request.id}}.",
		"coalesce": map[string]any{"key": "{{pull_request.id}}", "windowSeconds": 5, "maxWaitSeconds": 20},
	}).Want(t, http.StatusCreated).Into(t, &hook)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	s := &source{fail: fail}
	for _, in := range ingresses {
		s.paths = append(s.paths, in.url+"/api/hooks/receive/"+hook.ID)
	}

	sent := make(chan struct{})
	go func() {
		s.sendAll(ctx)
		close(sent)
	}()

	accepted := func(n int64) func() bool {
		return func() bool { return s.taken.Load() >= n || ctx.Err() != nil }
	}
	eventually(t, time.Minute, "a third of the deliveries have been accepted", accepted(deliveries/3))
	sweepers[0].Kill9()
	eventually(t, time.Minute, "half of the deliveries have been accepted", accepted(deliveries/2))
	ingresses[0].Kill9()
	<-sent
	if taken := s.taken.Load(); taken != deliveries {
		t.Fatalf("accepted %d of %d deliveries: %v", taken, deliveries, context.Cause(ctx))
	}

	eventually(t, 40*time.Second, "all coalesced deliveries are released", func() bool { return c.number(t, "SELECT count(*) FROM collecting") == 0 })
	s.checkRuns(t, c, owner)
	s.checkReplays(t)
}

// checkRuns compares the deliveries that the runs contain with the responses that the source
// received.
func (s *source) checkRuns(t *testing.T, c *cluster, owner account) {
	t.Helper()
	runs := map[string][]string{} // IDs of deliveries
	for n, got := range s.answered {
		if got.RunID == nil || got.Status != "coalesced" {
			t.Fatalf("delivery %d: %+v", n, got)
		}
		runs[*got.RunID] = append(runs[*got.RunID], deliveryID(n))
	}

	if made := c.number(t, "SELECT count(*) FROM runs"); made != len(runs) || made > 3 {
		t.Fatalf("runs created = %d, runs in responses = %d", made, len(runs))
	}

	for id, want := range runs {
		if r := owner.result(t, id, 40*time.Second).Run(t); r.Status != "completed" || r.Attempts != 1 {
			t.Errorf("run = %+v, want completed", r)
		}
		var listed []string
		if err := c.db.QueryRowContext(t.Context(), `SELECT ARRAY(SELECT json_array_elements_text(input->'data'->'deliveries'->'ids'))
			FROM runs WHERE id = $1`, id).Scan(pq.Array(&listed)); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(listed); !slices.Equal(listed, want) {
			t.Errorf("run %s has %d deliveries, want %d: %v, %v", id, len(listed), len(want), listed, want)
		}
	}

	if calls := len(c.model.stub.Requests()); calls != len(runs) {
		t.Errorf("model calls = %d, want one for each of %d runs", calls, len(runs))
	}

	again := 0
	for _, tries := range s.tries {
		again += tries - 1
	}

	t.Logf("%d runs for %d deliveries, %d of which were sent again", len(runs), deliveries, again)
}

// checkReplays sends every delivery again to the remaining ingress, which must recognize each as a
// duplicate.
func (s *source) checkReplays(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for from := range 8 {
		all.Go(func() {
			for n := from; n < deliveries; n += 8 {
				got, err := s.post(t.Context(), n, 1)
				if err != nil || !got.Duplicate || got.RunID == nil || *got.RunID != *s.answered[n].RunID {
					t.Errorf("delivery %d, sent again: got %+v, %v; want %+v", n, got, err, s.answered[n])
				}
			}
		})
	}

	all.Wait()
}
