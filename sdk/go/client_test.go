package parley

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// served returns a client of a service with the given handler. The pauses of the client are
// recorded and take no time.
func served(t *testing.T, options Options, handler http.HandlerFunc) (*Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	options.BaseURL = server.URL
	var pauses []time.Duration
	options.pause = func(_ context.Context, wait time.Duration) error {
		pauses = append(pauses, wait)
		return nil
	}

	if options.Key == "" && !options.Demo {
		options.Key = "ak_test"
	}
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return c, &pauses
}

// breakOff closes the connection of a request without a response.
func breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func problem(w http.ResponseWriter, status int, code, retryAfter string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if retryAfter != "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":"because","requestId":"R1"}`, status, code)
}

func TestWhichRequestsAreRetried(t *testing.T) {
	t.Parallel()
	answer := func(status int, code, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { problem(w, status, code, after) }
	}

	broken := func(w http.ResponseWriter, _ *http.Request) { breakOff(w) }
	for name, c := range map[string]struct {
		method string
		keyed  bool
		first  http.HandlerFunc
		calls  int32
	}{
		"a GET, connection broken":        {"GET", false, broken, 2},
		"a POST, connection broken":       {"POST", false, broken, 1},
		"a keyed POST, connection broken": {"POST", true, broken, 2},
		"overloaded service":              {"POST", false, answer(503, "overloaded", "1"), 2},
		"rate limited":                    {"POST", false, answer(429, "rate_limited", "1"), 2},
		"budget exceeded":                 {"GET", false, answer(429, "budget_exceeded", "1"), 1},
		"Retry-After beyond Patience":     {"GET", false, answer(429, "rate_limited", "60"), 1},
		"invalid request":                 {"GET", false, answer(400, "invalid_request", ""), 1},
		"a keyed POST, bad gateway":       {"POST", true, answer(502, "x", ""), 2},
		"a POST, bad gateway":             {"POST", false, answer(502, "x", ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			client, _ := served(t, Options{Retries: 3, Patience: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					c.first(w, r)
					return
				}
				fmt.Fprint(w, `{}`)
			})
			_, err := client.Call(t.Context(), Request{Method: c.method, Path: "/x", Body: map[string]int{"a": 1}, Keyed: c.keyed})
			if got := calls.Load(); got != c.calls || (err == nil) != (c.calls > 1) {
				t.Fatalf("%d calls, want %d; %v", got, c.calls, err)
			}
		})
	}
}

func TestPausesGrowAndRetryAfterCounts(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	client, pauses := served(t, Options{Retries: 4, Patience: time.Minute}, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			problem(w, http.StatusServiceUnavailable, "unavailable", "7")
			return
		}
		breakOff(w)
	})

	_, err := client.Get(t.Context(), "/x", nil, nil)
	if !errors.Is(err, ErrUnreachable) || len(*pauses) != 4 {
		t.Fatalf("%d calls, pauses %v, error %v", calls.Load(), *pauses, err)
	}
	if p := *pauses; p[1] != 7*time.Second || p[0] > firstPause || p[0] < firstPause/2 || p[3] < 4*firstPause {
		t.Errorf("pauses = %v", p)
	}
}

func TestAKeyGoesNowhereElse(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with the key %q", r.Header.Get("X-Api-Key"))
	}))

	t.Cleanup(elsewhere.Close)
	client, _ := served(t, Options{Key: "ak_x", Organization: "org_x"}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "ak_x" || r.Header.Get("X-Organization-Id") != "org_x" {
			t.Errorf("headers = %v", r.Header)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})

	_, err := client.Get(t.Context(), "/x", nil, nil)
	if p, is := errors.AsType[*APIError](err); !is || p.Status != http.StatusTemporaryRedirect || p.Refused() {
		t.Fatalf("%v", err)
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	client, err := New(Options{BaseURL: "http://user:hunter2@127.0.0.1:1", Key: "ak_x", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}

	_, err = client.Get(t.Context(), "/x", url.Values{"a": {"b"}}, nil)
	if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatal(err)
	}

	for _, bad := range []string{"127.0.0.1:8080", "ftp://x", "http://"} {
		if _, err := New(Options{BaseURL: bad, Key: "ak_x"}); err == nil {
			t.Errorf("New accepted the URL %q", bad)
		}
	}
}

func TestProblemsNameEveryField(t *testing.T) {
	t.Parallel()
	client, _ := served(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":"invalid_request","detail":"a: is wrong","requestId":"R7","errors":[{"field":"a","message":"is wrong"},{"field":"b","message":"is long"}]}`)
	})
	_, err := client.Get(t.Context(), "/x", nil, nil)
	if want := "400 invalid_request: a: is wrong; b: is long (request R7)"; err == nil || err.Error() != want {
		t.Fatalf("%v, want %s", err, want)
	}
}

// TestStreamsAreResumed interrupts a stream once at every byte.
func TestStreamsAreResumed(t *testing.T) {
	t.Parallel()
	frames := []string{
		"id: 0.1\nevent: run.created\ndata: {\"runId\":\"run_1\"}\n\n", ": ping\n\n",
		"id: 1.1\nevent: message.delta\ndata: {\"text\":\"a\"}\n\n", "id: 1.2\nevent: message.delta\ndata: {\"text\":\"b\"}\n\n",
		"id: 1.3\nevent: run.completed\ndata: {\"run\":{}}\n\n",
	}

	whole := strings.Join(frames, "")
	for at := range len(whole) {
		want, end := []string(nil), 0 // id of the last complete event
		for _, frame := range frames {
			line, _, _ := strings.Cut(frame, "\n")
			id, event := strings.CutPrefix(line, "id: ")
			if end += len(frame); event && end <= at {
				want = []string{id}
			}
		}
		var calls atomic.Int32
		client, _ := served(t, Options{Retries: 2}, func(w http.ResponseWriter, r *http.Request) {
			rest, again := whole, calls.Add(1) > 1
			if got := r.Header["Last-Event-Id"]; again && !slices.Equal(got, want) || !again && got != nil {
				t.Errorf("cut at %d: Last-Event-ID is %q, want %q; again %v", at, got, want, again)
			}
			if last := r.Header.Get("Last-Event-ID"); last != "" {
				_, rest, _ = strings.Cut(whole, "id: "+last+"\n")
				_, rest, _ = strings.Cut(rest, "\n\n")
			}
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			if again {
				fmt.Fprint(w, rest)
				return
			}
			fmt.Fprint(w, rest[:at])
			_ = http.NewResponseController(w).Flush()
			breakOff(w)
		})
		var got []string
		for event, err := range client.Events(t.Context(), Request{Method: "POST", Path: "/x", Keyed: true}) {
			if err != nil {
				t.Fatalf("cut at %d: %v", at, err)
			}
			got = append(got, event.ID)
		}
		if fmt.Sprint(got) != "[0.1 1.1 1.2 1.3]" {
			t.Fatalf("cut at %d: %v", at, got)
		}
	}
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	events := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}

	for name, c := range map[string]struct {
		handler http.HandlerFunc
		events  int
		wrong   string
	}{
		"no content":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 0, ""},
		"an error response": {func(w http.ResponseWriter, _ *http.Request) { problem(w, 404, "not_found", "") }, 0, "404 not_found"},
		"another server":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, 0, "not an event stream"},
		"no event":          {func(w http.ResponseWriter, _ *http.Request) { events(w, ": ping\n\n") }, 0, "was interrupted"},
		"a finished run": {func(w http.ResponseWriter, _ *http.Request) {
			events(w, "id: 1.1\nevent: run.failed\ndata: {}\n\nid: 1.2\ndata: x\n\n")
		}, 1, ""},
		"an incomplete event": {func(w http.ResponseWriter, _ *http.Request) { events(w, "id: 1.1\nevent: run.failed\ndata: {}\n") }, 0, "was interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := served(t, Options{Retries: 2}, c.handler)
			n := 0
			var failed error
			for _, err := range client.Events(t.Context(), Request{Method: "GET", Path: "/x"}) {
				if failed = err; err == nil {
					n++
				}
			}
			if n != c.events || (failed == nil) != (c.wrong == "") || failed != nil && !strings.Contains(failed.Error(), c.wrong) {
				t.Errorf("%d events, error %v", n, failed)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const text = ":comment\n\nid:1.1\ndata:a\ndata: b\n\nevent: x\r\ndata:  c\r\n\r\nevent: none\n\ndata: not ended\n"
	var got []string
	over, err := decode(strings.NewReader(text), func(e Event) bool {
		got = append(got, fmt.Sprintf("%s|%s|%s", e.ID, e.Type, e.Data))
		return true
	})
	if fmt.Sprintf("%q", got) != `["1.1||a\nb" "|x| c"]` || over || !errors.Is(err, io.EOF) {
		t.Errorf("%q %v %v", got, over, err)
	}
}
