package workers_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/sealed"
	"parley/shared/sealed/sealedtest"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
	"parley/workers"
)

// lockedLog is a log that can be read and written at the same time.
type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns the lines that contain all of the given words.
func (l *lockedLog) lines(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.buf.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// If the key for a tool's secrets was removed, the run, the log and the metrics report that the key
// is missing. After the secrets were encrypted with another key, the tool works again.
func TestToolsWhoseKeyIsRemoved(t *testing.T) { //nolint:tparallel // each step depends on the previous one
	t.Parallel()
	model := httptest.NewServer(openaistub.New())
	t.Cleanup(model.Close)
	asked := make(chan http.Header, 8)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Header
		_, _ = io.WriteString(w, "paid")
	}))
	t.Cleanup(remote.Close)
	dsn, both := testkit.Postgres(t), sealedtest.KeyB+","+sealedtest.KeyA
	org := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	agent, st := id.New(id.Agent), sealedtest.Open(t, dsn, both)
	tools := sealedtest.Tools(sealedtest.Box(t, sealedtest.KeyA), org.Organization, agent)
	pay := &tools.HTTPRequest.Endpoints[0]
	pay.URL, pay.Method, pay.SideEffect, tools.MCP = remote.URL, http.MethodGet, domain.SideEffectNone, nil
	pay.InputSchema = map[string]any{"type": "object", "properties": map[string]any{"query": map[string]any{"type": "string"}}}
	if _, err := st.Agents.CreateAgent(t.Context(), org.Organization, domain.Agent{
		ID: agent, Name: "a", SystemPrompt: "p", Model: "openai/test", Tools: tools, AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	}); err != nil {
		t.Fatal(err)
	}
	cfg := config.Workers{OpenAIBaseURL: model.URL + "/v1", OpenAIAPIKey: "k"}
	cfg.OutboundAllow = []string{remote.Listener.Addr().String()}
	// call starts a worker that has only the new key, and executes a run that calls the tool.
	call := func(t *testing.T, session string) (domain.Run, *lockedLog, *prometheus.Registry) {
		t.Helper()
		log, metrics := &lockedLog{}, prometheus.NewRegistry()
		on := envConfig{dsn: dsn, org: org.Organization, secretsKey: sealedtest.KeyB, log: log, metrics: metrics}
		r := newTestEnvOn(t, on, 4, cfg, workers.RoleAgent, workers.RoleTool)
		return r.result(r.start(agent, session, "tool pay: now")), log, metrics
	}
	t.Run("before resealing", func(t *testing.T) { //nolint:paralleltest // each step depends on the previous one
		run, log, metrics := call(t, "before")
		if run.Status != domain.RunCompleted || run.Message == nil || !strings.Contains(*run.Message, "This tool's secret cannot be decrypted.") {
			t.Errorf("the run is %+v", run)
		}
		if len(asked) > 0 {
			t.Error("the tool was called")
		}
		keyA := sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0]
		if lines := log.lines(`"level":"error"`, `"kind":"tool"`, `"key_id":"`+keyA+`"`, `"org_id":"`+org.Organization+`"`, `"agent_id":"`+agent+`"`); len(lines) != 1 {
			t.Errorf("%d lines of the log say so: %s", len(lines), log.lines(""))
		}
		if n := counter(t, metrics, "tool"); n != 1 {
			t.Errorf("counted %v", n)
		}
		if lines := log.lines("stored values need a key that SECRETS_KEY does not have"); len(lines) != len(sealdb.Kinds) {
			t.Errorf("the check at the start logged %s", lines)
		}
	})
	if _, err := sealed.Reseal(t.Context(), st.Seals, sealedtest.Box(t, both),
		func(v sealdb.Value) { t.Errorf("not opened: %s", v) }, func(sealed.Outcome) {}); err != nil {
		t.Fatal(err)
	}
	t.Run("after it", func(t *testing.T) { //nolint:paralleltest // as above
		run, log, metrics := call(t, "after")
		if run.Status != domain.RunCompleted || run.Message == nil || !strings.Contains(*run.Message, "paid") {
			t.Fatalf("the run is %+v", run)
		}
		got := <-asked
		if got.Get("Authorization") != sealedtest.Header || got.Get("Webhook-Signature") == "" {
			t.Errorf("the tool was called with %v", got)
		}
		if lines := log.lines("SECRETS_KEY"); len(lines) > 0 || counter(t, metrics, "tool") != 0 {
			t.Errorf("the log says %s", lines)
		}
	})
}

// counter reads from the metrics how many values of the given kind could not be decrypted.
func counter(t *testing.T, metrics *prometheus.Registry, kind string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "parley_secrets_unopened_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == kind {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter of %s", kind)
	return 0
}
