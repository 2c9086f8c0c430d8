package model

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const question = `{"model":"bench","messages":[{"role":"user","content":"hello"}]}`

// started gives a model without a process, which is asked as one.
func started(t *testing.T, delay time.Duration) *Model {
	t.Helper()
	served := httptest.NewServer(newServer(delay).routes())
	t.Cleanup(served.Close)
	return &Model{base: served.URL, client: served.Client()}
}

// ask sends a question, and gives the status of its answer.
func ask(t *testing.T, m *Model) <-chan int {
	t.Helper()
	out := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.base+"/v1/chat/completions", strings.NewReader(question))
		if err != nil {
			out <- 0
			return
		}
		res, err := m.client.Do(req)
		if err != nil {
			out <- 0
			return
		}
		_ = res.Body.Close() // nothing was read of it
		out <- res.StatusCode
	}()
	return out
}

func TestAModelHoldsItsAnswers(t *testing.T) {
	t.Parallel()
	m, ctx := started(t, 0), t.Context()
	if status := <-ask(t, m); status != http.StatusOK { // not held yet
		t.Fatalf("status %d", status)
	}
	if err := m.Asked(ctx, []string{"hello"}); err != nil {
		t.Error(err)
	}
	if err := m.Hold(ctx); err != nil {
		t.Fatal(err)
	}
	held := ask(t, m)
	for active := 0; active < 1; {
		var err error
		if active, err = m.Active(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-held:
		t.Fatal("an answer went out")
	default:
	}
	for range 2 { // twice is no harm
		if err := m.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if status := <-held; status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	for message, want := range map[string]string{"hello": "2 model calls", "never": "0 model calls"} {
		if err := m.Asked(ctx, []string{message}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", message, err, want)
		}
	}
}

func TestAModelTakesItsTime(t *testing.T) {
	t.Parallel()
	const delay = 30 * time.Millisecond
	m := started(t, delay)
	began := time.Now()
	if status := <-ask(t, m); status != http.StatusOK || time.Since(began) < delay {
		t.Errorf("status %d after %s", status, time.Since(began))
	}
}
