package waiting

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/scripts/bench/internal/parley"
)

func TestSteady(t *testing.T) {
	t.Parallel()
	flat := make([]int64, sampleCount)
	for i := range flat {
		flat[i] = 1000
	}
	last := append(append([]int64{1}, flat...), 1005)
	step := slices.Clone(flat)
	step[len(step)-1] = 1500
	for name, test := range map[string]struct {
		samples []int64
		want    bool
	}{"few": {flat[1:], false}, "flat": {flat, true}, "flat in the end": {last, true}, "a step": {step, false}} {
		if got := steady(test.samples); got != test.want {
			t.Errorf("%s: steady is %v", name, got)
		}
	}
}

// crowded connects n clients to a handler.
func crowded(t *testing.T, n int, handler http.HandlerFunc) *crowd {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := connect(t.Context(), strings.TrimPrefix(server.URL, "http://"), n, parley.Request{Method: http.MethodGet, Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestClientsCheckTheirAnswers(t *testing.T) {
	t.Parallel()
	const clients = 25
	ask := parley.Request{Method: http.MethodPost, Path: "/run"}
	tests := map[string]struct {
		answer func(nth int64) (status int, body string)
		want   string
	}{
		"right": {func(int64) (int, string) { return 200, `{"status":"completed","message":"echo: hello","attempts":1}` }, ""},
		"one of another": {func(nth int64) (int, string) {
			return 200, fmt.Sprintf(`{"status":"completed","message":"echo: hello%s","attempts":1}`, strings.Repeat("!", int(nth/clients)))
		}, "1 of 25 clients"},
		"refused":   {func(int64) (int, string) { return 503, "busy" }, "25 of 25 clients"},
		"not JSON":  {func(int64) (int, string) { return 200, "hello" }, "reading run"},
		"too early": {func(int64) (int, string) { return 202, `{"status":"running"}` }, "is running"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			c := crowded(t, clients, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					return
				}
				status, body := test.answer(asked.Add(1))
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			})
			err := c.start(t.Context(), func(_ int, client *client) error { return client.await(t.Context(), ask, "hello") })
			if err == nil {
				err = c.finish(t.Context())
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestClientsThatAreAnsweredTooEarlyDoNotWait(t *testing.T) {
	t.Parallel()
	c := crowded(t, 2, func(http.ResponseWriter, *http.Request) {})
	if ok, err := c.waits(0); !ok || err != nil {
		t.Fatalf("nobody has asked: %v, %v", ok, err)
	}
	c.begun()
	for started, want := range map[int]bool{1: true, 2: false} {
		if ok, err := c.waits(started); ok != want || err != nil {
			t.Errorf("%d have started: %v, %v", started, ok, err)
		}
	}
	c.end(nil)
	if _, err := c.waits(0); err == nil {
		t.Error("one is through")
	}
}

func TestCloseEndsWhatClientsDo(t *testing.T) {
	t.Parallel()
	c := crowded(t, 3, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := c.start(ctx, func(_ int, client *client) error {
		_, err := client.ask(ctx, parley.Request{Method: http.MethodPost, Path: "/"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	c.close()
	if err := c.finish(t.Context()); err == nil {
		t.Error("the clients were answered")
	}
}
