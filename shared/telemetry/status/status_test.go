package status

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lib/pq"
	"github.com/rs/zerolog"
)

// TestStatus checks the status of a process: while everything works, while a server is
// unreachable, and while it stops.
func TestStatus(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	check := func(context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	}
	connector, err := pq.NewConnector("host=/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(7)
	s, err := Listen(t.Context(), Config{
		Address: "127.0.0.1:0", Ready: Checks{"nats": check},
		Metrics: NewRegistry(db, Checks{"nats": check, "postgres": db.PingContext}), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	wantAnswer(t, s, "/healthz", http.StatusOK, `{"status":"ok"}`)
	wantAnswer(t, s, "/readyz", http.StatusOK, `{"status":"ready","checks":{"nats":"ok"}}`)
	wantAnswer(t, s, "/metrics", http.StatusOK, `parley_dependency_up{dependency="nats"} 1`, `parley_dependency_up{dependency="postgres"} 0`,
		"parley_database_connections_max 7", `parley_database_connections{state="in_use"} 0`, "process_cpu_seconds_total", "go_goroutines")
	away.Store(true)
	wantAnswer(t, s, "/readyz", http.StatusServiceUnavailable, `{"status":"not ready","checks":{"nats":"failing"}}`)
	away.Store(false)
	s.Stopping()
	wantAnswer(t, s, "/readyz", http.StatusServiceUnavailable, `"draining"`)
	wantAnswer(t, s, "/healthz", http.StatusOK, `"ok"`)
	wantAnswer(t, s, "/debug/pprof/", http.StatusNotFound)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Listen(t.Context(), Config{Address: "127.0.0.1:none"}); err == nil {
		t.Error("listens on no port")
	}
}

func wantAnswer(t *testing.T, s *Server, path string, status int, holds ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Fatalf("%s: %d %s %v", path, res.StatusCode, body, err)
	}
	for _, want := range holds {
		if !strings.Contains(string(body), want) {
			t.Errorf("%s does not hold %q: %s", path, want, body)
		}
	}
}
