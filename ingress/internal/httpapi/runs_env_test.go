package httpapi

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/changes"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/testkit"
)

// runEnv is an environment in which runs are accepted and finished. Requests do not wait for runs:
// if the run has not finished, the response is 202.
type runEnv struct {
	*testEnv
	sql  *sql.DB // a superuser's connection, to which row-level security does not apply
	bus  *bus.Bus
	nats string // URL of the environment's NATS server
	next atomic.Int64

	inboxes sync.Map // inboxes of the requests that wait for runs, by run ID; see startWorker

	stopSearches func() // stops the worker that responds to document searches
}

// unlimited contains rate limits that no test reaches.
var unlimited = ratelimit.Settings{
	Demo: 1_000_000, User: 100_000_000, System: 200_000_000,
	Widget: ratelimit.Widget{Visitor: 100_000_000, Address: 100_000_000, Agent: 100_000_000},
}

func newRunEnv(tb testing.TB) *runEnv {
	tb.Helper()
	return newRunEnvFor(tb, newTestEnv(tb, unlimited))
}

// newSabotaged returns an environment whose store is sabotaged: the SQL statements and the database
// functions of the store lack the condition on the organization.
func newSabotaged(tb testing.TB) (*runEnv, *testkit.Sabotage) {
	tb.Helper()
	dsn := testkit.Postgres(tb)
	super, err := sql.Open("postgres", dsn)
	must(tb, err)
	testkit.SabotageFunctions(tb, super)
	must(tb, super.Close())
	connector, err := pg.Connector(dsn)
	must(tb, err)
	by := testkit.Sabotaged(connector)
	s := store.On(by, 8)
	tb.Cleanup(func() { _ = s.Close() })
	return newRunEnvFor(tb, newTestEnvOver(tb, dsn, s, unlimited)), by
}

// newRunEnvFor adds a dispatcher to a testEnv.
func newRunEnvFor(tb testing.TB, w *testEnv) *runEnv {
	tb.Helper()
	nats := testkit.NATS(tb)
	b, err := bus.Dial(nats, "test", zerolog.Nop())
	must(tb, err)
	tb.Cleanup(b.Close)
	_, err = b.EnsureStream(tb.Context())
	must(tb, err)
	must(tb, w.store.Queue.AnnounceSlots(tb.Context(), "worker", 64, time.Hour))
	d := dispatch.New(dispatch.Config{BacklogMax: 1_000_000}, w.store, b, zerolog.Nop())
	hub := stream.New(w.store.Executions, b.NewWatch(), zerolog.Nop())
	var wg sync.WaitGroup
	left := newReaders(b, d, hub)
	for _, run := range []func(context.Context) error{d.Run, hub.Run, left.Run} {
		wg.Go(func() {
			if err := run(tb.Context()); err != nil {
				tb.Errorf("dispatcher or streams ended with %v", err)
			}
		})
	}
	tb.Cleanup(wg.Wait)
	watch := changes.New(b.NewChangeWatch(), zerolog.Nop())
	watch.Drain() // ends streams of changes, which otherwise never end, because the client of a recorder does not disconnect
	d.Drain()     // requests that wait for a run then get a response immediately
	hub.Drain()
	w.notifyRecorder.next = b
	searches, err := b.NewToolCaller()
	must(tb, err)
	w.rebuild(func(to *Deps) {
		to.Changes, to.Dispatch, to.Streams, to.Searches, to.Readers = watch, d, hub, searches, left
		to.StreamLimits = httpx.StreamLimits{StreamsPerCredential: 1000, StreamsPerOrganization: 1000}
		to.VoicePerOrganization, to.FileLinkTTL = 1000, 24*time.Hour
		to.RunDeadline, to.RetentionDefault = time.Minute, 24*time.Hour
	})
	super, err := sql.Open("postgres", w.dsn)
	must(tb, err)
	super.SetMaxIdleConns(2)
	tb.Cleanup(func() { _ = super.Close() })
	a := &runEnv{testEnv: w, sql: super, bus: b, nats: nats}
	a.answerSearches()
	a.answerChecks()
	a.answerEmbeddings()
	return a
}

// newReaders returns the watch with which an ingress process detects runs that have lost all
// readers.
func newReaders(b *bus.Bus, d *dispatch.Dispatcher, hub *stream.Hub) *readers.Watch {
	reads := func(runID string) bool { return d.Awaited(runID) || hub.Reads(runID) }
	return readers.New(b.NewInbox(), b, dispatch.ReadRuns{Dispatcher: d}, reads, zerolog.Nop())
}

// fresh returns a word that is different at every call.
func (a *runEnv) fresh() string { return "n" + strconv.FormatInt(a.next.Add(1), 10) }

// exec runs a statement as a superuser.
func (a *runEnv) exec(query string, args ...any) {
	a.t.Helper()
	_, err := a.sql.ExecContext(a.t.Context(), query, args...)
	must(a.t, err)
}

// from sends a request from a new client address. Tests with many requests therefore do not reach
// the limits per address.
func (a *runEnv) from(method, target, body string, headers ...string) answer {
	a.t.Helper()
	n := a.next.Add(1)
	headers = append(headers, "X-Forwarded-For: 198."+strconv.Itoa(int(n>>16&255))+"."+strconv.Itoa(int(n>>8&255))+"."+strconv.Itoa(int(n&255)))
	req := httptest.NewRequestWithContext(a.t.Context(), method, target, strings.NewReader(body))
	req.RemoteAddr = "10.0.0.1:1"
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			req.Header.Del(name)
		}
		req.Header.Add(name, value)
	}
	return a.send(req)
}

// ok works like from, and fails the test if the request does not succeed.
func (a *runEnv) ok(method, target, body string, headers ...string) answer {
	a.t.Helper()
	got := a.from(method, target, body, headers...)
	if got.status/100 != 2 {
		a.t.Fatalf("%s %s: %d %s", method, target, got.status, got.body)
	}
	return got
}

// finish finishes accepted runs with an answer, like a worker.
func (a *runEnv) finish(answerText string, runIDs ...string) {
	a.t.Helper()
	for _, runID := range runIDs {
		claim := a.claim(a.t, runID)
		if claim.Run == nil {
			continue
		}
		run := claim.Run.Run()
		run.Message, run.Output = &answerText, &domain.Output{Message: answerText}
		run.End(domain.RunCompleted, nil, domain.At(claim.Run.Now), claim.Run.RetentionSecs)
		outcome, err := executiondb.NewOutcome(claim.Run.Held(), run)
		must(a.t, err)
		outcome.EndN = 3 // the last event follows the message
		_, err = a.store.Executions.Finish(a.t.Context(), []executiondb.Outcome{outcome})
		must(a.t, err)
	}
}

// claim claims a run for execution. If another transaction has locked the run, claim waits for that
// transaction.
func (a *runEnv) claim(tb testing.TB, runID string) executiondb.Claim {
	tb.Helper()
	for {
		claims, err := a.store.Executions.Claim(tb.Context(), []string{runID})
		must(tb, err)
		if !claims[0].Locked {
			return claims[0]
		}
	}
}

// claimAccepted claims an accepted run, like a worker.
func (a *runEnv) claimAccepted(runID string) lease.Held {
	a.t.Helper()
	claim := a.claim(a.t, runID)
	if claim.Run == nil {
		a.t.Fatalf("run %s cannot be claimed: %+v", runID, claim)
	}
	return claim.Run.Held()
}

// park parks an accepted run, like a worker, until a person decides about the run's tool call
// call_1. The argument kind says why the run waits, for example for an approval of the call. The
// name and the input of the call contain the argument word.
func (a *runEnv) park(runID, word string, kind domain.ActionKind) {
	a.t.Helper()
	ctx, held := a.t.Context(), a.claimAccepted(runID)
	effect := domain.Effect{
		CallID: "call_1", Name: word, Input: json.RawMessage(`{"` + word + `":"` + word + `"}`), SideEffect: domain.SideEffectUnsafe, Key: "key " + runID,
	}
	_, kept, err := a.store.Executions.PrepareEffect(ctx, held, effect, kind != domain.ActionUnknownOutcome)
	must(a.t, err)
	if kind == domain.ActionUnknownOutcome {
		_, err = a.store.Executions.BeginSend(ctx, held, effect.CallID, "sender")
		must(a.t, err)
	}
	action := domain.RequiredAction{Kind: kind, ToolCallID: effect.CallID, Name: word, Input: effect.Input}
	if kind == domain.ActionClientTools {
		action = domain.RequiredAction{Kind: kind, Calls: []domain.ClientCall{{ToolCallID: effect.CallID, Name: word, Input: effect.Input}}}
	}
	parked, err := a.store.Executions.Park(ctx, held, action, executiondb.Chunk{})
	must(a.t, err)
	if !kept || !parked.Parked || parked.Action.Kind != kind {
		a.t.Fatalf("run %s cannot be parked: %v, %+v", runID, kept, parked)
	}
}

// saveSource executes an accepted run until it stores the text of a page that it has read. It
// returns the id of the stored text.
func (a *runEnv) saveSource(runID, word, text string) string {
	a.t.Helper()
	held := a.claimAccepted(runID)
	sourceID, kept, err := a.store.Blobs.KeepSource(a.t.Context(), held,
		domain.Source{URL: "https://" + word + ".example.com/", Title: word + " page", Language: "en", Text: text, Truncated: true})
	must(a.t, err)
	if !kept {
		a.t.Fatalf("run %s cannot keep what it has read", runID)
	}
	return sourceID
}

// testOrg is an organization with its members and API keys.
type testOrg struct {
	org, word            string // word occurs in every text that the organization's people write
	owner, admin, member person
	key                  string // headers that authenticate with API keys
	keyID                string // id of key
	ownerKey             string
	adminKey             string
	memberKey            string
	header               string // header that names the organization
}

// newTestOrg creates an organization. All of its texts contain the argument word.
func (a *runEnv) newTestOrg(word string) *testOrg {
	a.t.Helper()
	h := &testOrg{word: word, owner: a.person(word + "-owner")}
	h.org, h.header = h.owner.org, "X-Organization-Id: "+h.owner.org
	a.exec(`UPDATE organizations SET name = $2 WHERE id = $1`, h.org, word+" organization")
	h.admin, h.member = a.person(word+"-admin"), a.person(word+"-member")
	a.enter(h.admin, h.org, domain.RoleAdmin)
	a.enter(h.member, h.org, domain.RoleMember)
	h.key, h.keyID = a.newKey(h, h.owner, domain.KeyScopeOrganization)
	h.ownerKey, _ = a.newKey(h, h.owner, domain.KeyScopeUser)
	h.adminKey, _ = a.newKey(h, h.admin, domain.KeyScopeUser)
	h.memberKey, _ = a.newKey(h, h.member, domain.KeyScopeUser)
	return h
}

// person signs up a person and proves their email address.
func (a *runEnv) person(name string) person {
	a.t.Helper()
	email := name + "-" + a.fresh() + "@example.com"
	got := a.ok("POST", "/api/auth/signup", `{"email":"`+email+`","password":"`+password+`","name":"`+name+`"}`)
	p := person{id: got.text(a.t, "user.id"), org: got.text(a.t, "organization.id"), email: email}
	p.carry(got.text(a.t, "token"))
	must(a.t, a.store.Accounts.ProveAddress(a.t.Context(), p.id))
	return p
}

func (p *person) carry(token string) {
	p.token, p.auth, p.cookie = token, "Authorization: Bearer "+token, "Cookie: parley_session="+token
}

// enter makes p a member of an organization. From then on, p's requests act in this organization.
func (a *runEnv) enter(p person, org string, role domain.Role) {
	a.t.Helper()
	a.exec(`INSERT INTO memberships (org_id, user_id, role, created_at) VALUES ($1, $2, $3, '2001-01-01')`, org, p.id, role)
	a.api.Auth.ForgetToken(p.token)
}

// loginAgain returns a further login session of p without checking a password, which would be slow.
func (a *runEnv) loginAgain(p person) person {
	a.t.Helper()
	p.carry(secrets.NewSessionToken())
	a.exec(`INSERT INTO login_sessions (id, token_hash, user_id, expires_at) VALUES ($1, $2, $3, $4)`,
		id.New(id.Login), secrets.Hash(p.token), p.id, time.Now().Add(time.Hour))
	return p
}

func (a *runEnv) newKey(h *testOrg, p person, scope domain.KeyScope) (header, keyID string) {
	a.t.Helper()
	got := a.ok("POST", "/api/keys", `{"name":"`+h.word+` key","scope":"`+string(scope)+`"}`, p.auth, h.header)
	return "X-Api-Key: " + got.text(a.t, "key"), got.text(a.t, "id")
}

func (a *runEnv) newAgent(h *testOrg) string {
	a.t.Helper()
	return a.ok("POST", "/api/agents", `{"name":"`+h.word+` agent","description":"`+h.word+`","systemPrompt":"`+h.word+` prompt",`+
		`"allowedCallers":["user","system"],"tools":{"httpRequest":{"enabled":true,"endpoints":[{"name":"call","method":"GET",`+
		`"url":"https://`+h.word+`.example.com/","headers":{"authorization":"`+h.word+` secret"}}]}}}`, h.owner.auth, h.header).text(a.t, "id")
}

// newChat sends a chat message to an agent and returns the id of the new run. No worker executes
// the run.
func (a *runEnv) newChat(h *testOrg, agentID, sessionID string, headers ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"`+sessionID+`","message":"`+h.word+` message"}`,
		append(headers, "Prefer: respond-async", "Idempotency-Key: "+h.word+a.fresh())...).text(a.t, "id")
}

// newLoneMember creates a person and returns the person's id. The person is a member of the
// organization h and of no other organization, and has never logged in. The account looks as if an
// invitation had created it.
func (a *runEnv) newLoneMember(h *testOrg) string {
	a.t.Helper()
	userID := id.New(id.User)
	a.exec(`INSERT INTO users (id, email, name, invited_to) VALUES ($1, $2, 'lone', $3)`, userID, a.fresh()+"@lone.example.com", h.org)
	a.exec(`INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, 'member')`, h.org, userID)
	return userID
}

// newMember creates a person and returns the person's id. The person is a member of the
// organization h and also has a separate organization.
func (a *runEnv) newMember(h *testOrg) string {
	a.t.Helper()
	userID, org := a.newLoneMember(h), id.New(id.Organization)
	a.exec(`INSERT INTO organizations (id, name) VALUES ($1, 'own')`, org)
	a.exec(`INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, 'owner')`, org, userID)
	return userID
}

// invite creates an invitation. It returns the invitation's id and the token of its link.
func (a *runEnv) invite(h *testOrg) (invitationID, token string) {
	a.t.Helper()
	got := a.ok("POST", "/api/organizations/members", `{"email":"`+a.fresh()+`@invited.example.com","role":"member"}`, h.owner.auth, h.header)
	return got.text(a.t, "id"), tokenFor(got.text(a.t, "url"))
}

// inviteTo creates an organization whose name is the argument word, and invites a person to this
// organization. It returns the invitation's id.
func (a *runEnv) inviteTo(p person, word string) string {
	a.t.Helper()
	org, invitationID := id.New(id.Organization), id.New(id.Invitation)
	a.exec(`INSERT INTO organizations (id, name) VALUES ($1, $2)`, org, word)
	a.exec(`INSERT INTO invitations (id, org_id, email, role, token_hash, made_by, expires_at)
		VALUES ($1, $2, $3, 'member', $4, '', clock_timestamp() + interval '1 hour')`, invitationID, org, p.email, secrets.Hash(invitationID))
	return invitationID
}

// resetToken creates a link with which a member sets a new password. It returns the token.
func (a *runEnv) resetToken(h *testOrg) string {
	a.t.Helper()
	return tokenFor(a.ok("POST", "/api/organizations/members?action=reset&id="+a.newLoneMember(h), "", h.owner.auth, h.header).text(a.t, "url"))
}

func tokenFor(link string) string {
	_, token, _ := strings.Cut(link, "?token=")
	return token
}

// unknownKey returns a well-formed API key that was never created.
func unknownKey() string { return "X-Api-Key: " + secrets.NewAPIKey().Key }
