package load

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

var brief = Duration{Clients: 3, Measured: 50 * time.Millisecond}

// recorder is an HTTP server that records the keys of the requests.
type recorder struct {
	mu     sync.Mutex
	keys   map[string]int
	answer func(w http.ResponseWriter, n int)
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}

	err := json.NewDecoder(req.Body).Decode(&body)
	if err != nil || req.Header.Get("X-Api-Key") != "secret" || req.URL.Path != "/run" || req.Method != http.MethodPost ||
		req.Header.Get("X-Key") != body.IdempotencyKey {
		w.WriteHeader(http.StatusBadRequest)
		return
	}

	r.mu.Lock()
	r.keys[body.IdempotencyKey]++
	n := len(r.keys)
	r.mu.Unlock()
	r.answer(w, n)
}

func serve(t *testing.T, answer func(w http.ResponseWriter, n int)) (*recorder, Spec) {
	t.Helper()
	r := &recorder{keys: map[string]int{}, answer: answer}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, Spec{
		Address: strings.TrimPrefix(server.URL, "http://"), Path: "/run", Headers: map[string]string{"x-api-key": "secret", "x-key": KeyMark},
		Body: `{"idempotencyKey":"` + KeyMark + `"}`, Expect: `"completed"`, Nonce: "0123456789",
	}
}

func completed(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"status":"completed"}`) }

func TestEachRequestHasItsOwnKey(t *testing.T) {
	t.Parallel()
	r, s := serve(t, completed)
	result, err := Execute(t.Context(), s, brief)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(r.keys)) != result.Answered {
		t.Errorf("%d answers to %d keys", result.Answered, len(r.keys))
	}

	for key, n := range r.keys {
		if n != 1 || len(key) != len(KeyMark) || !strings.HasPrefix(key, s.Nonce) {
			t.Errorf("key %q was sent %d times", key, n)
		}
	}

	if n := result.Latencies.TotalCount(); n == 0 || n > result.Answered || result.PerSecond() <= 0 || Millis(result.Latencies, 50) <= 0 {
		t.Errorf("%d of %d answers were measured", n, result.Answered)
	}
}

func TestRequestsShareKeys(t *testing.T) {
	t.Parallel()
	r, s := serve(t, completed)
	s.Keys = 2
	result, err := Execute(t.Context(), s, brief)
	if err != nil {
		t.Fatal(err)
	}
	if result.Answered < 2 || len(r.keys) > 2 {
		t.Errorf("%d answers to the keys %v", result.Answered, r.keys)
	}
}

func TestWarmUpIsNotMeasured(t *testing.T) {
	t.Parallel()
	r, s := serve(t, completed)
	result, err := Execute(t.Context(), s, Duration{Clients: 3, WarmUp: 20 * time.Millisecond})
	if err != nil || result.Answered < 3 || result.Latencies.TotalCount() != 0 || len(r.keys) < 3 {
		t.Errorf("%+v: %v", result, err)
	}
}

func TestEachClientSendsARequest(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	if result, err := Execute(t.Context(), s, Duration{Clients: 3, Spread: time.Millisecond}); err != nil || result.Answered != 3 {
		t.Errorf("%+v: %v", result, err)
	}
}

func TestWrongAnswersAreErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]func(http.ResponseWriter, int){
		"status 429":       func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusTooManyRequests) },
		"response without": func(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"status":"failed"}`) },
		"sending request": func(w http.ResponseWriter, n int) {
			if n > 5 {
				panic(http.ErrAbortHandler)
			}
			completed(w, n)
		},
	}

	for want, answer := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, s := serve(t, answer)
			_, err := Execute(t.Context(), s, Duration{Clients: 2, Measured: 10 * time.Second})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
