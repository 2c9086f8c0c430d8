package model

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// ask sends a question and returns the status of the answer.
func ask(t *testing.T, m *Model) <-chan int {
	t.Helper()
	out := make(chan int, 1)
	go func() {
		body := strings.NewReader(`{"model":"bench","messages":[{"role":"user","content":"hello"}]}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.url+"/chat/completions", body)
		if err != nil {
			out <- 0
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			out <- 0
			return
		}
		_ = res.Body.Close() // only the status counts
		out <- res.StatusCode
	}()
	return out
}

func start(t *testing.T, delay time.Duration) *Model {
	t.Helper()
	m, err := Start(t.Context(), delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestModelHoldsAnswers(t *testing.T) {
	t.Parallel()
	m := start(t, 0)
	if status := <-ask(t, m); status != http.StatusOK { // not held yet
		t.Fatalf("status %d", status)
	}
	if err := m.Asked([]string{"hello"}); err != nil {
		t.Error(err)
	}

	m.Hold()
	held := ask(t, m)
	for m.Active() < 1 {
		runtime.Gosched()
	}

	select {
	case <-held:
		t.Fatal("the model answered")
	default:
	}

	m.Release()
	m.Release()
	if status := <-held; status != http.StatusOK {
		t.Errorf("status %d", status)
	}

	for message, want := range map[string]string{"hello": "2 model calls", "never": "0 model calls"} {
		if err := m.Asked([]string{message}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", message, err, want)
		}
	}
}

func TestModelDelaysAnswers(t *testing.T) {
	t.Parallel()
	const delay = 30 * time.Millisecond
	m := start(t, delay)
	began := time.Now()
	if status := <-ask(t, m); status != http.StatusOK || time.Since(began) < delay {
		t.Errorf("status %d after %s", status, time.Since(began))
	}
}
