package openapitest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// recorder is a testing.TB that records errors instead of failing the test.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

const oneEvent = "id: 1.2\nevent: message.delta\ndata: {\"runId\":\"run_01k9z8xh3re8kb1s7v5d2m9q4t\",\"text\":\"hi\"}\n\n"

// service is a handler whose response depends on the path. It requires a complete request body with
// a known length.
func service(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	w.Header().Set("X-Request-ID", "r")
	w.Header().Set("Ratelimit-Policy", `"user";q=300;w=60`)
	w.Header().Set("Ratelimit", `"user";r=299;t=21`)
	switch {
	case err != nil || len(req.TransferEncoding) > 0:
		w.WriteHeader(http.StatusTeapot)
	case req.URL.Path == "/api/organizations":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"org_01k9z8tn5wd7hx4q2y6c8m3s0m","name":%q,"role":"owner","createdAt":"2026-11-21T09:28:00.000Z"}`, string(body))
	case req.URL.Query().Get("stream") == "1":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, oneEvent+"id: 1.3\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok","more":1}`)
	}
}

// TestHooks checks that Serve and Do record the whole exchange, leave it unchanged and report
// violations.
func TestHooks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(service))
	t.Cleanup(server.Close)
	for _, tt := range []struct {
		method, target, body, wrong string
		early                       bool // whether the response body is closed before its end
	}{
		{method: "POST", target: "/api/organizations", body: `{"name":"x"}`},
		{method: "POST", target: "/api/organizations", body: `{"nam":"x"}`, wrong: "accepted an undocumented body"},
		{method: "GET", target: "/healthz", wrong: "more"},
		{method: "GET", target: "/api/runs?stream=1", wrong: "within an event"},
		{method: "GET", target: "/api/runs?stream=1", early: true},
	} {
		got := &recorder{TB: t}
		if !tt.early {
			req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.target, strings.NewReader(tt.body))
			Serve(got, http.HandlerFunc(service), req)
			got.want(t, tt.wrong)
		}
		got = &recorder{TB: t}
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.target, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := Do(got, server.Client(), req)
		if err != nil {
			t.Fatal(err)
		}
		if tt.early {
			_, err = io.ReadFull(res.Body, make([]byte, len(oneEvent)+4))
		} else {
			_, err = io.ReadAll(res.Body)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		got.want(t, tt.wrong)
	}
}

func (r *recorder) want(t *testing.T, wrong string) {
	t.Helper()
	all := strings.Join(r.errors, "\n")
	if (wrong == "") != (all == "") || !strings.Contains(all, wrong) {
		t.Errorf("got %q, want %q", all, wrong)
	}
}
