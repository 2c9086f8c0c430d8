package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

// add invites an address to an organization. If the address belongs to a member, add changes the
// member's role.
func (w *testEnv) add(p person, org, email string, role domain.Role) answer {
	w.t.Helper()
	return w.do("POST", "/api/organizations/members", `{"email":"`+email+`","role":"`+string(role)+`"}`, p.auth, "X-Organization-Id: "+org)
}

// admit makes p a member: the person in the parameter by sends an invitation, and p accepts it
// while logged in.
func (w *testEnv) admit(by person, org string, p person, role domain.Role) {
	w.t.Helper()
	token := w.add(by, org, p.email, role).want(w.t, "inviting", 201, "").token(w.t)
	w.do("POST", "/api/auth/accept", accepting(token, ""), p.auth).want(w.t, "accepting", 201, "")
}

// token returns the token in the response's url, which is a link to accept an invitation or set a
// password.
func (a answer) token(tb testing.TB) string {
	tb.Helper()
	_, token, _ := strings.Cut(a.text(tb, "url"), "?token=")
	return token
}

func TestMembers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea, cleo, dan := w.signUp("ada@example.com"), w.signUp("bea@example.com"), w.signUp("cleo@example.com"), w.signUp("dan@example.com")
	orgKey, _ := w.key(ada, domain.KeyScopeOrganization)
	at := "X-Organization-Id: " + ada.org
	w.admit(ada, ada.org, bea, domain.RoleMember)
	w.do("GET", "/api/agents", "", bea.auth, at).want(t, "acting at once", 200, "")
	a := w.add(ada, ada.org, "BEA@example.com", domain.RoleAdmin).want(t, "another role", 200, "")
	if a.text(t, "id") != bea.id || a.text(t, "email") != bea.email || a.text(t, "role") != "admin" || a.text(t, "status") != "active" ||
		a.text(t, "name") != "bea" || a.text(t, "createdAt") == "" || a.json(t, "url") != nil {
		t.Errorf("changed %s", a.body)
	}
	w.admit(ada, ada.org, cleo, domain.RoleMember)
	invited := w.add(ada, ada.org, "new@example.com", domain.RoleMember).want(t, "an unknown address", 201, "")
	if !id.Valid(id.Invitation, invited.text(t, "id")) || invited.text(t, "status") != "invited" || invited.text(t, "expiresAt") == "" ||
		!strings.HasPrefix(invited.text(t, "url"), "http://parley.test/accept?token=pi_") {
		t.Errorf("invited %s", invited.body)
	}
	list := w.do("GET", "/api/organizations/members", "", cleo.auth, at).want(t, "a member lists", 200, "")
	for n, entry := range []string{invited.text(t, "id"), cleo.id, bea.id, ada.id} {
		if list.text(t, "data."+string(rune('0'+n))+".id") != entry {
			t.Errorf("entry %d is not %s: %s", n, entry, list.body)
		}
	}
	if all := string(list.body); strings.Contains(all, "pi_") || strings.Contains(all, "hash") || strings.Contains(all, dan.email) {
		t.Errorf("list %s", all)
	}
	first := w.do("GET", "/api/organizations/members?limit=3", "", orgKey).want(t, "first page", 200, "")
	rest := w.do("GET", "/api/organizations/members?limit=3&cursor="+first.text(t, "nextCursor"), "", orgKey).want(t, "second page", 200, "")
	if rest.text(t, "data.0.id") != ada.id || rest.json(t, "data.1") != nil || rest.json(t, "nextCursor") != nil {
		t.Errorf("pages %s and %s", first.body, rest.body)
	}
	for _, cursor := range []string{"", "x", "MS5vcmdfMQ", "YWRh"} {
		w.do("GET", "/api/organizations/members?cursor="+cursor, "", orgKey).want(t, "cursor "+cursor, 400, "invalid_request cursor:invalid_value")
	}
	for name, c := range map[string]struct {
		body, problems string
		who            []string
		status         int
	}{
		"nothing":       {`{}`, "invalid_request email:required role:required", []string{ada.auth}, 400},
		"wrong":         {`{"email":"x","role":"king"}`, "invalid_request email:invalid_value role:invalid_value", []string{ada.auth}, 400},
		"own id":        {`{"email":"x@y.z","role":"member","id":"usr_1"}`, "invalid_request id:unknown_field", []string{ada.auth}, 400},
		"by an admin":   {`{"email":"bea@example.com","role":"owner"}`, "permission_denied", []string{bea.auth, at}, 403},
		"by a member":   {`{"email":"cleo@example.com","role":"owner"}`, "permission_denied", []string{cleo.auth, at}, 403},
		"by a key":      {`{"email":"dan@example.com","role":"member"}`, "permission_denied", []string{orgKey}, 403},
		"by a stranger": {`{"email":"dan@example.com","role":"owner"}`, "permission_denied", []string{dan.auth, at}, 403},
		"by a page":     {`{"email":"dan@example.com","role":"owner"}`, "permission_denied", []string{ada.cookie, "Sec-Fetch-Site: cross-site"}, 403},
		"by nobody":     {`{"email":"dan@example.com","role":"owner"}`, "unauthenticated", nil, 401},
	} {
		w.do("POST", "/api/organizations/members", c.body, c.who...).want(t, name, c.status, c.problems)
	}
	w.do("POST", "/api/organizations/members?action=king", `{}`, ada.auth).want(t, "unknown action", 400, "invalid_request action:invalid_value")
}

func TestRemovingMembers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea, cleo, dan := w.signUp("ada@example.com"), w.signUp("bea@example.com"), w.signUp("cleo@example.com"), w.signUp("dan@example.com")
	at := "X-Organization-Id: " + ada.org
	w.admit(ada, ada.org, bea, domain.RoleAdmin)
	w.admit(ada, ada.org, cleo, domain.RoleMember)
	invited := w.add(ada, ada.org, "new@example.com", domain.RoleMember)
	foreign := w.add(dan, dan.org, "new@example.com", domain.RoleMember).text(t, "id")
	userKey, _ := w.key(bea, domain.KeyScopeUser)
	for _, c := range []struct {
		name, id, problems, who string
		status                  int
	}{
		{"admin removes member", cleo.id, "permission_denied", bea.auth, 403},
		{"member removes owner", ada.id, "permission_denied", cleo.auth, 403},
		{"admin takes back invitation", invited.text(t, "id"), "permission_denied", bea.auth, 403},
		{"admin, foreign person", dan.id, "not_found", bea.auth, 404},
		{"owner, foreign person", dan.id, "not_found", ada.auth, 404},
		{"owner, foreign invitation", foreign, "not_found", ada.auth, 404},
		{"owner, unknown person", id.New(id.User), "not_found", ada.auth, 404},
		{"owner, unknown invitation", id.New(id.Invitation), "not_found", ada.auth, 404},
		{"owner, another kind", ada.org, "not_found", ada.auth, 404},
		{"owner, malformed", "usr_x", "not_found", ada.auth, 404},
		{"last owner leaves", ada.id, "last_owner", ada.auth, 409},
		{"owner takes back invitation", invited.text(t, "id"), "", ada.auth, 200},
		{"once more", invited.text(t, "id"), "not_found", ada.auth, 404},
		{"member leaves", cleo.id, "", cleo.auth, 200},
		{"owner removes admin", bea.id, "", ada.auth, 200},
		{"once more", bea.id, "not_found", ada.auth, 404},
	} {
		a := w.do("DELETE", "/api/organizations/members?id="+c.id, "", c.who, at).want(t, c.name, c.status, c.problems)
		if c.status == 200 && string(a.body) != `{"id":"`+c.id+`","deleted":true}` {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	for name, who := range map[string]string{"session": bea.auth, "key": userKey, "member's session": cleo.auth} {
		w.do("GET", "/api/agents", "", who, at).want(t, "removed: "+name, 403, "permission_denied")
	}
	w.do("DELETE", "/api/organizations/members", "", ada.auth, at).want(t, "no id", 400, "invalid_request id:required")
	w.do("POST", "/api/auth/accept", `{"token":"`+invited.token(t)+`","password":"`+password+`"}`).want(t, "taken back", 404, "not_found")
	// A person cannot be removed from their last organization.
	w.admit(ada, ada.org, bea, domain.RoleOwner)
	w.do("DELETE", "/api/organizations/members?id="+ada.id, "", bea.auth, at).want(t, "removing from the last organization", 409, "last_organization")
	w.do("DELETE", "/api/organizations/members?id="+ada.id, "", ada.auth, at).want(t, "leaving the last organization", 409, "last_organization")
	w.add(ada, ada.org, ada.email, domain.RoleMember).want(t, "one of two owners steps down", 200, "")
	w.add(ada, ada.org, bea.email, domain.RoleMember).want(t, "and is none any more", 403, "permission_denied")
	w.add(bea, ada.org, bea.email, domain.RoleMember).want(t, "the last owner steps down", 409, "last_owner")
}

// TestOwnersAndOrganizationsAreNeverUsedUp lets all owners step down or leave at the same time. One
// owner must remain, and each person must keep an organization.
func TestOwnersAndOrganizationsAreNeverUsedUp(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	const owners = 6
	people := make([]person, owners)
	for n := range people {
		people[n] = w.signUp("p" + string(rune('0'+n)) + "@example.com")
	}
	org := people[0].org
	for _, p := range people[1:] {
		w.admit(people[0], org, p, domain.RoleOwner)
	}
	statuses := make(chan int, owners)
	all := func(f func(person) answer) (counts map[int]int) {
		var wg sync.WaitGroup
		for _, p := range people {
			wg.Go(func() { statuses <- f(p).status })
		}
		wg.Wait()
		counts = map[int]int{}
		for range people {
			counts[<-statuses]++
		}
		return counts
	}
	demoted := all(func(p person) answer { return w.add(p, org, p.email, domain.RoleMember) })
	if demoted[http.StatusOK] != owners-1 || demoted[http.StatusConflict] != 1 {
		t.Errorf("all step down concurrently: %v", demoted)
	}
	// A person is a member of two organizations, and the owners of both remove the person at the
	// same time. The person must keep an organization.
	x, y, z := w.signUp("x@example.com"), w.signUp("y@example.com"), w.signUp("z@example.com")
	w.admit(x, x.org, y, domain.RoleOwner)
	w.do("POST", "/api/organizations", `{"name":"other"}`, z.auth)
	w.admit(z, z.org, x, domain.RoleMember)
	var wg sync.WaitGroup
	for _, from := range []struct {
		by  person
		org string
	}{{y, x.org}, {z, z.org}} {
		wg.Go(func() {
			statuses <- w.do("DELETE", "/api/organizations/members?id="+x.id, "", from.by.auth, "X-Organization-Id: "+from.org).status
		})
	}
	wg.Wait()
	if a, b := <-statuses, <-statuses; a+b != http.StatusOK+http.StatusConflict {
		t.Errorf("removed from both organizations: %d and %d", a, b)
	}
	left, err := w.store.Organizations.Memberships(t.Context(), x.id)
	if err != nil || len(left) != 1 {
		t.Errorf("left in %v, %v", left, err)
	}
}
