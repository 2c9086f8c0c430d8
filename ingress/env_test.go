package ingress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress"
	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/testkit"
)

// testEnv is a real ingress on loopback, with a database, a bus and an organization that calls the
// ingress. There are no workers. Instead, the method echo finishes runs over the real bus and in
// the real tables.
type testEnv struct {
	*testing.T
	dsn   string // data source of the database's owner
	url   string
	store *store.Store
	bus   *bus.Bus
	token string // login token of the organization's owner
	org   string
	key   string // API key of the organization
	agent string // ID of an agent that users and systems may call; see domain.CallerKind
}

func defaults() ingress.Config {
	return ingress.Config{
		Secrets: config.Secrets{SecretsKey: strings.Repeat("ab", 32)},
		Ingress: config.Ingress{
			Host: "127.0.0.1", LimitDemo: 10, DemoTokens: 1_000_000, LimitUser: 100_000, LimitSystem: 1_000_000,
			LimitWidgetVisitor: 20, LimitWidgetAddress: 60, LimitWidgetAgent: 1200,
			StreamsPerCredential: 1000, RunDeadline: time.Minute,
			VoicePerOrganization: 100, VoiceMaxDuration: time.Minute,
			WaitDefault: 10 * time.Second, RetentionDefault: 24 * time.Hour, BacklogMax: 1000,
		},
	}
}

func newTestEnv(t *testing.T, cfg ingress.Config) *testEnv {
	t.Helper()
	return newTestEnvOn(t, cfg, testkit.NATS(t))
}

// newTestEnvOn creates a test environment that uses the NATS server at natsURL.
func newTestEnvOn(t *testing.T, cfg ingress.Config, natsURL string) *testEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := st.Queue.AnnounceSlots(t.Context(), "worker", 64, time.Hour); err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	b, err := bus.Dial(natsURL, "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := &testEnv{T: t, dsn: dsn, store: st, bus: b}
	r.url, _ = r.serve(cfg, log)
	r.signUp()
	return r
}

// serve runs an ingress until stop is called or the test ends.
func (r *testEnv) serve(cfg ingress.Config, log zerolog.Logger) (url string, stop func()) {
	r.Helper()
	listener, err := new(net.ListenConfig).Listen(r.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	registry := (&connect.Servers{Store: r.store, Bus: r.bus}).Metrics(true)
	in, err := ingress.New(cfg, ingress.Deps{Store: r.store, Bus: r.bus, Log: log, Metrics: registry, Listener: listener})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("ingress ended with %v", err)
		}
	}
	r.Cleanup(stop)
	return "http://" + listener.Addr().String(), stop
}

func (r *testEnv) signUp() {
	r.Helper()
	var account struct {
		Token        string
		Organization struct{ ID string }
	}
	r.call("POST", "/api/auth/signup", nil, `{"email":"ada@example.com","password":"correct horse battery"}`).into(&account, 201)
	r.token, r.org = account.Token, account.Organization.ID
	var key struct{ Key string }
	r.call("POST", "/api/keys", head{"Authorization": "Bearer " + r.token}, `{"name":"k","scope":"organization"}`).into(&key, 201)
	r.key = key.Key
	r.agent = r.newAgent(`"user","system"`)
}

func (r *testEnv) newAgent(callers string) string {
	r.Helper()
	var agent struct{ ID string }
	r.call("POST", "/api/agents", r.asKey(), `{"name":"a","systemPrompt":"p","allowedCallers":[`+callers+`]}`).into(&agent, 201)
	return agent.ID
}

type head map[string]string

func (r *testEnv) asKey(more ...string) head {
	h := head{"x-api-key": r.key}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// answer is a response with its complete body.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (r *testEnv) call(method, path string, headers head, body string) answer {
	r.Helper()
	return r.callAt(r.url, method, path, headers, body)
}

// loopback is the HTTP client for calls to ingresses in this process.
var loopback = &http.Client{Transport: &http.Transport{}}

func (r *testEnv) callAt(base, method, path string, headers head, body string) answer {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, base+path, bytes.NewBufferString(body))
	if err != nil {
		r.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := openapitest.Do(r.T, loopback, req)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return answer{t: r.T, status: res.StatusCode, header: res.Header, body: string(raw)}
}

func (a answer) into(v any, status int) {
	a.t.Helper()
	a.want(status)
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%q: %v", a.body, err)
	}
}

func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// run checks the status of the response and decodes its run object.
func (a answer) run(status int) domain.Run {
	a.t.Helper()
	var run domain.Run
	a.into(&run, status)
	return run
}

// problem contains the fields of an error response that tests check.
type problem struct {
	Code   string
	Errors []struct{ Field, Code string }
}

func (a answer) problem(status int) problem {
	a.t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Errorf("an error is %q: %s", got, a.body)
	}
	var p problem
	a.into(&p, status)
	return p
}

// echo acts as a worker until the test ends: it claims and finishes each run, replies, and
// acknowledges the job message.
func (r *testEnv) echo() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, len(domain.Lanes))
	for _, lane := range domain.Lanes {
		go func() {
			defer func() { ended <- struct{}{} }()
			for jobs := r.bus.Lane(lane); ctx.Err() == nil; {
				if err := jobs.Fetch(ctx, 16, 100*time.Millisecond, func(d *bus.JobMessage) { r.answer(ctx, d) }); err != nil && ctx.Err() == nil {
					r.Errorf("fetching: %v", err)
				}
			}
		}()
	}
	r.Cleanup(func() {
		cancel()
		for range domain.Lanes {
			<-ended
		}
	})
}

func (r *testEnv) answer(ctx context.Context, d *bus.JobMessage) {
	claims, err := r.store.Executions.Claim(ctx, []string{d.RunID})
	if err != nil || claims[0].Run == nil {
		d.Ack()
		return
	}
	c := claims[0].Run
	in, err := c.Input()
	if err != nil {
		r.Errorf("input: %v", err)
	}
	text := "echo: " + in.Message
	run := c.Run()
	run.Message, run.Output = &text, &domain.Output{Message: text}
	run.End(domain.RunCompleted, nil, domain.At(c.Now), c.RetentionSecs)
	outcome, err := executiondb.NewOutcome(c.Held(), run)
	if err != nil {
		r.Errorf("rendering: %v", err)
	}
	outcome.EndN = 3 // the events are the start (1), the answer (2) and the end (3)
	finished, err := r.store.Executions.Finish(ctx, []executiondb.Outcome{outcome})
	if err != nil {
		r.Errorf("finishing: %v", err)
		return
	}
	r.bus.Done(d.RunID, d.ReplyTo, outcome.Result)
	next, err := r.store.Queue.DispatchNext(ctx, finished.Freed)
	if err != nil && ctx.Err() == nil {
		r.Errorf("handing over: %v", err)
	}
	r.bus.PublishJobs(next...)
	d.Ack()
}
