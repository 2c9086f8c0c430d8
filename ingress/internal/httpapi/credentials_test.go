package httpapi

import (
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
)

// credential is one way to authenticate a request, with the expected effect.
type credential struct {
	name    string
	headers []string

	refused string   // error on routes that check credentials, such as "401 unauthenticated"; "": none, the credential is valid
	harmful bool     // whether the credential is malformed, so that even routes that ignore credentials reject it
	via     string   // kind of the credential if it is valid: "", login, org key, user key, demo
	who     person   // the owner
	testOrg *testOrg // organization in which the credential acts
	role    domain.Role

	demo      bool // the request has the demo header
	elsewhere bool // whether the request names no organization or an organization of other people; public routes ignore this
	ambient   bool // whether there is only a cookie or no credential; a write must then not come from a page of another origin
	page      string
}

// plain returns headers that authenticate the credential's principal in a request from a program. A
// program sends a login token in a header and not in a cookie.
func (c *credential) plain() []string {
	if c.via == "login" {
		return []string{c.who.auth, c.testOrg.header}
	}
	return c.headers
}

// Origins in the requests of browsers.
const (
	ownPage     = "own"
	foreignPage = "foreign"
)

const sayDemo = "X-Tenant-Id: tenant_demo"

// orgPair contains two organizations, their credentials and their resources.
type orgPair struct {
	*runEnv
	home, away *testOrg
	other      person // member of home; the member's resources do not belong to the callers
}

func newOrgPair(tb testing.TB, a *runEnv) *orgPair {
	tb.Helper()
	a.api.notifications.MaxEndpoints, a.api.hooks.MaxHooks = 1<<30, 1<<30
	s := &orgPair{runEnv: a, home: a.newTestOrg("home"), away: a.newTestOrg("away")}
	s.other = a.person("other")
	a.enter(s.other, s.home.org, domain.RoleMember)
	return s
}

// credentials returns all kinds of credentials.
func (s *orgPair) credentials() []credential {
	return append(append(append(append(s.good(), s.bad()...), s.malformed()...), s.mixed()...), s.visiting()...)
}

func login(name string, p person, h *testOrg, role domain.Role, headers ...string) credential {
	return credential{name: name, headers: headers, via: "login", who: p, testOrg: h, role: role}
}

func fromCookie(c credential) credential {
	c.ambient = true
	return c
}

func withDemo(c credential) credential {
	c.name, c.demo = "demo and "+c.name, true
	c.headers = append([]string{sayDemo}, c.headers...)
	return c
}

func orgKey(name string, h *testOrg, headers ...string) credential {
	return credential{name: name, headers: headers, via: "org key", who: h.owner, testOrg: h, role: domain.RoleAdmin}
}

func userKey(name string, p person, h *testOrg, role domain.Role, headers ...string) credential {
	return credential{name: name, headers: headers, via: "user key", who: p, testOrg: h, role: role}
}

func refused(name, problem string, headers ...string) credential {
	return credential{name: name, headers: headers, refused: problem}
}

// bearer converts a header with an API key to the form in which OpenAI's clients send the key.
func bearer(key string) string {
	return strings.Replace(key, "X-Api-Key: ", "Authorization: Bearer ", 1)
}

func (s *orgPair) good() []credential {
	h, o := s.home, s.away
	return []credential{
		{name: "nothing", ambient: true},
		fromCookie(login("owner's cookie", h.owner, h, domain.RoleOwner, h.owner.cookie)),
		fromCookie(login("admin's cookie", h.admin, h, domain.RoleAdmin, h.admin.cookie, h.header)),
		fromCookie(login("member's cookie", h.member, h, domain.RoleMember, h.member.cookie, h.header)),
		login("owner's bearer", h.owner, h, domain.RoleOwner, h.owner.auth),
		login("admin's bearer", h.admin, h, domain.RoleAdmin, h.admin.auth),
		login("member's bearer, lower case", h.member, h, domain.RoleMember, strings.Replace(h.member.auth, "Bearer", "bearer", 1)),
		orgKey("organization's key", h, h.key),
		orgKey("organization's key as bearer", h, bearer(h.key)),
		orgKey("organization's key with its organization", h, h.key, h.header),
		userKey("owner's key", h.owner, h, domain.RoleOwner, h.ownerKey, h.header),
		userKey("admin's key", h.admin, h, domain.RoleAdmin, h.adminKey, h.header),
		userKey("member's key as bearer", h.member, h, domain.RoleMember, bearer(h.memberKey), h.header),
		{name: "demo", headers: []string{sayDemo}, via: "demo", demo: true, ambient: true},

		orgKey("another organization's key", o, o.key),
		login("another organization's owner", o.owner, o, domain.RoleOwner, o.owner.auth),
		fromCookie(login("another organization's member", o.member, o, domain.RoleMember, o.member.cookie)),
	}
}

// bad returns well-formed credentials that are not valid, or not valid for the organization that
// the request names.
func (s *orgPair) bad() []credential {
	h := s.home
	revoked, revokedID := s.newKey(h, h.owner, domain.KeyScopeOrganization)
	s.ok("DELETE", "/api/keys?id="+revokedID, "", h.owner.auth)
	expired, expiredID := s.newKey(h, h.owner, domain.KeyScopeOrganization)
	s.exec(`UPDATE api_keys SET expires_at = $2 WHERE id = $1`, expiredID, time.Now().Add(-time.Second))
	ended := s.loginAgain(h.owner)
	s.ok("POST", "/api/auth/logout", "", ended.auth)
	over := s.loginAgain(h.owner)
	s.exec(`UPDATE login_sessions SET expires_at = $2 WHERE token_hash = sha256($1)`, []byte(over.token), time.Now().Add(-time.Second))

	const no = "401 unauthenticated"
	list := []credential{
		refused("revoked key", no, revoked), refused("expired key", no, expired), refused("unknown key", no, unknownKey()),
		refused("malformed key", no, "X-Api-Key: ak_1"), refused("no key at all", no, "X-Api-Key: secret"),
		refused("wrong checksum", no, h.key[:len(h.key)-1]+otherThan(h.key[len(h.key)-1])),
		refused("key of another case", no, "X-Api-Key: "+strings.ToUpper(h.key[len("X-Api-Key: "):])),
		refused("key and more", no, h.key+"0"), refused("session token as key", no, "X-Api-Key: "+h.owner.token),
		refused("revoked key as bearer", no, bearer(revoked)), refused("malformed key as bearer", no, "Authorization: Bearer ak_1"),
		refused("ended session", no, ended.auth), refused("session that is over", no, over.auth),
		refused("unknown session", no, "Authorization: Bearer ps_"+strings.Repeat("a", 32)), refused("malformed session", no, "Authorization: Bearer x"),
		refused("ended session's cookie", no, ended.cookie),
		refused("malformed cookie", no, "Cookie: parley_session=x"), refused("key as cookie", no, "Cookie: parley_session="+h.key[11:]),
	}
	for i := range list {
		list[i].via = "login"
		if strings.Contains(list[i].name, "key") && !strings.Contains(list[i].name, "cookie") || strings.Contains(list[i].name, "checksum") {
			list[i].via = "org key"
		}
	}
	elsewhere := []credential{
		refused("organization's key, foreign organization", "403 organization_mismatch", h.key, s.away.header),
		refused("organization's key, no such organization", "403 organization_mismatch", h.key, "X-Organization-Id: org_1"),
		refused("user's key alone", "400 organization_required", h.ownerKey),
		refused("user's key, foreign organization", "403 permission_denied", h.ownerKey, s.away.header),
		refused("user's key, no such organization", "403 permission_denied", h.ownerKey, "X-Organization-Id: org_1"),
		refused("bearer, foreign organization", "403 permission_denied", h.owner.auth, s.away.header),
		refused("cookie, foreign organization", "403 permission_denied", h.owner.cookie, s.away.header),
	}
	for i := range elsewhere {
		elsewhere[i].elsewhere, elsewhere[i].via = true, "user key"
		if i >= 5 {
			elsewhere[i].via = "login"
		}
	}
	return append(list, elsewhere...)
}

func otherThan(c byte) string {
	if c == '0' {
		return "1"
	}
	return "0"
}

// malformed returns headers that different parsers may interpret differently.
func (s *orgPair) malformed() []credential {
	h := s.home
	key := h.key[len("X-Api-Key: "):]
	var list []credential
	add := func(name string, headers ...string) {
		list = append(list, credential{name: name, headers: headers, refused: "400 invalid_request", harmful: true})
	}
	for header, value := range map[string]string{
		"X-Api-Key": key, "X-Tenant-Id": "tenant_demo", "X-Organization-Id": h.org, "Authorization": "Bearer " + h.owner.token,
	} {
		add("empty "+header, header+": ")
		add("doubled "+header, header+": "+value, header+": "+value)
		add("comma-joined "+header, header+": "+value+","+value)
		add("comma behind "+header, header+": "+value+",")
		add("white space in "+header, header+": "+value+" x")
		add("white space as "+header, header+":  ")
		add("tab in "+header, header+": "+value+"\tx")
		add("other characters in "+header, header+": "+value+"\u00e9")
		if header == "X-Tenant-Id" || header == "X-Organization-Id" {
			add("good key and doubled "+header, h.key, header+": "+value, header+": "+value)
		}
	}
	add("bearer without token", "Authorization: Bearer ")
	add("scheme without token", "Authorization: Bearer")
	add("two spaces", "Authorization: Bearer  "+h.owner.token)
	add("wrong tenant", "X-Tenant-Id: tenant_other")
	add("tenant of another case", "X-Tenant-Id: TENANT_DEMO")
	add("wrong tenant and good key", "X-Tenant-Id: "+h.org, h.key)
	for i := range list {
		list[i].demo = strings.Contains(strings.Join(list[i].headers, " "), "tenant_demo")
	}
	list = append(list, credential{
		name: "other scheme", headers: []string{"Authorization: Basic " + h.owner.token}, refused: "401 unauthenticated", harmful: true,
	})
	for _, headers := range [][]string{
		{h.key, h.owner.auth}, {h.key, bearer(unknownKey())}, {h.key, "Authorization: "}, {unknownKey(), h.owner.auth}, {h.key, h.owner.auth, h.owner.auth},
	} {
		list = append(list, credential{
			name: "two credentials: " + strings.Join(headers[1:], ", "), headers: headers, refused: "400 conflicting_credentials", harmful: true,
		})
	}
	cookies := []credential{
		refused("two cookies", "400 invalid_request", h.owner.cookie+"; parley_session="+s.away.owner.token),
		refused("two headers of cookies", "400 invalid_request", h.owner.cookie, s.away.owner.cookie),
		refused("empty cookie", "400 invalid_request", "Cookie: parley_session="),
	}
	for i := range cookies {
		cookies[i].via = "malformed cookie"
	}
	return append(list, cookies...)
}

// mixed returns combinations of several credentials in one request. The expected results show which
// credential of a combination is used.
func (s *orgPair) mixed() []credential {
	h, o := s.home, s.away
	owner := login("owner's cookie", h.owner, h, domain.RoleOwner, h.owner.cookie)
	list := []credential{
		orgKey("key beside a cookie", h, h.member.cookie, h.key),
		orgKey("key beside a foreign cookie", h, o.owner.cookie, h.key),
		orgKey("key beside a broken cookie", h, "Cookie: parley_session=x", h.key),
		login("bearer beside a foreign cookie", h.member, h, domain.RoleMember, o.owner.cookie, h.member.auth),
		refused("broken key beside a cookie", "401 unauthenticated", h.owner.cookie, "X-Api-Key: ak_1"),
		refused("broken bearer beside a cookie", "401 unauthenticated", h.owner.cookie, "Authorization: Bearer x"),

		withDemo(orgKey("key", h, h.key)),
		withDemo(login("bearer", h.member, h, domain.RoleMember, h.member.auth)),
		withDemo(fromCookie(owner)),
		withDemo(refused("invalid key", "401 unauthenticated", "X-Api-Key: ak_1")),
		withDemo(refused("unknown key", "401 unauthenticated", unknownKey())),
		withDemo(refused("invalid bearer", "401 unauthenticated", "Authorization: Bearer x")),
		withDemo(refused("invalid cookie", "401 unauthenticated", "Cookie: parley_session=x")),
	}
	for i := range list {
		if strings.Contains(list[i].name, "broken key") || strings.Contains(list[i].name, "valid key") || strings.Contains(list[i].name, "unknown key") {
			list[i].via = "org key"
		} else if list[i].via == "" {
			list[i].via = "login"
		}
	}
	foreign := []string{"Origin: https://evil.test", "Sec-Fetch-Site: cross-site"}
	for name, page := range map[string][]string{
		ownPage:     {"Origin: http://parley.test", "Sec-Fetch-Site: same-origin"},
		foreignPage: foreign, foreignPage + " (old browser)": foreign[:1], foreignPage + " (no origin)": foreign[1:],
		foreignPage + " (sandboxed)": {"Origin: null"}, foreignPage + " (sibling)": {"Origin: https://x.parley.test", "Sec-Fetch-Site: same-site"},
	} {
		for _, c := range []credential{
			{name: "nothing", ambient: true},
			{name: "demo", headers: []string{sayDemo}, via: "demo", demo: true, ambient: true},
			fromCookie(owner),
			orgKey("key", h, h.key),
			login("bearer", h.owner, h, domain.RoleOwner, h.owner.auth),
		} {
			c.page, _, _ = strings.Cut(name, " ")
			c.name, c.headers = c.name+" from "+name+" page", append(append([]string{}, c.headers...), page...)
			list = append(list, c)
		}
	}
	return list
}
