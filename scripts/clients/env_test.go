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

// testEnv is what all tests of the package share.
type testEnv struct {
	mu      sync.Mutex
	up      bool
	dir     string
	parley  *lifecycle.Child
	servers []*httptest.Server

	model  *openaistub.Server // the model "openai/stub"
	ledger *ledger
	creds  quickstart.Credentials
	owner  string // session token of whom the organizations of tests belong to; empty until one is asked for
}

var theEnv testEnv

// withTestEnv gives the running service, and starts it for the first test that asks.
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
	model, book := httptest.NewServer(paused(s.model)), httptest.NewServer(s.ledger)
	s.servers = append(s.servers, model, book)
	s.ledger.url = book.URL
	if err := s.startParley(t, program, model.URL); err != nil {
		t.Fatal(err)
	}
	s.up = true
	return s
}

// place makes the directory of the stage, which outlives the test that asks first; s.mu is held.
func (s *testEnv) place(t *testing.T) {
	t.Helper()
	if s.dir != "" {
		return
	}
	dir, err := os.MkdirTemp("", "parley-clients-") //nolint:usetesting // it is all tests' place
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
}

func (s *testEnv) startParley(t *testing.T, program, model string) error {
	t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "output"))
	if err != nil {
		return fmt.Errorf("making log of parley: %w", err)
	}
	defer log.Close()
	data := filepath.Join(s.dir, "data")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "up")
	cmd.Env = append(append(os.Environ(), quickstart.Environment(data, testkit.FreePort(t))...),
		"OPENAI_BASE_URL="+model+"/v1", "OPENAI_API_KEY=stub", "DEFAULT_MODEL=offline",
		"TRANSCRIPTION_MODEL=offline/pocketsphinx", "SPEECH_MODEL=offline/espeak-ng", // the stub has no ears and no voice
		"OUTBOUND_ALLOW="+strings.TrimPrefix(s.ledger.url, "http://"), "LIMIT_DEMO=6000", "LIMIT_USER=50000", "LIMIT_SYSTEM=60000",
		"ORGANIZATIONS_PER_USER=0", "MEMBERSHIPS_PER_USER=0") // one person owns those of all tests
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

// env is the environment of a client's script: where the service is, a key that works, and an agent that has every tool. What comes
// later in it wins, so that extra replaces and adds: s.env("PARLEY_BASE_URL=" + door.URL).
func (s *testEnv) env(extra ...string) []string {
	return append([]string{
		"PARLEY_BASE_URL=" + s.creds.BaseURL, "PARLEY_API_KEY=" + s.creds.APIKey,
		"AGENT_ID=" + s.creds.AgentID, "ORGANIZATION_ID=" + s.creds.OrganizationID,
	}, extra...)
}

// faults puts a proxy in front of the service whose connections break as a test wants: s.faults(t).DropFirst().URL is a base URL.
func (s *testEnv) faults(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	return faultproxy.Start(t, s.creds.BaseURL)
}

// output is all that parley has written.
func (s *testEnv) output() []byte {
	raw, err := os.ReadFile(filepath.Join(s.dir, "output"))
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}

// end stops everything; of a failed package it shows what parley complained of.
func (s *testEnv) end(failed bool) error {
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
	if s.parley != nil && (failed || err != nil) {
		fmt.Fprintf(os.Stderr, "parley complained:\n%s", complaints(s.output()))
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

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
		_ = s.parley.Signal(syscall.SIGKILL) // its PostgreSQL ends with it
		<-s.parley.Done()
		return errors.New("parley did not end within 30 s")
	}
	return s.parley.Err()
}

// complaints gives the lines of a log that tell of something wrong, the last ones of many.
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

// pause is how long a model that answers slowly pauses after each piece.
const pause = 20 * time.Millisecond

// paused has a model's stub pause after each piece of an answer whose prompt has the word "slowly".
func paused(model *openaistub.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readAll(r)
		if err != nil {
			return // half a request is not answered
		}
		if strings.Contains(body, "slowly") {
			w = &pausing{w, r.Context()}
		}
		model.ServeHTTP(w, r)
	})
}

// pausing waits with each piece that is sent on.
type pausing struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request that is answered
}

// Flush sends a piece on, and pauses.
func (w *pausing) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that has left needs nothing
	select {
	case <-time.After(pause):
	case <-w.ctx.Done():
	}
}
