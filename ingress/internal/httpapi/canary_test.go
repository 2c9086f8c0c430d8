package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit"
)

const (
	attackRequests = 10_000
	attackers      = 4 // number of concurrent requests
)

// filledOrg is an organization that has resources of every kind, with their ids.
type filledOrg struct {
	*testOrg
	mu  sync.Mutex
	ids map[string][]string // by kind
}

func (f *filledOrg) add(kind string, ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids[kind] = append(f.ids[kind], ids...)
}

func (f *filledOrg) pick(r *mathrand.Rand, kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list := f.ids[kind]; len(list) > 0 {
		return list[r.IntN(len(list))]
	}
	return id.New("x")
}

// fill creates a filledOrg. All of its texts contain the argument word, which occurs in no other
// organization.
func (a *runEnv) fill(word string) *filledOrg {
	a.t.Helper()
	h := a.newTestOrg(word)
	f := &filledOrg{testOrg: h, ids: map[string][]string{"org": {h.org}, "usr": {h.owner.id, h.admin.id, h.member.id}, "tpl": {"tpl_support"}, "session": {"shared"}}}
	callers := [][]string{{h.owner.auth}, {h.member.auth, h.header}, {h.key}, {h.memberKey, h.header}}
	for n := range 4 {
		agentID := a.newAgent(h)
		f.add("ag", agentID)
		f.add("vag", a.newVoiceAgent(h))
		for _, caller := range callers {
			f.add("run", a.newChat(h, agentID, word+"-session", caller...), a.newChat(h, agentID, "shared", caller...))
		}
		f.add("run", a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","idempotencyKey":"`+word+a.fresh()+`",
			"input":{"message":"`+word+`","more":{"`+word+`":"`+word+`"}},"sessionId":"`+word+strconv.Itoa(n)+`"}`,
			h.key, "Prefer: respond-async", "X-Automation-Id: "+word).text(a.t, "id"))
		for _, scope := range []domain.KeyScope{domain.KeyScopeOrganization, domain.KeyScopeUser} {
			_, keyID := a.newKey(h, h.owner, scope)
			f.add("key", keyID)
		}
	}
	f.add("run", a.ok("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"shared","message":"`+word+`"}`, h.member.auth,
		"Prefer: respond-async").text(a.t, "id"))
	a.finish(word+" answer", f.ids["run"][:24]...)
	for n, caller := range callers {
		fresh := func() string { return a.newChat(h, f.ids["ag"][n], word+a.fresh(), caller...) }
		asked, unsure, calls := fresh(), fresh(), fresh()
		a.park(asked, word, domain.ActionApproval)
		a.park(unsure, word, domain.ActionUnknownOutcome)
		a.park(calls, word, domain.ActionClientTools)
		f.add("run", asked, unsure, calls)
		f.add("asked", asked)
		f.add("unsure", unsure)
		f.add("calls", calls)
		f.add("src", a.saveSource(fresh(), word, word+" text "+a.fresh()))
		f.add("file", a.file(fresh(), word))
		f.add("up", a.upload("?name="+word+".txt", "text/plain", word+" upload "+a.fresh(), caller...))
		f.add("doc", a.document(h))
		f.add("bud", a.budget(h))
	}
	return f
}

// attack sends random requests for resources of one organization, with credentials of another
// organization. The field on is the attacked organization. The field by is the other organization.
type attack struct {
	*runEnv
	by, on  *filledOrg
	callers [][]string
	routes  []accessRow

	mu    sync.Mutex
	leaks []string
	codes map[int]int
}

func (a *runEnv) newAttack(by, on *filledOrg) *attack {
	at := &attack{runEnv: a, by: by, on: on, codes: map[int]int{}}
	at.callers = [][]string{
		{by.owner.cookie},
		{by.owner.auth},
		{by.admin.auth, by.header},
		{by.member.auth, by.header},
		{by.key},
		{by.key, by.header},
		{by.ownerKey, by.header},
		{by.adminKey, by.header},
		{by.memberKey, by.header},
		{bearer(by.key)},
		{sayDemo},
		{sayDemo, by.key},
		{},
		{by.owner.auth, on.header},
		{by.key, on.header},
		{by.ownerKey, on.header},
		{sayDemo, on.header},
		{by.member.cookie, by.memberKey, on.header},
	}
	for _, r := range accessTable {
		if r.who != forAnyone && r.who != forLink && r.who != forSession { // these accept any credential, or end needed login sessions
			at.routes = append(at.routes, r)
		}
	}
	return at
}

// anyID returns an id. Most of the ids that it returns have the given kind and belong to the
// attacked organization.
func (at *attack) anyID(r *mathrand.Rand, kind string) string {
	if r.IntN(8) == 0 {
		kind = []string{"ag", "run", "key", "org", "usr", "tpl", "session", "asked", "unsure", "calls", "src", "file", "up", "doc", "bud"}[r.IntN(15)]
	}
	if r.IntN(3) == 0 {
		return at.by.pick(r, kind)
	}
	return at.on.pick(r, kind)
}

// idParams maps query parameters to the kinds of ids that they accept.
var idParams = map[string]string{
	"id": "ag", "agentId": "ag", "templateId": "tpl", "template": "tpl", "runId": "run", "organizationId": "org", "principal": "usr", "userId": "usr",
	"sessionId": "session", "org_id": "org", "keyId": "key", "sourceId": "src", "fileId": "file", "documentId": "doc", "toolCallId": "run",
}

// words lists query parameters with values.
var words = []string{
	"limit=100", "limit=1", "wait=0", "stream=1", "status=completed", "status=queued", "q=%25", "q=a", "everywhere=1", "content=1", "page=1", "chunk=0", "query=a", "metadata=team:a",
	"action=cancel", "action=chat", "action=approve", "action=abandon", "action=tool-results", "action=import-openapi", "toolCallId=call_1", "status=requires_action", "action=reset", "action=rotate", "automationId=nightly", "toolCallId=1",
}

// generate returns a random request, based on a random row of the access table.
func (at *attack) generate(r *mathrand.Rand) (method, target, body string, headers []string) {
	row := at.routes[r.IntN(len(at.routes))]
	fill := func(s string) string {
		s = strings.NewReplacer("$word", "attack", "$fresh", "attack"+at.fresh(), "$email", "attack"+at.fresh()+"@example.com").Replace(s)
		return placeholder.ReplaceAllStringFunc(s, func(kind string) string { return at.anyID(r, kind[1:]) })
	}
	query := fill(row.query)
	spiced := r.IntN(4) == 0 // adds unknown parameters, which are rejected before any data is read
	for name, kind := range idParams {
		if spiced && r.IntN(6) == 0 {
			query += "&" + name + "=" + url.QueryEscape(at.anyID(r, kind))
		}
	}
	if r.IntN(8) == 0 {
		query += "&" + words[r.IntN(len(words))]
	}
	if body = fill(row.body); body != "" && r.IntN(5) == 0 {
		for name, kind := range idParams {
			if r.IntN(4) == 0 {
				body = `{"` + name + `":"` + at.anyID(r, kind) + `",` + body[1:]
			}
		}
	}
	headers = slices.Clone(at.callers[r.IntN(len(at.callers))])
	for _, h := range []string{
		"Idempotency-Key: shared", "Prefer: wait=0", "Prefer: respond-async", "Accept: text/event-stream", "Last-Event-ID: 0.1",
		"X-Automation-Id: nightly", "Origin: http://parley.test", at.by.header, at.on.header,
	} {
		if r.IntN(16) == 0 {
			headers = append(headers, h)
		}
	}
	if row.inPath() {
		named, rest, _ := strings.Cut(query, "&")
		return row.method, row.at(named) + "?" + rest, body, headers
	}
	return row.method, row.path + "?" + strings.TrimPrefix(query, "&"), body, headers
}

// one sends request number n of the attack and checks the response.
func (at *attack) one(seed, n uint64) {
	r := mathrand.New(mathrand.NewPCG(seed, n)) // the same seed gives the same requests
	method, target, body, headers := at.generate(r)
	got := at.sendAndCancel(method, target, body, headers)
	at.mu.Lock()
	at.codes[got.status]++
	at.mu.Unlock()
	var shown bytes.Buffer
	_ = got.header.Write(&shown) // writing to a buffer cannot fail
	shown.Write(got.body)
	// Other requests may be deleting the same document, or may keep the database busy.
	busy := got.status == 503 && (strings.Contains(shown.String(), "the document is being deleted") || strings.Contains(shown.String(), `"unavailable"`))
	if strings.Contains(strings.ToLower(shown.String()), at.on.word) || got.status >= 500 && !busy {
		at.mu.Lock()
		at.leaks = append(at.leaks, fmt.Sprintf("request %d of seed %d: %s %s %s %q\n%d %s", n, seed, method, target, body, headers, got.status, &shown))
		at.mu.Unlock()
	}
	if got.status == 201 && body != "" {
		if made := got.text(at.t, "id"); made != "" {
			kind, _, _ := strings.Cut(made, "_")
			at.by.add(kind, made)
		}
	}
}

// sendAndCancel sends a request and cancels it after a moment. Otherwise the stream of a run would
// never end, because there is no worker.
func (at *attack) sendAndCancel(method, target, body string, headers []string) answer {
	limit := time.Minute
	if method == "GET" && strings.HasPrefix(target, "/api/runs?") && strings.Contains(target, "stream=") ||
		strings.Contains(target, "action=chat") && slices.Contains(headers, "Accept: text/event-stream") {
		limit = 50 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(at.t.Context()) // net/http cancels the context when a client disconnects
	defer cancel()
	defer time.AfterFunc(limit, cancel).Stop()
	req := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	req.RemoteAddr = "10.0.0.1:1"
	n := at.next.Add(1)
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.%d.%d.%d", n>>16&255, n>>8&255, n&255))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	got := at.send(req)
	if ctx.Err() != nil && got.status == 503 {
		got.status = 0 // cancelled before the response began
	}
	return got
}

// run sends the requests with the numbers from, from+1, …, to-1. Several of these requests are in
// progress at the same time.
func (at *attack) run(seed, from, to uint64) {
	numbers := make(chan uint64)
	var wg sync.WaitGroup
	for range attackers {
		wg.Go(func() {
			for n := range numbers {
				at.one(seed, n)
			}
		})
	}
	for n := from; n < to; n++ {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
}

// storedRows returns all stored rows of an organization, by table.
func (a *runEnv) storedRows(f *filledOrg) map[string]string {
	a.t.Helper()
	rows, err := a.sql.QueryContext(a.t.Context(), `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND (column_name IN ('org_id', 'user_id') OR (table_name, column_name) IN (('organizations', 'id'), ('users', 'id')))`)
	must(a.t, err)
	defer func() { _ = rows.Close() }()
	wheres := map[string][]string{}
	for rows.Next() {
		var table, column string
		must(a.t, rows.Scan(&table, &column))
		if column == "org_id" || table == "organizations" {
			wheres[table] = append(wheres[table], column+" = $1")
		} else {
			wheres[table] = append(wheres[table], column+" = ANY ($2)")
		}
	}
	must(a.t, rows.Err())
	out := map[string]string{}
	for table, where := range wheres {
		var content string
		// Omit the column last_used_at, because it is written with a delay.
		must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT coalesce(string_agg((to_jsonb(t) - 'last_used_at')::text, E'\n' ORDER BY to_jsonb(t)::text), '')
			FROM `+table+` t WHERE ($1 <> '' AND cardinality($2::text[]) > 0) AND (`+strings.Join(where, " OR ")+`)`,
			f.org, pq.Array([]string{f.owner.id, f.admin.id, f.member.id})).Scan(&content))
		out[table] = content
	}
	return out
}

// wantUnchanged fails the test if data of the organization has changed.
func (a *runEnv) wantUnchanged(f *filledOrg, before map[string]string) {
	a.t.Helper()
	for table, now := range a.storedRows(f) {
		if now != before[table] {
			a.t.Errorf("%s of %s changed:\n%s\nbefore:\n%s", table, f.word, now, before[table])
		}
	}
}

func canary(testOrg string) string { return "canary" + testOrg + strings.ToLower(rand.Text()[:12]) }

// crossTenant lets two organizations attack each other.
func crossTenant(t *testing.T, a *runEnv, requests uint64) {
	t.Helper()
	one, other := a.fill(canary("a")), a.fill(canary("b"))
	switch {
	case underRace:
		requests /= 5
	case testing.Short(): // the seed differs each time, so that several short runs send different requests
		requests /= 4
	}
	seed := testkit.Seed(t)
	for n, at := range []*attack{a.newAttack(other, one), a.newAttack(one, other)} {
		before, mark := a.storedRows(at.on), len(a.log.String())
		if before["runs"] == "" || before["agents"] == "" || before["memberships"] == "" || before["effects"] == "" || before["sources"] == "" ||
			before["files"] == "" || before["blob_chunks"] == "" {
			t.Fatalf("%s has no data that could be changed: %v", at.on.word, before)
		}
		at.run(seed, uint64(n)*requests/2, uint64(n+1)*requests/2)
		for i, leak := range at.leaks {
			if i < 10 {
				t.Errorf("a canary of %s, or an error of the service's: %s", at.on.word, leak)
			}
		}
		if log := a.log.String()[mark:]; strings.Contains(log, at.on.word) {
			t.Errorf("a canary in the log: %s", around(log, at.on.word))
		}
		a.wantUnchanged(at.on, before)
		a.logsClean(at.on.word+" ", at.on.word+"-owner@")
		t.Logf("%d requests; statuses %v; %d leaks", requests/2, at.codes, len(at.leaks))
		if at.codes[200]+at.codes[201]+at.codes[202] < int(requests)/20 || at.codes[404] < int(requests)/20 {
			t.Errorf("too few requests reached the data: %v", at.codes)
		}
		if at.codes[503] > int(requests)/20 {
			t.Errorf("too many requests were not answered: %v", at.codes)
		}
	}
}

// around returns the line of the text that contains the argument word.
func around(text, word string) string {
	at := strings.Index(text, word)
	start := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	return line
}

// Two organizations attack each other with ten thousand requests, or a quarter of them with -short.
// Neither sees or changes the data
// of the other.
func TestCanaries(t *testing.T) {
	t.Parallel()
	crossTenant(t, newRunEnv(t), attackRequests)
}

// The results are the same if the store's SQL statements lack their condition on the organization,
// because row-level security alone suffices.
func TestCanariesOverASabotagedStore(t *testing.T) {
	t.Parallel()
	a, by := newSabotaged(t)
	crossTenant(t, a, attackRequests/5)
	if by.Conditions() < 10 {
		t.Errorf("%d conditions were forgotten", by.Conditions())
	}
}

// This test checks the tests above. It sends the requests with a key of the attacked organization,
// which may read and change that organization's data. The leaks and the changes must be detected.
func TestCanariesAreNoticed(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	on, by := a.fill(canary("a")), a.fill(canary("b"))
	at := a.newAttack(by, on)
	at.callers = [][]string{{on.key}}
	before := a.storedRows(on)
	at.run(1, 0, 300)
	if len(at.leaks) < 30 {
		t.Errorf("%d leaks were detected although access was permitted: %v", len(at.leaks), at.codes)
	}
	if after := a.storedRows(on); after["agents"] == before["agents"] || after["runs"] == before["runs"] {
		t.Error("changes of agents and runs were not detected although they were permitted")
	}
}
