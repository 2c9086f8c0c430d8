package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func spec(server *httptest.Server) Spec {
	return Spec{
		Address: strings.TrimPrefix(server.URL, "http://"), Path: "/run", Headers: map[string]string{"x-api-key": "secret"},
		Body: `{"idempotencyKey":"` + KeyMark + `"}`, Expect: `"completed"`, Nonce: "0123456789",
		Clients: 3, Duration: 50 * time.Millisecond,
	}
}

// recorder answers as a server would, and keeps what it was asked.
type recorder struct {
	mu     sync.Mutex
	keys   map[string]int
	answer func(w http.ResponseWriter, n int)
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}
	raw, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil || req.Header.Get("X-Api-Key") != "secret" || req.URL.Path != "/run" || req.Method != http.MethodPost {
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
	return r, spec(server)
}

func completed(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"status":"completed"}`) }

func TestEveryRequestHasItsOwnKey(t *testing.T) {
	t.Parallel()
	r, s := serve(t, completed)
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Failures(); err != nil {
		t.Error(err)
	}
	if result.Answered == 0 || int64(len(r.keys)) != result.Answered {
		t.Errorf("%d answers to %d keys", result.Answered, len(r.keys))
	}
	for key, n := range r.keys {
		if n != 1 || len(key) != len(KeyMark) || !strings.HasPrefix(key, s.Nonce) {
			t.Errorf("key %q was sent %d times", key, n)
		}
	}
	if n := result.Latencies.Count(); n == 0 || n > result.Answered || result.PerSecond() <= 0 {
		t.Errorf("%d of %d answers were measured", n, result.Answered)
	}
}

func TestRequestsShareKeys(t *testing.T) {
	t.Parallel()
	r, s := serve(t, completed)
	s.Keys = 2
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if result.Answered < 2 || len(r.keys) > 2 {
		t.Errorf("%d answers to the keys %v", result.Answered, r.keys)
	}
	for key := range r.keys {
		if key != Key(s.Nonce, 1) && key != Key(s.Nonce, 2) {
			t.Errorf("key %q was sent, which is neither %q nor %q", key, Key(s.Nonce, 1), Key(s.Nonce, 2))
		}
	}
}

func TestTheWarmUpIsNotMeasured(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	s.WarmUp, s.Duration = 20*time.Millisecond, 0
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if result.Answered == 0 || result.Latencies.Count() != 0 {
		t.Errorf("%d answers, %d measured", result.Answered, result.Latencies.Count())
	}
}

func TestWrongAnswersAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]func(http.ResponseWriter, int){
		"status 429": func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusTooManyRequests) },
		"answer is not as expected": func(w http.ResponseWriter, _ int) {
			_, _ = io.WriteString(w, `{"status":"failed"}`)
		},
	}
	for reason, answer := range tests {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			_, s := serve(t, answer)
			result, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if result.Failed[reason] == 0 || result.Answered != 0 || result.Failures() == nil {
				t.Errorf("%d answers, failed: %v", result.Answered, result.Failed)
			}
		})
	}
}

func TestAnswersInChunks(t *testing.T) {
	t.Parallel()
	r, s := serve(t, func(w http.ResponseWriter, _ int) {
		_, _ = io.WriteString(w, `{"status":"comp`)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, `leted"}`+strings.Repeat(" ", 5000))
	})
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if result.Answered < 2 || int64(len(r.keys)) != result.Answered || len(result.Failed) > 0 {
		t.Errorf("%d answers to %d keys, failed: %v", result.Answered, len(r.keys), result.Failed)
	}
}

func TestABrokenConnectionIsAnError(t *testing.T) {
	t.Parallel()
	_, s := serve(t, func(w http.ResponseWriter, n int) {
		if n > 5 {
			panic(http.ErrAbortHandler)
		}
		completed(w, n)
	})
	s.Duration = 10 * time.Second
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("no error")
	}
}

func TestTheEndOfTheContextEndsTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	_, s := serve(t, func(w http.ResponseWriter, n int) {
		if n > 5 {
			cancel(reason)
		}
		completed(w, n)
	})
	s.Duration = 10 * time.Second
	if _, err := Run(ctx, s); !errors.Is(err, reason) {
		t.Errorf("error is %v", err)
	}
}

func TestServeReadsASpecAndWritesAResult(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Serve(t.Context(), bytes.NewReader(raw), &out); err != nil {
		t.Fatal(err)
	}
	var result Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	if result.Answered == 0 || result.Latencies.Count() == 0 || result.Elapsed != s.Duration {
		t.Errorf("result is %+v", result.Answered)
	}
}

func TestASpecWithoutPlaceForAKeyIsRefused(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	s.Body = "{}"
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("no error")
	}
	_, s = serve(t, completed)
	s.Nonce = "short"
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("no error")
	}
}
