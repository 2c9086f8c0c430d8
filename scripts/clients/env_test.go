package clients

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/faultproxy"
	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
)

// testEnv is the environment shared by all tests of the package.
type testEnv struct {
	mu      sync.Mutex
	up      bool
	dir     string
	parley  *quickstart.Service
	servers []*httptest.Server

	model  *openaistub.Server // the model "openai/stub"
	ledger *ledger
	owner  string // session token of the user who owns the tests' organizations; empty until needed
}

var theEnv testEnv

// pause is a slow model's pause after each piece of its answer.
const pause = 20 * time.Millisecond

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
	model, book := httptest.NewServer(refusing(modelstub.Slow(s.model, pause))), httptest.NewServer(services)
	s.servers = append(s.servers, model, book)
	s.ledger.url = book.URL
	if err := s.startParley(t, program, model.URL); err != nil {
		t.Fatal(err)
	}

	s.up = true
	return s
}

// place creates the directory of the environment unless it exists. All tests share the directory,
// so no single test removes it. The caller must hold s.mu.
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
func (s *testEnv) startParley(t *testing.T, program, model string) (err error) {
	t.Helper()
	s.parley, err = quickstart.Start(t, program, s.dir,
		"OPENAI_BASE_URL="+model+"/v1", "OPENAI_API_KEY=stub", "DEFAULT_MODEL=offline",
		"TRANSCRIPTION_MODEL=offline/pocketsphinx", "SPEECH_MODEL=offline/espeak-ng", // the stub does not transcribe or speak
		"OUTBOUND_ALLOW="+strings.TrimPrefix(s.ledger.url, "http://"), "LIMIT_DEMO=6000", "LIMIT_USER=50000", "LIMIT_SYSTEM=60000",
		"ORGANIZATIONS_PER_USER=0") // one user owns all tests' organizations
	return err
}

// env returns the environment for a client's script: the service's URL, a valid key, and an agent
// with every tool. The entries of extra take precedence, so they can replace these variables:
// s.env("PARLEY_BASE_URL=" + door.URL).
func (s *testEnv) env(extra ...string) []string {
	return append([]string{
		"PARLEY_BASE_URL=" + s.parley.BaseURL, "PARLEY_API_KEY=" + s.parley.APIKey,
		"AGENT_ID=" + s.parley.AgentID, "ORGANIZATION_ID=" + s.parley.OrganizationID,
	}, extra...)
}

// faults starts a proxy that causes connection faults between clients and the service. A client
// reaches the proxy through a base URL such as s.faults(t).DropFirst().URL.
func (s *testEnv) faults(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	return faultproxy.Start(t, s.parley.BaseURL)
}

// end stops the service and the servers that it uses. If a test of the package failed, end prints
// the service's warnings and errors.
func (s *testEnv) end(langChainError bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	err := s.parley.Stop()
	for _, server := range s.servers {
		server.CloseClientConnections()
		server.Close()
	}

	if s.dir == "" {
		return err
	}
	if s.parley != nil && (langChainError || err != nil) {
		fmt.Fprintf(os.Stderr, "parley complained:\n%s", s.parley.Complaints())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
