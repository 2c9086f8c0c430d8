package workers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
	"parley/shared/testkit/running"
	"parley/workers"
)

const secretsKey = "abababababababababababababababababababababababababababababababab"

// testEnv contains a database, a bus, a worker that uses both, and an organization.
type testEnv struct {
	*testing.T
	work  *workers.Workers
	store *store.Store
	bus   *bus.Bus
	org   string
	inbox string

	window   int
	deadline time.Duration // time limit of the runs that the method start creates

	mu      sync.Mutex
	replies map[string]chan domain.Run
}

func newTestEnv(t *testing.T, cfg config.Workers) *testEnv {
	t.Helper()
	return newTestEnvFor(t, cfg, workers.Roles...)
}

// newTestEnvFor starts a worker with the given roles.
func newTestEnvFor(t *testing.T, cfg config.Workers, roles ...workers.Role) *testEnv {
	t.Helper()
	return newTestEnvThrough(t, 4, cfg, roles...)
}

// newTestEnvThrough starts a worker with the given roles and the given dispatch limit.
func newTestEnvThrough(t *testing.T, window int, cfg config.Workers, roles ...workers.Role) *testEnv {
	t.Helper()
	return newTestEnvOn(t, envConfig{dsn: testkit.Postgres(t), secretsKey: secretsKey, log: zerolog.NewTestWriter(t)}, window, cfg, roles...)
}

// envConfig configures the database of a test environment.
type envConfig struct {
	dsn        string
	org        string // if empty, the test environment creates an organization
	secretsKey string
	log        io.Writer
	metrics    *prometheus.Registry
	files      int64 // value of the setting FILES_PER_ORGANIZATION
}

// newTestEnvOn starts a worker on an existing database, which may already contain an organization.
func newTestEnvOn(t *testing.T, on envConfig, window int, cfg config.Workers, roles ...workers.Role) *testEnv {
	t.Helper()
	st, err := store.Open(on.dsn, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })

	// Announce slots for the worker, so that runs are dispatched before its own announcement.
	if err := st.Queue.AnnounceSlots(t.Context(), "test", window, time.Hour); err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(on.log).Level(zerolog.WarnLevel)
	b, err := bus.Dial(testkit.NATS(t), "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if on.org == "" {
		account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "a@example.com", Name: "a"}, accountdb.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		on.org = account.Organization.ID
	}
	r := &testEnv{T: t, store: st, bus: b, org: on.org, inbox: b.NewInbox(), window: window, deadline: time.Minute, replies: map[string]chan domain.Run{}}
	stop, err := b.OnReplies(r.inbox, r.reply)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w, err := workers.New(workers.Config{
		Secrets: config.Secrets{SecretsKey: on.secretsKey}, Workers: cfg, Roles: roles, Documents: config.Documents{FilesPerOrganization: on.files},
		ColdSandboxes: true,
	}, workers.Deps{Store: st, Bus: b, Log: log, Metrics: on.metrics})
	if err != nil {
		t.Fatal(err)
	}
	r.work = w
	running.Start(t, w.Run)
	return r
}

func (r *testEnv) reply(runID string, body []byte) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil {
		r.Errorf("reply %q: %v", body, err)
	}
	r.await(runID) <- run
}

func (r *testEnv) await(runID string) chan domain.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replies[runID] == nil {
		r.replies[runID] = make(chan domain.Run, 8)
	}
	return r.replies[runID]
}

func (r *testEnv) agent(model string) string {
	r.Helper()
	return r.agentWith(model, domain.Tools{})
}

func (r *testEnv) agentWith(model string, tools domain.Tools) string {
	r.Helper()
	a, err := r.store.Agents.CreateAgent(r.Context(), r.org, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", Model: model, Tools: tools,
		AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	if err != nil {
		r.Fatal(err)
	}
	return a.ID
}

// start does the work of an ingress: it creates a run and publishes the job message. It returns the
// run's id.
func (r *testEnv) start(agent, session, message string) string {
	r.Helper()
	return r.startRun(id.New(id.Run), agent, "system", session, domain.Input{Message: message})
}

// startRun does the work of an ingress: it creates a run with the given id and input in a session
// of the principal, and publishes the job message. It returns the run's id.
func (r *testEnv) startRun(runID, agent, principal, session string, asked domain.Input) string {
	r.Helper()
	input, err := json.Marshal(asked)
	if err != nil {
		r.Fatal(err)
	}
	run := queuedb.NewRun{
		ID: runID, OrganizationID: r.org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: principal,
		SessionID: session, SessionKey: contract.Hash(agent, session), TriggerType: "api", Input: input, Lane: domain.LaneAutomation,
		ReplyTo: r.inbox, Retention: time.Hour, Deadline: r.deadline,
	}
	run.Dedupe = contract.Dedupe(r.org, contract.EndpointAutomation, run.ID)
	out, err := r.store.Queue.Accept(r.Context(), []queuedb.NewRun{run})
	if err != nil || out[0].Err != nil {
		r.Fatalf("accepting: %v, %v", err, out)
	}
	if out[0].Job != nil {
		r.bus.PublishJobs(*out[0].Job)
	}
	return run.ID
}

func (r *testEnv) result(runID string) domain.Run {
	r.Helper()
	select {
	case run := <-r.await(runID):
		return run
	case <-time.After(30 * time.Second):
		r.Fatalf("no reply for %s", runID)
		return domain.Run{}
	}
}

func TestWorkersAnswerManyRunsThroughANarrowWindow(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, config.Workers{})
	agent := r.agent("offline/echo")
	var runs []string
	for i := range 100 {
		runs = append(runs, r.start(agent, fmt.Sprint("s", i), fmt.Sprint("hello ", i)))
	}
	for i, runID := range runs {
		run := r.result(runID)
		if run.Status != domain.RunCompleted || run.Message == nil || *run.Message != fmt.Sprint("echo: hello ", i) || run.Attempts != 1 {
			t.Errorf("run %+v", run)
		}
	}
}

func TestWorkersGiveASessionItsHistoryInOrder(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	agent := r.agent("openai/test")
	var runs []string
	for i := range 5 {
		runs = append(runs, r.start(agent, "s", fmt.Sprint("message ", i)))
	}
	var last domain.Time
	for _, runID := range runs {
		run := r.result(runID)
		if run.Status != domain.RunCompleted || run.StartedAt.Before(last.Time) {
			t.Errorf("run %s started %v, but the previous run ended %v", run.Status, run.StartedAt, last)
		}
		last = *run.FinishedAt
	}
}

func TestWorkersSayWhyARunFailed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, config.Workers{})
	run := r.result(r.start(r.agent("openai/none"), "s", "hi"))
	if run.Status != domain.RunFailed || run.Error == nil || run.Error.Code != "model_not_available" || run.Message != nil {
		t.Errorf("run %+v, error %+v", run, run.Error)
	}
}

func TestSettingsAreCheckedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*workers.Config)
		wrong  string
	}{
		"no key":                {func(c *workers.Config) { c.SecretsKey = "" }, "SECRETS_KEY"},
		"no key for tools":      {func(c *workers.Config) { c.SecretsKey, c.Roles = "", []workers.Role{workers.RoleTool} }, "SECRETS_KEY"},
		"a short key":           {func(c *workers.Config) { c.SecretsKey = "abab" }, "SECRETS_KEY"},
		"no such role":          {func(c *workers.Config) { c.Roles = []workers.Role{"cook"} }, "cook"},
		"no such model":         {func(c *workers.Config) { c.DefaultModel = "openai/x" }, "model"},
		"prices":                {func(c *workers.Config) { c.ModelPrices = "gpt" }, "MODEL_PRICES"},
		"currency":              {func(c *workers.Config) { c.PricesCurrency = "gold" }, "PRICES_CURRENCY"},
		"a broken allow list":   {func(c *workers.Config) { c.OutboundAllow = []string{"10.0.0.1"} }, "OUTBOUND_ALLOW"},
		"a search without http": {func(c *workers.Config) { c.SearxngURL = "search.example.com" }, "SEARXNG_URL"},
	} {
		cfg := workers.Config{Secrets: config.Secrets{SecretsKey: secretsKey}, Roles: workers.Roles, ColdSandboxes: true}
		c.change(&cfg)
		b, err := bus.Dial("nats://127.0.0.1:1", "test", zerolog.Nop()) // no server needs to listen at this address
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workers.New(cfg, workers.Deps{Store: store.New(nil), Bus: b, Log: zerolog.Nop()}); err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "abab") {
			t.Errorf("%s: %v", name, err)
		}
		b.Close()
	}
	sweep := workers.Config{Roles: []workers.Role{workers.RoleSweep}}
	if _, err := workers.New(sweep, workers.Deps{Log: zerolog.Nop()}); err != nil {
		t.Errorf("a sweeper without a key: %v", err)
	}
}
