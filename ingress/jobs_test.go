package ingress_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/testkit"
)

// smallNATS runs a NATS server. The argument size limits the total size of the server's streams.
// The returned function resize restarts the server with another limit.
func smallNATS(t *testing.T, size string) (server *testkit.NATSServer, resize func(size string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "little.conf")
	write := func(size string) {
		if err := os.WriteFile(path, []byte("jetstream { max_file: "+size+", max_mem: 16M }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(size)
	server = testkit.NATSWith(t, path, nil)
	return server, func(size string) {
		write(size)
		server.Kill9()
		server.Restart()
	}
}

// wantJobs waits until /readyz and /metrics report the expected state. NATS must be reachable. The
// job stream must work if the argument work is true, and must fail if the argument is false.
func (r *testEnv) wantJobs(when string, work bool) {
	r.Helper()
	result, up, status := "ok", "1", 200
	if !work {
		result, up, status = "failing", "0", 503
	}
	want := []string{`parley_dependency_up{dependency="jobs"} ` + up, `parley_dependency_up{dependency="nats"} 1`}
	var ready, metrics answer
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		var readiness struct{ Checks map[string]string }
		ready = r.call("GET", "/readyz", nil, "")
		ready.into(&readiness, ready.status)
		metrics = r.call("GET", "/metrics", nil, "").want(200)
		if ready.status == status && readiness.Checks["jobs"] == result && readiness.Checks["nats"] == "ok" && // every check has run
			strings.Contains(metrics.body, want[0]+"\n") && strings.Contains(metrics.body, want[1]+"\n") {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	r.Fatalf("%s: %d %s, want %d with jobs %s, and metrics with %q:\n%s", when, ready.status, ready.body, status, result, want, dependencies(metrics.body))
}

// dependencies returns the lines in /metrics that report which dependencies are up.
func dependencies(metrics string) string {
	var out []string
	for line := range strings.SplitSeq(metrics, "\n") {
		if strings.HasPrefix(line, "parley_dependency_up{") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// If the store of a NATS server is full, the server responds but accepts no jobs, and /readyz and
// the metrics report this. When the store has space again, they report the recovery without a
// restart of the ingress.
func TestAFullJobStoreIsReported(t *testing.T) {
	t.Parallel()
	server, _ := smallNATS(t, "24M")
	js := jetStream(t, server.URL) // another stream, which fills the store without reserving space
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHERS", Subjects: []string{"others"}}); err != nil {
		t.Fatal(err)
	}
	r := newTestEnvOn(t, defaults(), server.URL)
	if _, err := r.bus.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantJobs("with space", true)

	var refused *jetstream.APIError
	for n := 0; refused == nil; n++ {
		if _, err := js.Publish(t.Context(), "others", make([]byte, 512<<10)); err != nil && !errors.As(err, &refused) || n > 100 {
			t.Fatalf("filling the store, message %d: %v", n, err)
		}
	}
	r.wantJobs("with a full store", false)
	r.call("POST", "/api/internal/run-automation", r.asKey("Prefer", "respond-async"), `{"target":"`+r.agent+`","input":{"message":"m"}}`).want(202)

	if err := js.DeleteStream(t.Context(), "OTHERS"); err != nil {
		t.Fatal(err)
	}
	r.wantJobs("with space again", true)
}

// A NATS server with too little space for the smallest job stream responds, but has no job stream.
// After a restart of NATS with more space, the ingress creates the stream without being restarted.
func TestABusTooSmallForTheJobStreamIsReported(t *testing.T) {
	t.Parallel()
	server, resize := smallNATS(t, "4M")
	r := newTestEnvOn(t, defaults(), server.URL)
	if _, err := r.bus.EnsureStream(t.Context()); err == nil {
		t.Fatal("a server with 4 MiB accepted the stream")
	}
	r.wantJobs("with 4 MiB", false)

	resize("32M")
	for end := time.Now().Add(30 * time.Second); ; { // calls EnsureStream again and again, as the sweeper does
		_, err := r.bus.EnsureStream(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	r.wantJobs("with 32 MiB", true)
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	js := testkit.JetStream(t, url)
	return js
}
