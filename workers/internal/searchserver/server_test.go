package searchserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
	"parley/workers/internal/searchserver"
	"parley/workers/internal/signed/signedtest"
)

// searcher is a function that implements Searcher.
type searcher func(ctx context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error)

func (s searcher) Search(ctx context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error) {
	return s(ctx, org, r)
}

// service is a search server on a real bus.
type service struct {
	*testing.T
	caller *bus.ToolCaller
	log    *bytes.Buffer
}

func start(t *testing.T, slots int, s searchserver.Searcher) *service {
	t.Helper()
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	caller, err := b.NewToolCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	log := &bytes.Buffer{}
	served := &ready{Bus: b, ready: make(chan struct{})}
	server, err := searchserver.New(searchserver.Config{Concurrency: slots}, searchserver.Deps{
		Bus: served, Searcher: s, Verifier: signedtest.Signer(t), Metrics: prometheus.NewRegistry(), Log: zerolog.New(zerolog.SyncWriter(log)),
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Start(t, server.Run)
	<-served.ready
	return &service{T: t, caller: caller, log: log}
}

// ready is a bus that signals when the server has subscribed.
type ready struct {
	*bus.Bus
	ready chan struct{}
}

func (r *ready) ServeTool(
	kind string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
) (func(context.Context), error) {
	defer close(r.ready)
	return r.Bus.ServeTool(kind, cfg, handle)
}

func claims(org string) contract.SearchClaims {
	return contract.SearchClaims{OrganizationID: org, Kind: contract.KindSearch, Expires: time.Now().Add(time.Minute).UTC()}
}

// ask sends a search to the service, with claims that may be invalid.
func (s *service) ask(claims any, body string) (contract.SearchReply, error) {
	s.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		s.Fatal(err)
	}
	return s.send(signedtest.Signer(s.T).Sign(raw, []byte(body)), body)
}

func (s *service) send(token, body string) (reply contract.SearchReply, err error) {
	s.Helper()
	raw, err := s.caller.Call(s.Context(), contract.KindSearch, token, []byte(body), time.Now().Add(30*time.Second))
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		s.Fatalf("%s: %v", raw, err)
	}
	return reply, nil
}

func TestSearches(t *testing.T) {
	t.Parallel()
	s := start(t, 2, searcher(func(ctx context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("a search without an end")
		}
		switch r.Query {
		case "fail":
			return contract.SearchReply{Found: []domain.Found{{}}}, errors.New("dial 10.0.0.1: a secret")
		case "panic":
			panic("a secret")
		case "large":
			found := make([]domain.Found, 50)
			for n := range found {
				found[n] = domain.Found{Score: 1, Passage: domain.Passage{Chunk: n, Text: strings.Repeat("\x01", 10_000)}}
			}
			return contract.SearchReply{Found: found}, nil
		}
		name := fmt.Sprintf("%s %q %v %v %d", org, r.Query, r.DocumentIDs, r.Metadata, r.Limit)
		return contract.SearchReply{Found: []domain.Found{{Score: 1, Passage: domain.Passage{Name: name}}}, Without: []string{"vector"}}, nil
	}))
	for body, want := range map[string]string{
		`{"query":"a","limit":3}`:                                           `org_1 "a" [] map[] 3`,
		`{"query":"a","documentIds":["doc_1"],"metadata":{"x":"y"}}`:        `org_1 "a" [doc_1] map[x:y] 10`,
		`{"query":"a","limit":51}`:                                          `org_1 "a" [] map[] 50`,
		`{"query":"a","limit":-1,"organizationId":"org_2","org":"org_2"}`:   `org_1 "a" [] map[] 10`,
		`{"query":"a","limit":50,"whatALaterReleaseSays":{"nobody":"yet"}}`: `org_1 "a" [] map[] 50`,
	} {
		got, err := s.ask(claims("org_1"), body)
		if err != nil || got.Unavailable || len(got.Found) != 1 || got.Found[0].Name != want || strings.Join(got.Without, " ") != "vector" {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for _, query := range []string{"fail", "panic"} {
		got, err := s.ask(claims("org_1"), `{"query":"`+query+`"}`)
		if err != nil || !got.Unavailable || len(got.Found) != 0 {
			t.Errorf("%s: %+v, %v", query, got, err)
		}
	}
	if got, err := s.ask(claims("org_1"), `{"query":"large"}`); err != nil || len(got.Found) < 10 || got.Found[0].Chunk != 0 || got.Unavailable {
		t.Errorf("%d found, %v", len(got.Found), err)
	}
}

// A search is refused if it has no query, or no claims that permit searches.
func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	s := start(t, 2, searcher(func(context.Context, string, contract.SearchRequest) (contract.SearchReply, error) {
		t.Error("a refused search was executed")
		return contract.SearchReply{}, nil
	}))
	kind := claims("org_1")
	kind.Kind = contract.ToolKnowledge
	var all sync.WaitGroup
	for name, ask := range map[string]func() (contract.SearchReply, error){
		"for another kind":    func() (contract.SearchReply, error) { return s.ask(kind, `{"query":"a","limit":3}`) },
		"a body that is none": func() (contract.SearchReply, error) { return s.ask(claims("org_1"), `{"query":7}`) },
	} {
		all.Go(func() { // send the requests in parallel, because a refused search is offered to several workers for some time
			if got, err := ask(); !errors.Is(err, bus.ErrToolRefused) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		})
	}
	all.Wait()
}

// TestOneOrganizationDoesNotDelayOthers: any number of searches of one organization, of any
// duration, leave a slot for other organizations.
func TestOneOrganizationDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	hold, begun := make(chan struct{}), make(chan string, 100)
	s := start(t, 4, searcher(func(ctx context.Context, org string, _ contract.SearchRequest) (contract.SearchReply, error) {
		begun <- org
		if org == "org_flood" {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return contract.SearchReply{}, nil
	}))
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { _, _ = s.ask(claims("org_flood"), `{"query":"a"}`) })
	}
	for range 3 { // occupy three of the four slots
		if org := <-begun; org != "org_flood" {
			t.Fatal(org)
		}
	}
	if _, err := s.ask(claims("org_other"), `{"query":"a"}`); err != nil || <-begun != "org_other" {
		t.Errorf("the other waits: %v", err)
	}
	close(hold)
	all.Wait()
}

func TestLogsTellNothing(t *testing.T) {
	t.Parallel()
	s := start(t, 2, searcher(func(_ context.Context, _ string, r contract.SearchRequest) (contract.SearchReply, error) {
		if r.Limit == 1 {
			panic("about a secret")
		}
		return contract.SearchReply{}, errors.New("away")
	}))
	for limit := range 3 {
		_, _ = s.ask(claims("org_1"), fmt.Sprintf(`{"query":"a secret","limit":%d}`, limit))
	}
	_, _ = s.ask(claims(""), `{"query":"a secret"}`)
	if log := s.log.String(); strings.Contains(log, "secret") || !strings.Contains(log, "away") || !strings.Contains(log, "panicked") {
		t.Errorf("the log: %s", log)
	}
}
