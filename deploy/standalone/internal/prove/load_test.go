package prove

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// flakyService responds to its first requests with the statuses in the field tries. It responds to
// all later requests with a completed run.
type flakyService struct {
	mu    sync.Mutex
	keys  []string
	tries []int // statuses to return; 0 breaks the connection
}

func (f *flakyService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}

	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()

	n := len(f.keys)
	f.keys = append(f.keys, body.IdempotencyKey)
	if n < len(f.tries) {
		if f.tries[n] == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(f.tries[n])
		_, _ = w.Write([]byte(`{"id":"run_early","status":"running"}`))
		return
	}

	_, _ = w.Write([]byte(`{"id":"run_1","status":"completed","toolCalls":[{"name":"book","status":"completed"}]}`))
}

func TestTriggerIsSentUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tries []int
		fresh bool
		keys  string
		ok    bool
	}{
		"immediately":         {nil, false, "[prove-0]", true},
		"retried":             {[]int{503, 0, 202, 429, 500}, false, "[" + strings.Repeat("prove-0 ", 5) + "prove-0]", true},
		"rejected":            {[]int{422}, false, "[prove-0]", false},
		"sabotaged":           {[]int{503, 0}, true, "[prove-0 prove-0-again-1 prove-0-again-2]", true},
		"sabotaged, no retry": {nil, true, "[prove-0]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flakyService{tries: c.tries}
			server := httptest.NewServer(f)
			defer server.Close()
			s := newLoad(newAPI(server.URL, 1), 1, c.fresh)
			s.run(t.Context(), 3)
			if got := fmt.Sprint(f.keys); got != c.keys {
				t.Errorf("keys = %s", got)
			}
			a := s.answers[0]
			if answered := len(a.Body) > 0; answered != c.ok || answered != (a.Problem == "") || c.ok && (a.Run != "run_1" || !a.Effect) {
				t.Errorf("answered %+v", a)
			}
			posts, retries := s.counts()
			again := 0
			for _, n := range retries {
				again += n
			}
			if posts != len(f.keys) || again != len(c.tries) {
				t.Errorf("%d requests, retries: %v", posts, retries)
			}
		})
	}
}

func TestReplayIsTheCurrentAnswer(t *testing.T) {
	t.Parallel()
	f := &flakyService{}
	server := httptest.NewServer(f)
	defer server.Close()

	s := newLoad(newAPI(server.URL, 1), 2, false)
	s.run(t.Context(), 1)
	f.tries = []int{200, 200, 503, 500, 200} // the service has already received two requests, so it skips two statuses
	s.replay(t.Context(), 1)
	if got := string(s.answers[0].Replay); got != `{"id":"run_early","status":"running"}` {
		t.Errorf("the first replay = %s", got) // status 503 causes a retry, and the response to the retry has status 500
	}
	if got := string(s.answers[1].Replay); got != `{"id":"run_early","status":"running"}` {
		t.Errorf("the second replay = %s", got)
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"1": time.Second, "2": 2 * time.Second, "60": maxPause} {
		if got := retryDelay(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("Retry-After %s: %s", value, got)
		}
	}
	for _, value := range []string{"", "0", "-1", "soon"} {
		if got := retryDelay(http.Header{"Retry-After": {value}}); got < retryPause/2 || got > 2*retryPause {
			t.Errorf("Retry-After %q: %s", value, got)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct{ run, effect bool }{
		`{"id":"run_1","toolCalls":[{"name":"book","status":"completed"}]}`: {true, true},
		`{"id":"run_1","toolCalls":[{"name":"book","status":"failed"}]}`:    {true, false},
		`{"id":"run_1","toolCalls":[{"name":"look","status":"completed"}]}`: {true, false},
		`{"id":"run_1"}`: {true, false},
		`{}`:             {},
		`not JSON`:       {},
	} {
		if a, ok := readAnswer([]byte(raw)); ok != want.run || a.Effect != want.effect {
			t.Errorf("%s: %t %+v", raw, ok, a)
		}
	}
}
