package ingress_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/testkit"
)

// soon is the maximum time that a change may take to reach a watcher: one second, doubled for a
// busy machine.
const soon = 2 * time.Second

// quietTime is how long a test waits to see that no change is published. It is longer than the
// maximum delay of a change.
const quietTime = 1500 * time.Millisecond

// watcher is a client that reads the stream of an organization's changes.
type watcher struct {
	*follower
	heard chan string // types of the received events, in order; closed when the stream ends
}

// watch opens the stream of an organization's changes. It returns when the stream is ready.
func (r *testEnv) watch(headers head) *watcher {
	r.Helper()
	w := &watcher{r.follow("GET", r.url+"/api/events", headers, ""), make(chan string, 1024)}
	w.isStream()
	go func() {
		defer close(w.heard)
		for event := ""; ; {
			line, err := w.in.ReadString('\n')
			if err != nil { // the stream or the test has ended
				return
			}
			if event += line; line == "\n" {
				if !strings.HasPrefix(event, ":") {
					w.heard <- event
				}
				event = ""
			}
		}
	}()
	w.expect(time.Minute, "ready")
	return w
}

// expect reads one event of each kind, in any order, within the given time. It fails the test if it
// reads any other event.
func (w *watcher) expect(within time.Duration, kinds ...string) {
	w.Helper()
	late := time.After(testkit.Within(within))
	for len(kinds) > 0 {
		select {
		case got := <-w.heard:
			i := slices.IndexFunc(kinds, func(kind string) bool { return got == "event: "+kind+"\ndata: {}\n\n" })
			if i < 0 {
				w.Fatalf("the next event is %q, want %s", got, kinds)
			}
			kinds = slices.Delete(kinds, i, i+1)
		case <-late:
			w.Fatalf("no %s within %s", kinds, within)
		}
	}
}

// settle reads events until none arrives for quietTime.
func (w *watcher) settle() {
	for {
		select {
		case <-w.heard:
		case <-time.After(quietTime):
			return
		}
	}
}

// expectAfter calls the function do, and expects exactly the given kinds of events soon after the
// call.
func (w *watcher) expectAfter(do func(), kinds ...string) {
	w.Helper()
	w.settle()
	do()
	w.expect(soon, kinds...)
}

// otherOrganization signs up a user with an organization. It returns the user's headers and the
// organization's ID.
func (r *testEnv) otherOrganization(email string) (headers head, org string) {
	r.Helper()
	var account struct {
		Token        string
		Organization struct{ ID string }
	}
	r.call("POST", "/api/auth/signup", nil, `{"email":"`+email+`","password":"correct horse battery"}`).into(&account, 201)
	return head{"Authorization": "Bearer " + account.Token}, account.Organization.ID
}

func TestWatchersReceiveChangesOfRunsAndDocuments(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	grace, elsewhere := r.otherOrganization("grace@example.com")
	stranger := r.watch(grace) // grace's headers select her own organization
	var invited struct{ URL string }
	r.call("POST", "/api/organizations/members", head{"Authorization": "Bearer " + r.token}, `{"email":"grace@example.com","role":"member"}`).into(&invited, 201)
	_, token, _ := strings.Cut(invited.URL, "?token=")
	r.call("POST", "/api/auth/accept", grace, `{"token":"`+token+`"}`).want(201)
	member := r.watch(head{"Authorization": grace["Authorization"], "x-organization-id": r.org})
	f := r.watch(r.asKey())

	var runID, documentID string
	f.expectAfter(func() { runID = r.enqueued() }, "runs")
	member.expect(soon, "runs") // published although another member started the run
	h := r.take()
	h.finish("done") // publishes no change, as if the worker had died after saving the result
	runID = r.enqueued()
	f.expectAfter(func() { r.call("POST", "/api/runs?action=cancel&id="+runID, r.asKey(), "").want(200) }, "runs")
	f.expectAfter(func() {
		var doc struct{ ID string }
		r.call("POST", "/api/knowledge", r.asKey(), `{"name":"a.txt","content":"some text"}`).into(&doc, 202)
		documentID = doc.ID
	}, "documents")
	change := func(method, query, body string, status int, kinds ...string) {
		t.Helper()
		f.expectAfter(func() {
			t.Helper()
			r.call(method, "/api/knowledge?id="+documentID+query, r.asKey(), body).want(status)
		}, kinds...)
	}
	change("PUT", "", `{"metadata":{"team":"a"}}`, 200, "documents")
	change("PUT", "", `{"name":"b.txt"}`, 200, "documents")
	change("PUT", "", `{"content":"another text"}`, 202, "documents")
	change("POST", "&action=retry", "", 202, "documents")
	change("DELETE", "", "", 200, "documents", "runs")
	f.expectAfter(func() {
		r.call("DELETE", "/api/sessions?id="+h.claim.SessionID+"&agentId="+r.agent, r.asKey(), "").want(200)
	}, "runs")

	// The watcher of the other organization received no event of the first organization: the first
	// event that it receives is about this upload.
	r.call("POST", "/api/knowledge", grace, `{"name":"a.txt","content":"some text"}`).want(202)
	stranger.expect(soon, "documents")
	r.bus.Changed(domain.ChangedRuns, elsewhere)
	stranger.expect(soon, "runs")
}

func TestDecisionsAndDeletedAgentsPublishChanges(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	r.take().park("call_1", true)
	r.enqueued()
	f := r.watch(r.asKey())
	f.expectAfter(func() { r.decide(runID, "approve", "call_1") }, "runs")
	f.expectAfter(func() { r.call("DELETE", "/api/agents?id="+r.agent, r.asKey(), "").want(200) }, "runs") // cancels its queued runs
}

func TestChangeStreamsEnd(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	var key struct{ ID, Key string }
	r.call("POST", "/api/keys", r.asKey(), `{"name":"k","scope":"organization"}`).into(&key, 201)
	f := r.watch(head{"x-api-key": key.Key})
	r.call("DELETE", "/api/keys?id="+key.ID, r.asKey(), "").want(200)
	revoked := time.Now()
	if got, ok := <-f.heard; ok {
		t.Errorf("the stream of a revoked key sent %q", got)
	}
	if took := time.Since(revoked); took > testkit.Within(15*time.Second) {
		t.Errorf("the stream ended after %s", took)
	}

	url, stop := r.serve(defaults(), zerolog.Nop())
	drained := r.follow("GET", url+"/api/events", r.asKey(), "")
	if got, ok := drained.next(); !ok || got.kind != "ready" {
		t.Fatalf("a stream begins with %q", got.raw)
	}
	stop()
	if got, ok := drained.next(); ok {
		t.Errorf("a stopping service sent %q", got.raw)
	}
}

func TestChangeStreamsCountTowardsStreamLimits(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.StreamsPerCredential = 1
	r := newTestEnv(t, cfg)
	f := r.watch(r.asKey())
	refused := r.call("GET", "/api/events", r.asKey(), "")
	if p := refused.problem(http.StatusTooManyRequests); p.Code != "rate_limited" || refused.header.Get("Retry-After") == "" {
		t.Errorf("a stream over the limit: %s", refused.body)
	}
	f.leave()
	for deadline := time.Now().Add(20 * time.Second); ; { // the slot becomes free when the service notices that the stream is closed
		again := r.follow("GET", r.url+"/api/events", r.asKey(), "")
		status := again.res.StatusCode
		again.leave()
		if status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a closed stream still counts: status %d", status)
		}
	}
}
