package httpapi

import (
	"database/sql"
	"strings"
	"testing"

	"parley/shared/domain"
)

// TestLinksEndWithTheirCreatorsPermission checks that a reset link or an invitation becomes invalid
// when its creator loses the permission to create it.
func TestLinksEndWithTheirCreatorsPermission(t *testing.T) {
	t.Parallel()
	rotate := func(w *testEnv, p person, keyID string) {
		w.do("POST", "/api/keys?action=rotate&id="+keyID, `{"overlapSeconds":0}`, p.auth).want(w.t, "rotating", 201, "")
	}
	for name, c := range map[string]struct {
		byKey domain.KeyScope // scope of the API key with which bea creates the links; "": her login session
		end   func(w *testEnv, ada, bea person, keyID string)
	}{
		"demoted": {"", func(w *testEnv, ada, bea person, _ string) {
			w.add(ada, ada.org, bea.email, domain.RoleMember).want(w.t, "demoting", 200, "")
		}},
		"removed": {"", func(w *testEnv, ada, bea person, _ string) {
			w.do("DELETE", "/api/organizations/members?id="+bea.id, "", ada.auth).want(w.t, "removing", 200, "")
		}},
		"demoted, by key": {domain.KeyScopeUser, func(w *testEnv, ada, bea person, _ string) {
			w.add(ada, ada.org, bea.email, domain.RoleMember).want(w.t, "demoting", 200, "")
		}},
		"key revoked": {domain.KeyScopeUser, func(w *testEnv, _, bea person, keyID string) {
			w.do("DELETE", "/api/keys?id="+keyID, "", bea.auth).want(w.t, "revoking", 200, "")
		}},
		"key expired": {domain.KeyScopeUser, func(w *testEnv, _, _ person, keyID string) {
			w.exec(`UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1`, keyID)
		}},
		"key rotated":                {domain.KeyScopeUser, func(w *testEnv, _, bea person, keyID string) { rotate(w, bea, keyID) }},
		"organization's key rotated": {domain.KeyScopeOrganization, func(w *testEnv, ada, _ person, keyID string) { rotate(w, ada, keyID) }},
		"organization's key revoked": {domain.KeyScopeOrganization, func(w *testEnv, ada, _ person, keyID string) {
			w.do("DELETE", "/api/keys?id="+keyID, "", ada.auth).want(w.t, "revoking", 200, "")
		}},
		"nothing":         {"", nil},
		"nothing, by key": {domain.KeyScopeUser, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, manyRequests)
			ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
			w.admit(ada, ada.org, bea, domain.RoleOwner)
			cleo := w.invited(ada, ada.org, "cleo@example.com", domain.RoleMember)
			how, keyID, at := bea.auth, "", "X-Organization-Id: "+ada.org
			switch c.byKey {
			case domain.KeyScopeUser:
				how, keyID = w.key(bea, c.byKey)
			case domain.KeyScopeOrganization:
				how, keyID = w.key(ada, c.byKey)
			}
			reset := w.do("POST", "/api/organizations/members?action=reset&id="+cleo.id, "", how, at).want(t, "a reset link", 201, "").token(t)
			invitation := ""
			if c.byKey != domain.KeyScopeOrganization { // an organization's key may not invite
				body := `{"email":"new@example.com","role":"owner"}`
				invitation = w.do("POST", "/api/organizations/members", body, how, at).want(t, "an invitation", 201, "").token(t)
			}
			invitedStatus, resetStatus, problems, shown := 201, 200, "", true
			if c.end != nil {
				c.end(w, ada, bea, keyID)
				invitedStatus, resetStatus, problems, shown = 404, 404, "not_found", false
			}
			members := w.do("GET", "/api/organizations/members", "", ada.auth).want(t, "members", 200, "")
			if invitation != "" {
				if strings.Contains(string(members.body), "new@example.com") != shown {
					t.Errorf("members %s", members.body)
				}
				w.do("POST", "/api/auth/accept", accepting(invitation, withPassword)).want(t, "accepting", invitedStatus, problems)
			}
			w.do("POST", "/api/auth/reset", accepting(reset, `,"password":"`+newPassword+`"`)).want(t, "resetting", resetStatus, problems)
		})
	}
}

// TestCachedIdentitiesHaveNoLastingEffect checks callers whose cached identity is no longer valid.
// They cannot create anything that outlives the cache entry.
func TestCachedIdentitiesHaveNoLastingEffect(t *testing.T) {
	t.Parallel()
	const kept, gone, denied = "", "unauthenticated", "permission_denied"
	for name, c := range map[string]struct {
		scope      domain.KeyScope // scope of the API key that bea uses as an owner; "": a login session
		loss       string          // SQL statement of another ingress process; its $1 is the result of the function that is the field "of"
		of         func(bea person, keyID string) string
		wants, own string // expected errors of an action that requires a role, and of creating a key of one's own
	}{
		"session ended": {"", `DELETE FROM login_sessions WHERE user_id = $1`, personFor, gone, gone},
		"demoted":       {"", `UPDATE memberships SET role = 'member' WHERE user_id = $1 AND created_at > '2001-01-02'`, personFor, denied, kept},
		"user's key, revoked": {
			domain.KeyScopeUser, `UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1`, usedKey, gone, gone,
		},
		"user's key, expired": {
			domain.KeyScopeUser, `UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1`, usedKey, gone, gone,
		},
		"user's key, demoted": {
			domain.KeyScopeUser, `UPDATE memberships SET role = 'member' WHERE user_id = $1 AND created_at > '2001-01-02'`, personFor, denied, kept,
		},
		"organization's key, revoked": {
			domain.KeyScopeOrganization, `UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1`, usedKey, gone, denied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, manyRequests)
			ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
			w.admit(ada, ada.org, bea, domain.RoleOwner)
			w.exec(`UPDATE memberships SET created_at = '2001-01-01' WHERE org_id = $1`, bea.org)
			cleo := w.invited(ada, ada.org, "cleo@example.com", domain.RoleMember)
			_, another := w.key(ada, domain.KeyScopeOrganization)
			how, keyID, at := bea.auth, "", "X-Organization-Id: "+ada.org
			switch c.scope {
			case domain.KeyScopeUser:
				how, keyID = w.key(bea, c.scope)
			case domain.KeyScopeOrganization:
				how, keyID = w.key(ada, c.scope)
			}
			w.do("GET", "/api/organizations/members", "", how, at).want(t, "before", 200, "")
			w.exec(c.loss, c.of(bea, keyID))
			status := map[string]int{kept: 201, gone: 401, denied: 403}
			for act, r := range map[string]struct{ target, body string }{
				"reset":  {"/api/organizations/members?action=reset&id=" + cleo.id, ""},
				"invite": {"/api/organizations/members", `{"email":"new@example.com","role":"owner"}`},
				"key":    {"/api/keys", `{"name":"k","scope":"organization"}`},
				"rotate": {"/api/keys?action=rotate&id=" + another, ""},
			} {
				wants := c.wants
				if act == "invite" && c.scope == domain.KeyScopeOrganization { // this key acts as an admin, and admins may not invite
					wants = denied
				}
				w.do("POST", r.target, r.body, how, at).want(t, act, status[wants], wants)
			}
			w.do("POST", "/api/keys", `{"name":"k","scope":"user"}`, how, at).want(t, "own key", status[c.own], c.own)
			w.do("GET", "/api/organizations/members", "", how, at).want(t, "what was remembered all the while", 200, "")
		})
	}
}

func personFor(bea person, _ string) string { return bea.id }
func usedKey(_ person, keyID string) string { return keyID }

// TestOldPasswordsDoNotLogIn changes a password during a login, after the old password was checked
// and before the session begins.
func TestOldPasswordsDoNotLogIn(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	invitation := w.add(ada, ada.org, "bea@example.com", domain.RoleMember).token(t)
	bea := w.signUp("bea@example.com")
	login := func() answer {
		return w.do("POST", "/api/auth/login", `{"email":"bea@example.com","password":"`+password+`"}`)
	}
	accept := func() answer { return w.do("POST", "/api/auth/accept", accepting(invitation, withPassword)) }
	right := w.passwordFor(bea, "")
	for name, request := range map[string]func() answer{"login": login, "accept": accept} {
		w.passwordFor(bea, right)
		w.whileHeld(bea, request).want(t, name, 401, "unauthenticated")
	}
	w.passwordFor(bea, right)
	w.do("GET", "/api/auth/session", "", bea.auth).want(t, "session", 200, "")
	w.exec(`DELETE FROM login_sessions WHERE user_id = $1`, bea.id) // like a password reset at another ingress process
	w.do("POST", "/api/auth/accept", accepting(invitation, ""), bea.auth).want(t, "accepting in a remembered session", 401, "unauthenticated")
	login().want(t, "the password after all", 200, "")
	accept().want(t, "accepting with it", 201, "")
}

// passwordFor returns the stored hash of a person's password. If the argument hash is not empty,
// passwordFor first stores this hash.
func (w *testEnv) passwordFor(p person, hash string) string {
	w.t.Helper()
	if hash != "" {
		w.exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, p.id, hash)
	}
	_, hash, err := w.store.Accounts.UserByEmail(w.t.Context(), p.email)
	must(w.t, err)
	return hash
}

// whileHeld changes a user's password in a transaction, so that the transaction locks the row of
// the user. Then whileHeld sends a request. As soon as the request waits for this row, whileHeld
// commits the transaction.
func (w *testEnv) whileHeld(p person, request func() answer) answer {
	w.t.Helper()
	db, err := sql.Open("postgres", w.dsn)
	must(w.t, err)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(w.t.Context(), nil)
	must(w.t, err)
	_, err = tx.ExecContext(w.t.Context(), `UPDATE users SET password_hash = 'another' WHERE id = $1`, p.id)
	must(w.t, err)
	got := make(chan answer, 1)
	go func() { got <- request() }()
	for waiting := 0; waiting == 0; {
		select {
		case early := <-got:
			w.t.Fatalf("a request that does not wait: %d %s", early.status, early.body)
		default:
		}
		must(w.t, db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
	}
	must(w.t, tx.Commit())
	return <-got
}
