package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/testkit"
)

// fixedSearch is a SearchCaller that records requests and returns a fixed reply.
type fixedSearch struct {
	reply  string
	err    error
	claims contract.SearchClaims
	asked  contract.SearchRequest
	until  time.Time
}

func (s *fixedSearch) Call(_ context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error) {
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		return nil, err
	}
	claims, err := signer.Verify(capability, body)
	if err := errors.Join(err, json.Unmarshal(claims, &s.claims), json.Unmarshal(body, &s.asked)); err != nil || kind != contract.KindSearch {
		return nil, fmt.Errorf("a call of %s: %w", kind, err)
	}
	s.until = deadline
	return []byte(s.reply), s.err
}

func TestSearch(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	away := a.newTestOrg("away")
	mine, theirs := a.document(h), a.document(away)
	for _, caller := range [][]string{{h.key}, {h.member.cookie, h.header}} {
		got := a.ok("GET", "/api/knowledge?query=first", "", caller...)
		list, _ := got.json(t, "data").([]any)
		if len(list) != 1 || got.text(t, "data.0.documentId") != mine || got.text(t, "data.0.text") != "home first" || got.json(t, "data.0.score") != 1.0 ||
			got.text(t, "data.0.name") != "home.txt" || got.json(t, "data.0.page") != 1.0 || got.json(t, "hasMore") != false || got.json(t, "without") != nil {
			t.Errorf("%s", got.body)
		}
	}
	if got := a.ok("GET", "/api/knowledge?query=away", "", h.key); string(got.body) != `{"data":[],"hasMore":false,"nextCursor":null}` {
		t.Errorf("the other organization's data: %s", got.body)
	}
	a.from("GET", "/api/knowledge?query=first&documentId="+theirs, "", h.key).want(t, "another's document", 400, "invalid_request documentId[0]:invalid_value")
}

func TestSearchRequests(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	s := &fixedSearch{reply: `{"found":[{"documentId":"` + id.New(id.Document) + `","name":"n","chunk":0,"page":null,"headings":null,"text":"t","startIndex":0,"endIndex":1,"box":null,"score":0.1,"matchedBy":null}],"without":["vector"]}`}
	a.rebuild(func(d *Deps) { d.Searches = s })
	one, two := a.document(h), a.ok("POST", "/api/knowledge", `{"name":"o","content":"another"}`, h.key).text(t, "id")
	got := a.ok("GET", "/api/knowledge?query=%C3%84%20b&limit=50&documentId="+one+"&documentId="+two+"&metadata=a:b:c&metadata=d.e:", "", h.key)
	want := contract.SearchRequest{Query: "Ä b", Limit: 50, DocumentIDs: []string{one, two}, Metadata: map[string]string{"a": "b:c", "d.e": ""}}
	if !reflect.DeepEqual(s.asked, want) {
		t.Errorf("asked for %+v, want %+v", s.asked, want)
	}
	if s.claims.OrganizationID != h.org || s.claims.Kind != contract.KindSearch || !s.claims.Expires.Equal(s.until) || time.Until(s.until) > 10*time.Second {
		t.Errorf("claims %+v until %s", s.claims, s.until)
	}
	if got.text(t, "without.0") != "vector" || fmt.Sprint(got.json(t, "data.0.headings"), got.json(t, "data.0.matchedBy")) != "[] []" {
		t.Errorf("%s", got.body)
	}
	s.asked = contract.SearchRequest{}
	if a.ok("GET", "/api/knowledge?query=a", "", h.key); s.asked.Limit != 10 || s.asked.DocumentIDs != nil || s.asked.Metadata != nil {
		t.Errorf("asked for %+v", s.asked)
	}
}

func TestFailedSearches(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	for name, s := range map[string]*fixedSearch{
		"no worker":     {err: bus.ErrNoToolWorker},
		"lost":          {err: bus.ErrToolLost},
		"refused":       {err: bus.ErrToolRefused},
		"too large":     {err: bus.ErrToolTooLarge},
		"too late":      {err: context.DeadlineExceeded},
		"not available": {reply: `{"unavailable":true}`},
	} {
		a.rebuild(func(d *Deps) { d.Searches = s })
		got := a.from("GET", "/api/knowledge?query=secretword", "", h.key).want(t, name, 503, "unavailable")
		if got.header.Get("Retry-After") != "2" {
			t.Errorf("%s: Retry-After %q", name, got.header.Get("Retry-After"))
		}
	}
	a.rebuild(func(d *Deps) { d.Searches = &fixedSearch{reply: `<`} })
	a.from("GET", "/api/knowledge?query=secretword", "", h.key).want(t, "an answer that is none", 500, "internal")
	a.logsClean("secretword")
}

// If there is no worker, the bus reports this, and the search fails immediately.
func TestSearchWithoutWorkers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	a := newRunEnvFor(t, w)
	h := a.newTestOrg("home")
	a.stopSearches()
	began := time.Now()
	a.from("GET", "/api/knowledge?query=a", "", h.key).want(t, "no worker", 503, "unavailable")
	if d := time.Since(began); d > testkit.Within(5*time.Second) {
		t.Errorf("the search took %s", d)
	}
}

// If a document is deleted, the runs that have read it are cancelled and erased, and so are the
// later runs of their sessions.
func TestDeletedDocumentsAreErasedFromRuns(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	documentID, agentID := a.document(h), a.newAgent(h)
	before := a.newChat(h, agentID, "s", h.member.auth, h.header)
	a.finish("before", before)
	informed := a.newChat(h, agentID, "s", h.member.auth, h.header)
	given, kept, err := a.store.Knowledge.GiveDocuments(t.Context(), a.claimAccepted(informed), []string{documentID})
	if err != nil || !kept || len(given) != 1 {
		t.Fatalf("%v %v %v", given, kept, err)
	}
	waiting := a.newChat(h, agentID, "s", h.member.auth, h.header)
	elsewhere := a.newChat(h, agentID, "other", h.member.auth, h.header)
	cancelled := make(chan string, 4)
	stop, err := a.bus.OnCancelled(func(runID string) { cancelled <- runID })
	must(t, err)
	defer stop()
	if got := a.ok("DELETE", "/api/knowledge?id="+documentID, "", h.key); string(got.body) != `{"id":"`+documentID+`","deleted":true}` {
		t.Errorf("%s", got.body)
	}
	for runID, status := range map[string]int{before: 200, informed: 410, waiting: 410, elsewhere: 200} {
		if got := a.from("GET", "/api/runs?id="+runID, "", h.key); got.status != status {
			t.Errorf("run %s: %d %s", runID, got.status, got.body)
		}
	}
	session := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", h.member.auth, h.header)
	list, _ := session.json(t, "messages").([]any)
	if len(list) != 2 || session.text(t, "messages.0.runId") != before {
		t.Errorf("%s", session.body)
	}
	seen := map[string]bool{}
	for range 2 {
		select {
		case runID := <-cancelled:
			seen[runID] = true
		case <-time.After(maxWait):
			t.Fatalf("cancelled were %v only", seen)
		}
	}
	if !seen[informed] || !seen[waiting] {
		t.Errorf("cancelled were %v", seen)
	}
	missing := a.from("GET", "/api/knowledge?id="+id.New(id.Document), "", h.key).shown()
	for _, query := range []string{"", "&content=1", "&page=1", "&chunk=0"} {
		if got := a.from("GET", "/api/knowledge?id="+documentID+query, "", h.key); got.shown() != missing {
			t.Errorf("%s: %s", query, got.shown())
		}
	}
	a.from("DELETE", "/api/knowledge?id="+documentID, "", h.key).want(t, "again", 404, "not_found")
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
	if got := a.ok("GET", "/api/knowledge?query=first", "", h.key); strings.Contains(string(got.body), documentID) {
		t.Errorf("%s", got.body)
	}
}
