package httpapi

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/store/accountdb"
)

// wantQuota fails the test unless the response is the error conflict and contains the limit and the
// remedy: the name of the setting that raises the limit, or what the user can do.
func (a answer) wantQuota(tb testing.TB, what string, maximum int, remedy string) {
	tb.Helper()
	a.want(tb, what, 409, "conflict")
	if detail := a.text(tb, "detail"); !strings.Contains(detail, "("+strconv.Itoa(maximum)+")") || !strings.Contains(detail, remedy) {
		tb.Errorf("%s: %s", what, detail)
	}
}

func TestKeysAreLimited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.store.Accounts.LimitAccounts(accountdb.Limits{KeysPerOrganization: 2, KeysPerUser: 2})
	ada, victim := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	for scope, remedy := range map[domain.KeyScope]string{domain.KeyScopeOrganization: "KEYS_PER_ORGANIZATION", domain.KeyScopeUser: "revoke keys"} {
		body := `{"name":"one more","scope":"` + string(scope) + `"}`
		_, first := w.key(ada, scope)
		_, second := w.key(ada, scope)
		w.do("POST", "/api/keys", body, ada.auth).wantQuota(t, string(scope), 2, remedy)
		rotate := func(overlap string) answer {
			return w.do("POST", "/api/keys?action=rotate&id="+second, `{"overlapSeconds":`+overlap+`}`, ada.auth)
		}
		rotate("60").wantQuota(t, "rotating with an overlap", 2, remedy)
		rotate("0").want(t, "rotating without one", 201, "")
		w.do("DELETE", "/api/keys?id="+first, "", ada.auth).want(t, "revoking", 200, "")
		w.do("POST", "/api/keys", body, ada.auth).want(t, "in the place of a revoked one", 201, "")
		w.key(victim, scope)
	}
}

func TestOrganizationsAreLimited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.store.Accounts.LimitAccounts(accountdb.Limits{OrganizationsPerUser: 2, MembershipsPerUser: 3})
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	create := func(by person) answer { return w.do("POST", "/api/organizations", `{"name":"another"}`, by.auth) }
	create(ada).want(t, "a second one", 201, "")
	create(ada).wantQuota(t, "a third one", 2, "ORGANIZATIONS_PER_USER")
	create(bea).want(t, "somebody else's", 201, "")

	// Cleo belongs to three organizations: her own, Ada's and Bea's.
	link := w.do("POST", "/api/organizations/members", `{"email":"cleo@example.com","role":"member"}`, ada.auth).want(t, "inviting", 201, "").text(t, "url")
	_, token, _ := strings.Cut(link, "token=")
	cleo := w.signUp("cleo@example.com")
	w.join(cleo, bea.org, domain.RoleMember)
	w.exec(`INSERT INTO organizations (id, name) VALUES ('org_third', 'third')`)
	w.join(cleo, "org_third", domain.RoleMember)
	create(cleo).wantQuota(t, "an organization of one's own beside three", 3, "leave an organization")
	accept := func() answer { return w.do("POST", "/api/auth/accept", `{"token":"`+token+`"}`, cleo.auth) }
	accept().wantQuota(t, "a fourth membership", 3, "leave an organization")
	must(t, w.store.Accounts.ProveAddress(t.Context(), cleo.id))
	invitation := w.do("GET", "/api/auth/invitations", "", cleo.auth).want(t, "invitations", 200, "").text(t, "data.0.id")
	w.do("GET", "/api/auth/invitations?id="+invitation, "", cleo.auth).want(t, "the invitation", 200, "")
	w.do("POST", "/api/auth/invitations?id="+invitation+"&action=accept", "", cleo.auth).wantQuota(t, "a fourth membership", 3, "leave an organization")
	w.do("DELETE", "/api/organizations/members?id="+cleo.id, "", cleo.auth, "X-Organization-Id: "+bea.org).want(t, "leaving one", 200, "")
	accept().want(t, "the invitation still holds", 201, "")
}

// Only a limited number of accounts per hour may be created from one client address. All accounts
// count, whether created through the API, on the page or with an invitation. Other addresses are
// not affected.
func TestSignupsAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	link := w.do("POST", "/api/organizations/members", `{"email":"eve@example.com","role":"member"}`, ada.auth).want(t, "inviting", 201, "").text(t, "url")
	_, token, _ := strings.Cut(link, "token=")
	w.rebuild(func(d *Deps) { d.SignupsPerAddress = 3 })
	send := func(client, target, media, body string) answer {
		req := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(body))
		req.Header.Set("Content-Type", media)
		return w.send(at(req, client))
	}
	signUp := func(client, name string) answer {
		return send(client, "/api/auth/signup", "application/json", `{"email":"`+name+`@example.com","password":"`+password+`"}`)
	}
	const attacker, victim, network = "198.51.100.1", "203.0.113.1", "2001:db8:1:2::"
	signUp(attacker, "a").want(t, "first", 201, "")
	signUp(attacker, "b").want(t, "second", 201, "")
	signUp(attacker, "a").want(t, "an address that is taken counts", 409, "email_taken")
	signUp(attacker, "not an").want(t, "a bad body does not", 400, "invalid_request email:invalid_value")
	got := signUp(attacker, "c").want(t, "one more", 429, "rate_limited")
	if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 3500 || seconds > 3600 {
		t.Errorf("headers %v", got.header)
	}
	if page := send(attacker, "/signup", "application/x-www-form-urlencoded", "email=d%40example.com&password=long+enough+one"); page.status != 429 {
		t.Errorf("on the page: %d %s", page.status, page.body)
	}
	send(attacker, "/api/auth/accept", "application/json", `{"token":"`+token+`","password":"`+password+`"}`).want(t, "by an invitation", 429, "rate_limited")
	for n := range 3 {
		signUp(network+strconv.Itoa(n), "six"+strconv.Itoa(n)).want(t, "an IPv6 client", 201, "")
	}
	signUp(network+"ffff", "six").want(t, "the same /64", 429, "rate_limited")
	signUp(victim, "victim").want(t, "from another address", 201, "")
	send(victim, "/api/auth/accept", "application/json", `{"token":"`+token+`","password":"`+password+`"}`).want(t, "the invitation still holds", 201, "")
}

// The number of event streams of a client address is limited, even if a proxy reports the address.
func TestStreamsAreBoundedByForwardedAddress(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	a.api.ConnectionsPerAddress = 2
	const attacker, victim = "198.51.100.1", "203.0.113.1"
	for range 2 {
		if !a.api.TakeStream(stream.Limit{Name: "address:" + attacker, Max: 2}) {
			t.Fatal("no seat")
		}
	}
	watch := func(client string) answer {
		return a.send(at(with(httptest.NewRequestWithContext(t.Context(), "GET", "/api/events", nil), h.key), client))
	}
	watch(attacker).want(t, "one more of the address", 429, "rate_limited")
	watch(victim).want(t, "of another address", 200, "")
}
