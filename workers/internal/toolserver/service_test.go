package toolserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
	"parley/workers/internal/signed/signedtest"
	"parley/workers/internal/tool"
	"parley/workers/internal/toolserver"
)

// service is a tool worker on a real database and a real bus. It has a run that an agent worker has
// claimed.
type service struct {
	*testing.T
	store  *store.Store
	bus    *bus.Bus
	caller *bus.ToolCaller
	claims contract.Capability
	gauges *prometheus.Registry
}

func newService(t *testing.T, backends ...tool.Backend) *service {
	t.Helper()
	st, err := store.Open(testkit.Postgres(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := &service{T: t, store: st, bus: b, gauges: prometheus.NewRegistry()}
	if s.caller, err = b.NewToolCaller(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.caller.Close)
	s.claims = s.begin("a@example.com")
	server, err := toolserver.New(toolserver.Config{Concurrency: 4, FilesPerOrganization: 32 << 10}, toolserver.Deps{
		Bus: b, Records: st.Executions, Sources: st.Blobs, Files: st.Blobs, Documents: st.Knowledge, Ledger: st.Executions, Verifier: signedtest.Signer(t), Backends: backends, Metrics: s.gauges, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Start(t, server.Run)
	return s
}

// begin creates an organization with an agent, accepts a run and claims it.
func (s *service) begin(email string) contract.Capability {
	s.Helper()
	account, err := s.store.Accounts.SignUp(s.Context(), accountdb.NewUser{Email: email, Name: "a"}, accountdb.NewLogin{TokenHash: []byte(email), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		s.Fatal(err)
	}
	org := account.Organization.ID
	agent, err := s.store.Agents.CreateAgent(s.Context(), org, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", Model: "offline", AllowedCallers: []domain.CallerKind{domain.CallerSystem}, Tools: endpoints,
	})
	if err != nil {
		s.Fatal(err)
	}
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: org, AgentID: agent.ID, CallerKind: domain.CallerSystem, Principal: "system",
		SessionID: "s", SessionKey: contract.Hash(org, "s"), TriggerType: "api", Input: json.RawMessage(`{"message":"m"}`), Lane: domain.LaneAutomation,
		Retention: time.Hour, Deadline: time.Minute,
	}
	run.Dedupe = contract.Dedupe(org, contract.EndpointAutomation, run.ID)
	if out, err := s.store.Queue.Accept(s.Context(), []queuedb.NewRun{run}); err != nil || out[0].Err != nil {
		s.Fatalf("accepting: %v, %v", err, out)
	}
	claims, err := s.store.Executions.Claim(s.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		s.Fatalf("claiming: %v, %v", err, claims)
	}
	return contract.Capability{
		OrganizationID: org, RunID: run.ID, TargetID: agent.ID, ConfigVersion: agent.Version, Fence: claims[0].Run.Fence, Kind: contract.ToolHTTPRequest,
	}
}

func (s *service) held() lease.Held {
	return lease.Held{RunID: s.claims.RunID, OrganizationID: s.claims.OrganizationID, Fence: s.claims.Fence}
}

// prepare adds a call to the ledger, or returns the existing entry.
func (s *service) prepare(callID string) domain.Effect {
	s.Helper()
	effect, held, err := s.store.Executions.PrepareEffect(s.Context(), s.held(), domain.Effect{
		CallID: callID, Name: "pay", Input: json.RawMessage(`{}`), SideEffect: domain.SideEffectUnsafe, Key: contract.EffectKey(s.claims.RunID, callID),
	}, false)
	if err != nil || !held {
		s.Fatalf("preparing %s: %v, %v", callID, held, err)
	}
	return effect
}

// call calls the tool worker in the same way as an agent worker.
func (s *service) call(callID string) (contract.ToolReply, error) {
	s.Helper()
	c := s.claims
	c.CallID, c.Expires = callID, time.Now().Add(30*time.Second).UTC()
	m := sealed(s.T, c, contract.ToolRequest{
		Operation: contract.OperationCall, CallID: callID, Name: callID, Arguments: json.RawMessage(`{}`), EffectKey: contract.EffectKey(c.RunID, callID),
	})
	var reply contract.ToolReply
	for { // fails until the worker has subscribed
		raw, err := s.caller.Call(s.Context(), c.Kind, m.Capability, m.Body, c.Expires)
		if err == bus.ErrNoToolWorker && time.Until(c.Expires) > 10*time.Second { //nolint:errorlint // it is never wrapped
			continue
		}
		if err != nil {
			return reply, err
		}
		return reply, json.Unmarshal(raw, &reply)
	}
}

func TestEffectsOnARealLedger(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	s := newService(t, backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		if r.Call.Name == "read" {
			source, err := r.Keep(ctx, domain.Source{URL: "https://example.com", Text: "What was read."})
			return tool.Result{Output: json.RawMessage(`"` + source + `"`)}, err
		}
		if err := r.Sending(ctx); err != nil {
			return tool.Result{}, err
		}
		switch r.Call.Name {
		case "refused":
			return tool.Result{}, &tool.Error{Message: "The service refused the connection.", NotSent: true}
		case "cut":
			return tool.Result{}, &tool.Error{Message: "cut"}
		case "long":
			close(entered)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}
		return tool.Result{Output: json.RawMessage(`{"text":"\u0000 ☾"}`)}, nil
	}})
	for _, c := range []struct {
		call, want string
		state      domain.EffectState // state in which the next attempt finds the effect
	}{
		{"pay", `{"text":"\u0000 ☾"}`, domain.EffectDone},
		{"pay", "stale", domain.EffectDone}, // the effect already has an outcome
		{"refused", "failed: The service refused the connection.", domain.EffectDone},
		{"cut", "unknown", domain.EffectAwaiting},
		{"long", "unknown", domain.EffectAwaiting},
	} {
		if c.want != "stale" {
			s.prepare(c.call)
		}
		if c.call == "long" {
			go func() {
				<-entered
				s.bus.Cancelled(s.claims.RunID)
			}()
		}
		reply, err := s.call(c.call)
		if err != nil || replySummary(reply) != c.want {
			t.Errorf("%s: %s, %v", c.call, replySummary(reply), err)
		}
		after := s.prepare(c.call)
		var outcome contract.ToolReply
		if after.State == domain.EffectDone {
			if err := json.Unmarshal(after.Outcome, &outcome); err != nil {
				t.Error(err)
			}
		}
		if after.State != c.state || c.want != "stale" && after.State == domain.EffectDone && replySummary(outcome) != c.want {
			t.Errorf("%s: the effect is %s: %s", c.call, after.State, after.Outcome)
		}
	}
	reply, err := s.call("read")
	source := strings.Trim(replySummary(reply), `"`)
	if kept, keptErr := s.store.Blobs.SourceByID(t.Context(), s.claims.OrganizationID, source); err != nil || keptErr != nil || kept.Text != "What was read." {
		t.Errorf("%s, %v: %+v, %v", source, err, kept, keptErr)
	}
	s.claims.Fence++ // the run has another fence, so the write is rejected
	for _, call := range []string{"read", "late"} {
		if reply, err := s.call(call); err != nil || replySummary(reply) != "stale" {
			t.Errorf("%s under another fence: %s, %v", call, replySummary(reply), err)
		}
	}
	s.claims.OrganizationID = "org_other"
	if reply, err := s.call("pay"); err != nil || !strings.HasPrefix(replySummary(reply), "again: ") {
		t.Errorf("of another organization: %s, %v", replySummary(reply), err)
	}
}
