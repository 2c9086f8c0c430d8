package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/scripts/internal/faultproxy"
	"parley/scripts/internal/quickstart"
	"parley/shared/lifecycle"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// testEnv is the environment shared by all tests of the package.
type testEnv struct {
	mu      sync.Mutex
	up      bool
	dir     string
	parley  *lifecycle.Child
	servers []*httptest.Server

	model  *openaistub.Server // the model "openai/stub"
	ledger *ledger
	creds  quickstart.Credentials
	owner  string // session token of the user who owns the tests' organizations; empty until needed
}

var theEnv testEnv

// withTestEnv returns the running service. The first call starts it.
func withTestEnv(t *testing.T) *testEnv {
	t.Helper()
	s := &theEnv
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return s
	}

	program := testkit.BuildBinary(t, "deploy/standalone/cmd/parley")
	s.place(t)
	s.model, s.ledger = openaistub.New(), newLedger()
	services := http.NewServeMux()
	services.Handle("/", s.ledger)
	services.Handle("/mcp", shop())
	model, book := httptest.NewServer(refusing(paused(s.model))), httptest.NewServer(services)
	s.servers = append(s.servers, model, book)
	s.ledger.url = book.URL
	if err := s.startParley(t, program, model.URL); err != nil {
		t.Fatal(err)
	}

	s.up = true
	return s
}

// place creates the environment's directory if it does not exist yet. All tests share the
// directory, so no single test removes it. The caller must hold s.mu.
func (s *testEnv) place(t *testing.T) {
	t.Helper()
	if s.dir != "" {
		return
	}
	dir, err := os.MkdirTemp("", "parley-clients-") //nolint:usetesting // shared by all tests
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
}

// startParley starts `parley up` with settings for the tests, and returns when the service is
// ready.
func (s *testEnv) startParley(t *testing.T, program, model string) error {
	t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "output"))
	if err != nil {
		return fmt.Errorf("creating parley's log: %w", err)
	}
	defer log.Close()

	data := filepath.Join(s.dir, "data")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "up")
	cmd.Env = append(append(os.Environ(), quickstart.Environment(data, testkit.FreePort(t))...),
		"OPENAI_BASE_URL="+model+"/v1", "OPENAI_API_KEY=stub", "DEFAULT_MODEL=offline",
		"TRANSCRIPTION_MODEL=offline/pocketsphinx", "SPEECH_MODEL=offline/espeak-ng", // the stub does not transcribe or speak
		"OUTBOUND_ALLOW="+strings.TrimPrefix(s.ledger.url, "http://"), "LIMIT_DEMO=6000", "LIMIT_USER=50000", "LIMIT_SYSTEM=60000",
		"ORGANIZATIONS_PER_USER=0", "MEMBERSHIPS_PER_USER=0") // one user owns all tests' organizations

	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s.parley, err = lifecycle.StartChild(cmd, syscall.SIGKILL); err != nil {
		return fmt.Errorf("starting parley: %w", err)
	}

	ready := func() bool { return s.parley.Ended() || bytes.Contains(s.output(), []byte(quickstart.BannerEnd)) }
	if !polled(t, time.Minute, ready) || s.parley.Ended() {
		return fmt.Errorf("parley is not ready: %w\n%s", s.parley.Err(), s.output())
	}

	s.creds, err = quickstart.ReadCredentials(data)
	return err
}

// env returns the environment for a client's script: the service's URL, a valid key, and an agent
// with every tool. The entries of extra take precedence, so they can replace these variables:
// s.env("PARLEY_BASE_URL=" + door.URL).
func (s *testEnv) env(extra ...string) []string {
	return append([]string{
		"PARLEY_BASE_URL=" + s.creds.BaseURL, "PARLEY_API_KEY=" + s.creds.APIKey,
		"AGENT_ID=" + s.creds.AgentID, "ORGANIZATION_ID=" + s.creds.OrganizationID,
	}, extra...)
}

// faults starts a proxy that causes connection faults between clients and the service. For example,
// clients use s.faults(t).DropFirst().URL as their base URL.
func (s *testEnv) faults(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	return faultproxy.Start(t, s.creds.BaseURL)
}

// output returns parley's output.
func (s *testEnv) output() []byte {
	raw, err := os.ReadFile(filepath.Join(s.dir, "output"))
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}

// end stops the service and the servers that it uses. If a test of the package failed, end prints
// the service's warnings and errors.
func (s *testEnv) end(langChainError bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	err := s.endParley()
	for _, server := range s.servers {
		server.CloseClientConnections()
		server.Close()
	}

	if s.dir == "" {
		return err
	}
	if s.parley != nil && (langChainError || err != nil) {
		fmt.Fprintf(os.Stderr, "parley complained:\n%s", complaints(s.output()))
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// endParley stops the service. It kills the service and returns an error if the service does not
// end within 30 s.
func (s *testEnv) endParley() error {
	if s.parley == nil {
		return nil
	}
	if err := s.parley.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending parley: %w", err)
	}

	select {
	case <-s.parley.Done():
	case <-time.After(30 * time.Second):
		_ = s.parley.Signal(syscall.SIGKILL) // also ends the service's PostgreSQL
		<-s.parley.Done()
		return errors.New("parley did not end within 30 s")
	}
	return s.parley.Err()
}

// complaints returns the last warnings and errors in a log.
func complaints(log []byte) string {
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"level":"warn"`) || strings.Contains(line, "panic") {
			lines = append(lines, line)
		}
	}
	const limit = 40
	return strings.Join(lines[max(0, len(lines)-limit):], "")
}

// pause is a slow model's pause after each piece of its answer.
const pause = 20 * time.Millisecond

// paused wraps a stub model. It pauses after each piece of an answer if the prompt contains the
// word "slowly".
func paused(model *openaistub.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readAll(r)
		if err != nil {
			return // the request is incomplete
		}
		if strings.Contains(body, "slowly") {
			w = &pausing{w, r.Context()}
		}
		model.ServeHTTP(w, r)
	})
}

// pausing pauses after each flushed piece.
type pausing struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request
}

// Flush sends a piece and pauses.
func (w *pausing) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the client may have disconnected
	select {
	case <-time.After(pause):
	case <-w.ctx.Done():
	}
}
