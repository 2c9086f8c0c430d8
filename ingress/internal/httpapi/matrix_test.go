package httpapi

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
)

// outcome returns the result of the row's request with a credential, as the access table defines
// it: "ok", or the status and code of an error.
func (r *accessRow) outcome(c *credential) string {
	role := domain.Role(r.role)
	switch {
	case r.who == forSystem && c.page != "":
		return "403 server_to_server_only"
	case c.harmful:
		return c.refused
	case r.who == forVoice:
		return c.voiceOutcome()
	case (r.who == forAnyone || r.who == forLink || r.who == forPage) && c.demo:
		return "403 demo_restricted"
	case c.via == "widget" && r.who != forKey && (r.who != forSystem || c.refused != ""):
		return c.visitorsOutcome(r)
	case r.who == forPage:
		return c.pagesOutcome()
	case (r.who == forAnyone || r.who == forLink) && c.page == foreignPage && r.changes():
		return "403 permission_denied"
	case r.who == forAnyone, r.who == forLink, r.who == forPublic && (c.refused == "" || c.elsewhere):
		return "ok"
	case (r.who == forSystem || r.who == forKey) && (c.via == "" || c.via == "login" || c.via == "widget"):
		return "401 api_key_required"
	case c.refused != "":
		return c.refused
	case c.via == "demo" && c.page == foreignPage && strings.HasPrefix(r.query, "action=chat"):
		return "403 permission_denied" // whatever agent or template the chat names
	case c.via == "demo" && r.who != forDemo:
		return "403 demo_restricted"
	case c.via == "":
		return "401 unauthenticated"
	case r.changes() && c.ambient && c.page == foreignPage,
		r.who == forSession && c.via != "login", r.who == forPerson && c.via == "org key":
		return "403 permission_denied"
	case c.via != "demo" && !r.late && !c.role.AtLeast(role):
		return "403 permission_denied"
	}
	return "ok"
}

// target is an id and the expected result of a request for it.
type target struct{ name, id, outcome string }

// idKind describes the ids of one kind.
type idKind struct {
	prefix string
	own    func(s *orgPair, c *credential) string // returns a new id that belongs to the caller
	others func(s *orgPair) string                // returns an id that belongs to another member of home
	open   domain.Role                            // minimum role that may use the ids of other members; "": no role may
	gone   func(s *orgPair, h *testOrg) string    // returns the id of a deleted resource
	bearer bool                                   // whether the id is a token that any person may use
}

var idKinds = map[string]idKind{
	"ag": {
		prefix: id.Agent,
		own:    func(s *orgPair, c *credential) string { return s.newAgent(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			agentID := s.newAgent(h)
			s.ok("DELETE", "/api/agents?id="+agentID, "", h.owner.auth)
			return agentID
		},
	},
	// Ids of agents with an enabled widget.
	"wag": {
		prefix: id.Agent,
		own:    func(s *orgPair, c *credential) string { return s.newWidgetAgent(c.testOrgOr(s.home), widgetPage) },
		gone: func(s *orgPair, h *testOrg) string {
			agentID := s.newWidgetAgent(h, widgetPage)
			s.ok("DELETE", "/api/agents?id="+agentID, "", h.owner.auth)
			return agentID
		},
	},
	// Ids of agents with voice.
	"vag": {
		prefix: id.Agent,
		own:    func(s *orgPair, c *credential) string { return s.newVoiceAgent(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			agentID := s.newVoiceAgent(h)
			s.ok("DELETE", "/api/agents?id="+agentID, "", h.owner.auth)
			return agentID
		},
	},
	"run": {
		prefix: id.Run,
		own: func(s *orgPair, c *credential) string {
			return s.newChat(c.testOrg, s.newAgent(c.testOrg), "s", c.plain()...)
		},
		others: func(s *orgPair) string {
			return s.newChat(s.home, s.newAgent(s.home), "s", s.other.auth, s.home.header)
		},
		open: domain.RoleAdmin,
	},
	// Ids of the responses of chat runs in OpenAI's API.
	"resp": {
		prefix: openaiapi.ResponsePrefix,
		own: func(s *orgPair, c *credential) string {
			return openaiapi.ResponseID(s.newChat(c.testOrg, s.newAgent(c.testOrg), "s", c.plain()...))
		},
		others: func(s *orgPair) string {
			return openaiapi.ResponseID(s.newChat(s.home, s.newAgent(s.home), "s", s.other.auth, s.home.header))
		},
		open: domain.RoleAdmin,
	},
	"key": {
		prefix: id.Key,
		own: func(s *orgPair, c *credential) string {
			scope := "user"
			if c.via == "org key" {
				scope = "organization"
			}
			return s.ok("POST", "/api/keys", `{"name":"k","scope":"`+scope+`"}`, c.plain()...).text(s.t, "id")
		},
		others: func(s *orgPair) string { _, keyID := s.newKey(s.home, s.other, domain.KeyScopeUser); return keyID },
		gone: func(s *orgPair, h *testOrg) string {
			_, keyID := s.newKey(h, h.owner, domain.KeyScopeOrganization)
			s.ok("DELETE", "/api/keys?id="+keyID, "", h.owner.auth)
			return keyID
		},
	},
	"tpl": {prefix: id.Template, own: func(*orgPair, *credential) string { return "tpl_support" }},
	"org": {prefix: id.Organization, own: func(_ *orgPair, c *credential) string { return c.testOrg.org }},
	"usr": {
		prefix: id.User,
		own:    func(s *orgPair, c *credential) string { return s.newMember(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			userID := s.newMember(h)
			s.ok("DELETE", "/api/organizations/members?id="+userID, "", h.owner.auth, h.header)
			return userID
		},
	},
	"lone": {prefix: id.User, own: func(s *orgPair, c *credential) string { return s.newLoneMember(c.testOrg) }},
	"inv": {
		prefix: id.Invitation,
		own:    func(s *orgPair, c *credential) string { invitationID, _ := s.invite(c.testOrg); return invitationID },
		gone: func(s *orgPair, h *testOrg) string {
			invitationID, _ := s.invite(h)
			s.ok("DELETE", "/api/organizations/members?id="+invitationID, "", h.owner.auth, h.header)
			return invitationID
		},
	},
	// Ids of invitations to the caller's email address.
	"mine": {
		prefix: id.Invitation,
		own:    func(s *orgPair, c *credential) string { return s.inviteTo(c.who, c.testOrg.word) },
		others: func(s *orgPair) string { return s.inviteTo(s.other, s.home.word) },
		gone: func(s *orgPair, h *testOrg) string {
			invitationID := s.inviteTo(h.owner, h.word)
			s.ok("POST", "/api/auth/invitations?action=decline&id="+invitationID, "", h.owner.auth, h.header)
			return invitationID
		},
	},
	"ls": {
		prefix: id.Login,
		own:    func(s *orgPair, c *credential) string { return s.newLogin(c.who) },
		others: func(s *orgPair) string { return s.newLogin(s.other) },
		gone: func(s *orgPair, h *testOrg) string {
			loginID := s.newLogin(h.owner)
			s.ok("DELETE", "/api/auth/sessions?id="+loginID, "", h.owner.auth)
			return loginID
		},
	},
	"pi": {
		prefix: "pi", bearer: true,
		own: func(s *orgPair, c *credential) string { _, token := s.invite(c.testOrgOr(s.home)); return token },
		gone: func(s *orgPair, h *testOrg) string {
			_, token := s.invite(h)
			s.ok("POST", "/api/auth/accept", `{"token":"`+token+`","password":"long enough"}`)
			return token
		},
	},
	"pr": {
		prefix: "pr", bearer: true,
		own: func(s *orgPair, c *credential) string { return s.resetToken(c.testOrgOr(s.home)) },
		gone: func(s *orgPair, h *testOrg) string {
			token := s.resetToken(h)
			s.ok("POST", "/api/auth/reset", `{"token":"`+token+`","password":"long enough"}`)
			return token
		},
	},
	// Ids of agents that have a session "s".
	"at": {
		prefix: id.Agent,
		own:    func(s *orgPair, c *credential) string { return s.chatted(c.testOrg, c.plain()...) },
		others: func(s *orgPair) string { return s.chatted(s.home, s.other.auth, s.home.header) },
		gone: func(s *orgPair, h *testOrg) string {
			agentID := s.chatted(h, h.owner.auth)
			s.ok("DELETE", "/api/sessions?id=s&agentId="+agentID, "", h.owner.auth)
			return agentID
		},
	},
	// Ids of sessions with a template.
	"named": {
		prefix: "session",
		own:    func(s *orgPair, c *credential) string { return s.named(c.plain()...) },
		others: func(s *orgPair) string { return s.named(s.other.auth, s.home.header) },
		gone:   (*orgPair).endedSession,
	},
	// Ids of sessions with a template, for queries that do not name the template. With such an id,
	// admins may also read the sessions of other members.
	"alone": {
		prefix: "session",
		own:    func(s *orgPair, c *credential) string { return s.named(c.plain()...) },
		others: func(s *orgPair) string { return s.named(s.other.auth, s.home.header) },
		open:   domain.RoleAdmin,
		gone:   (*orgPair).endedSession,
	},
	// Names of automations that were triggered.
	"auto": {
		prefix: "automation",
		own:    func(s *orgPair, c *credential) string { return s.triggered(c.testOrg) },
	},
	// Ids of deliveries to a hook.
	"dlv": {
		prefix: "delivery",
		own:    func(s *orgPair, c *credential) string { _, deliveryID := s.delivered(c.testOrg); return deliveryID },
		gone: func(s *orgPair, h *testOrg) string {
			hookID, deliveryID := s.delivered(h)
			s.ok("DELETE", "/api/hooks?id="+hookID, "", h.owner.auth, h.header)
			return deliveryID
		},
	},
	// Ids of runs that wait for an approval, and of runs that wait for a person to report the
	// outcome of a call.
	"asked":  parkedKind(domain.ActionApproval),
	"unsure": parkedKind(domain.ActionUnknownOutcome),
	// Ids of runs that wait until the client sends the results of tool calls.
	"calls": parkedKind(domain.ActionClientTools),
	// Ids of texts that a run has read. Every member of the organization may read them.
	"src": {
		prefix: "src",
		own:    func(s *orgPair, c *credential) string { return s.read(c.testOrg, c.plain()...) },
		others: func(s *orgPair) string { return s.read(s.home, s.other.auth, s.home.header) },
		open:   domain.RoleMember,
		gone: func(s *orgPair, h *testOrg) string {
			agentID, text := s.newAgent(h), h.word+s.fresh()
			sourceID := s.saveSource(s.newChat(h, agentID, "s", h.owner.auth), h.word, text)
			s.ok("DELETE", "/api/sessions?id=s&agentId="+agentID, "", h.owner.auth)
			return sourceID
		},
	},
	// Ids of files that a run has created. Callers who may read the run may read its files.
	"file": {
		prefix: id.File,
		own:    func(s *orgPair, c *credential) string { return s.made(c.testOrg, c.plain()...) },
		others: func(s *orgPair) string { return s.made(s.home, s.other.auth, s.home.header) },
		open:   domain.RoleAdmin,
		gone: func(s *orgPair, h *testOrg) string {
			agentID := s.newAgent(h)
			fileID := s.file(s.newChat(h, agentID, "s", h.owner.auth), h.word)
			s.ok("DELETE", "/api/sessions?id=s&agentId="+agentID, "", h.owner.auth)
			return fileID
		},
	},
	"up": uploadKind,
	// Ids of processed documents.
	"doc": {
		prefix: id.Document,
		own:    func(s *orgPair, c *credential) string { return s.document(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			documentID := s.document(h)
			s.ok("DELETE", "/api/knowledge?id="+documentID, "", h.owner.auth, h.header)
			return documentID
		},
	},
	"bud": {
		prefix: id.Budget,
		own:    func(s *orgPair, c *credential) string { return s.budget(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			budgetID := s.budget(h)
			s.ok("DELETE", "/api/budgets?id="+budgetID, "", h.owner.auth, h.header)
			return budgetID
		},
	},
	// Ids of hooks that have accepted the delivery d1.
	"hook": {
		prefix: id.Hook,
		own:    func(s *orgPair, c *credential) string { return s.newHookWithDelivery(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			hookID := s.newHookWithDelivery(h)
			s.ok("DELETE", "/api/hooks?id="+hookID, "", h.owner.auth, h.header)
			return hookID
		},
	},
	// Ids of notification endpoints.
	"ntf": {
		prefix: id.Endpoint,
		own:    func(s *orgPair, c *credential) string { return s.endpoint(c.testOrg) },
		gone: func(s *orgPair, h *testOrg) string {
			endpointID := s.endpoint(h)
			s.ok("DELETE", "/api/notifications?id="+endpointID, "", h.owner.auth, h.header)
			return endpointID
		},
	},
	// Ids of notifications.
	"evt": {
		prefix: id.Notification,
		own:    func(s *orgPair, c *credential) string { return s.ping(c.testOrg, s.endpoint(c.testOrg)) },
		gone: func(s *orgPair, h *testOrg) string {
			endpointID := s.endpoint(h)
			messageID := s.ping(h, endpointID)
			s.ok("DELETE", "/api/notifications?id="+endpointID, "", h.owner.auth, h.header)
			return messageID
		},
	},
	// Ids of finished runs.
	"ended": {
		prefix: id.Run,
		own:    func(s *orgPair, c *credential) string { return s.ended(c.testOrg, c.plain()...) },
		others: func(s *orgPair) string { return s.ended(s.home, s.other.auth, s.home.header) },
		open:   domain.RoleAdmin,
	},
}

func parkedKind(kind domain.ActionKind) idKind {
	parked := func(s *orgPair, h *testOrg, headers ...string) string {
		runID := s.newChat(h, s.newAgent(h), "s", headers...)
		s.park(runID, h.word, kind)
		return runID
	}
	return idKind{
		prefix: id.Run,
		own:    func(s *orgPair, c *credential) string { return parked(s, c.testOrg, c.plain()...) },
		others: func(s *orgPair) string { return parked(s, s.home, s.other.auth, s.home.header) },
		open:   domain.RoleAdmin,
	}
}

// delivered returns a hook and the id of one of its deliveries. No other hook has a delivery with
// this id.
func (s *orgPair) delivered(h *testOrg) (hookID, deliveryID string) {
	hookID, deliveryID = s.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`), s.fresh()
	s.deliver(hookID, "hmac", deliveryID, "", `{"a":"`+h.word+`"}`).want(s.t, "delivering", 202, "")
	return hookID, deliveryID
}

// endpoint creates a notification endpoint.
func (s *orgPair) endpoint(h *testOrg) string {
	body := `{"url":"https://` + h.word + `.example.com/","description":"` + h.word + `","events":["run.failed"]}`
	return s.ok("POST", "/api/notifications", body, h.owner.auth, h.header).text(s.t, "id")
}

// ping queues a test notification.
func (s *orgPair) ping(h *testOrg, endpointID string) string {
	return s.ok("POST", "/api/notifications?action=test&id="+endpointID, "", h.owner.auth, h.header).text(s.t, "id")
}

// read returns the id of a text that a run of h has read.
func (s *orgPair) read(h *testOrg, headers ...string) string {
	return s.saveSource(s.newChat(h, s.newAgent(h), "s", headers...), h.word, h.word+s.fresh())
}

// made returns the id of a file that a run of h has created.
func (s *orgPair) made(h *testOrg, headers ...string) string {
	return s.file(s.newChat(h, s.newAgent(h), "s", headers...), h.word)
}

// newLogin returns the id of a new login session of p. It reads the id from the database, because
// concurrent tests may add newer sessions to the list.
func (s *orgPair) newLogin(p person) (loginID string) {
	s.t.Helper()
	hash := secrets.Hash(s.loginAgain(p).token)
	must(s.t, s.sql.QueryRowContext(s.t.Context(), `SELECT id FROM login_sessions WHERE token_hash = $1`, hash).Scan(&loginID))
	return loginID
}

// chatted returns an agent of h that has a session "s".
func (s *orgPair) chatted(h *testOrg, headers ...string) string {
	agentID := s.newAgent(h)
	s.newChat(h, agentID, "s", headers...)
	return agentID
}

// named starts a new session with a template and returns the id of the session.
func (s *orgPair) named(headers ...string) string {
	name := s.fresh()
	s.ok("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"`+name+`","message":"m"}`, append(headers, "Prefer: respond-async")...)
	return name
}

// endedSession returns the id of a session with a template that its owner has erased.
func (s *orgPair) endedSession(h *testOrg) string {
	name := s.named(h.owner.auth)
	s.ok("DELETE", "/api/sessions?templateId=tpl_support&id="+name, "", h.owner.auth)
	return name
}

// triggered returns the name of an automation that h has triggered once.
func (s *orgPair) triggered(h *testOrg) string {
	name := "nightly-" + s.fresh()
	s.ok("POST", "/api/internal/run-automation", `{"target":"`+s.newAgent(h)+`","input":{"message":"m"}}`, h.key,
		"Prefer: respond-async", "X-Automation-Id: "+name)
	return name
}

func (s *orgPair) ended(h *testOrg, headers ...string) string {
	runID := s.newChat(h, s.newAgent(h), "s", headers...)
	s.finish("answer", runID)
	return runID
}

// testOrgOr returns the organization in which a credential acts. If the credential acts in none,
// the result is the parameter other.
func (c *credential) testOrgOr(other *testOrg) *testOrg {
	if c.testOrg == nil {
		return other
	}
	return c.testOrg
}

// placeholder matches the placeholders of ids in a row. The submatch is the kind of id.
var placeholder = regexp.MustCompile(`\$(` + strings.Join(kindNames(), "|") + `)\b`)

func kindNames() []string {
	var names []string
	for name := range idKinds {
		names = append(names, name)
	}
	return names
}

func (r *accessRow) kind() string {
	if found := placeholder.FindStringSubmatch(r.query + " " + r.body); found != nil {
		return found[1]
	}
	return ""
}

// matrix sends the requests of the access table's rows.
type matrix struct {
	*orgPair
	credentials []credential
	people      map[string]person          // the owner of each login token
	missing     map[string]func() []target // return ids that do not exist for any caller, by kind
	cells       atomic.Int64

	shared sync.Map // ids and keys that several rows use; see the method named once

	mu       sync.Mutex
	notFound map[string]string // the first 404 response, by method and path
}

func newMatrix(t *testing.T, a *runEnv) *matrix {
	t.Helper()
	m := &matrix{orgPair: newOrgPair(t, a), people: map[string]person{}, missing: map[string]func() []target{}, notFound: map[string]string{}}
	m.credentials = m.orgPair.credentials()
	for _, h := range []*testOrg{m.home, m.away} {
		for _, p := range []person{h.owner, h.admin, h.member} {
			m.people[p.token] = p
		}
	}
	for name, kind := range idKinds {
		m.missing[name] = sync.OnceValue(func() []target { return m.missingFor(name, kind) })
	}
	return m
}

// members contains the kinds of ids that occur in an organization's list of members.
var members = map[string]bool{id.User: true, id.Invitation: true}

// missingFor returns ids of a kind that do not exist for any caller.
func (m *matrix) missingFor(name string, kind idKind) []target {
	list := []target{
		{"never existed", unknownID(kind.prefix), ""},
		{"empty", "", ""},
		{"malformed", "x", ""},
		{"prefix alone", kind.prefix + "_", ""},
		{"too long", kind.prefix + "_" + strings.Repeat("0", 27), ""},
		{"too great", kind.prefix + "_8zzzzzzzzzzzzzzzzzzzzzzzzz", ""},
		{"capitals", strings.ToUpper(kind.prefix + "_" + id.Suffix(id.New(id.Agent))), ""},
		{"another path", "../" + kind.prefix, ""},
		{"SQL", kind.prefix + "_' OR '1'='1", ""},
		{"endless", strings.Repeat("a", 5000), ""},
	}
	owner := login("owner", m.home.owner, m.home, domain.RoleOwner, m.home.owner.auth)
	for other, of := range idKinds {
		if other != name && !of.bearer && of.prefix != kind.prefix && (!members[of.prefix] || !members[kind.prefix]) {
			given := m.once("missing elsewhere: "+other, func() string { return of.own(m.orgPair, &owner) }) // shared, because no request finds or changes anything by this id
			list = append(list, target{"id of " + other, given, ""})
		}
	}
	for _, h := range []*testOrg{m.home, m.away} {
		if kind.gone != nil {
			list = append(list, target{"deleted, " + h.word, kind.gone(m.orgPair, h), ""})
		}
	}
	for i := range list {
		list[i].outcome = "404 not_found"
	}
	return list
}

// unknownID returns a well-formed id or token that was never created.
func unknownID(prefix string) string {
	switch prefix {
	case id.Template:
		return "tpl_nothing"
	case "src":
		return "src_" + strings.Repeat("0", 64)
	case "pi", "pr":
		return prefix + "_" + strings.Repeat("a", 32)
	}
	return id.New(prefix)
}

// missingAt returns the missing ids with which a row is tested, or nil if the row has no id. If the
// row needs an id, the result contains no empty id. If the row's id names a model, the result
// contains no ids of agents and templates, because each agent and each template is a model.
func (m *matrix) missingAt(r *accessRow) []target {
	if r.kind() == "" {
		return nil
	}
	aModel := strings.HasPrefix(r.path, "/v1/models") || strings.HasPrefix(r.query, "model=") || strings.Contains(r.body, `"model":`)
	return slices.DeleteFunc(slices.Clone(m.missing[r.kind()]()), func(at target) bool {
		agent, template := strings.HasPrefix(at.name, "id of ag"), strings.HasPrefix(at.name, "id of tpl")
		return r.needsID() && at.id == "" || aModel && (agent || template || at.name == "id of wag" || at.name == "id of vag" || at.name == "id of at")
	})
}

// targets returns the ids with which a permitted caller is tested.
func (m *matrix) targets(r *accessRow, c *credential) []target {
	name := r.kind()
	if name == "" {
		return []target{{"none", "", "ok"}}
	}
	if r.who == forPage {
		return append(m.pageTargets(name, c), m.missingForPages(name)...)
	}
	kind, missing := idKinds[name], m.missingAt(r)
	if c.page != "" { // two missing ids suffice, because their results do not depend on the page's origin
		missing = missing[:2]
	}
	list := asField(r, append([]target{m.ownTarget(r, name, c)}, missing...))
	if r.who == forVoice && c.page == foreignPage { // the error must not reveal which widgets list the origin of the page
		list[0].outcome = "403 permission_denied"
	}
	if c.via == "demo" { // demo visitors have no resources
		return list
	}
	if r.who == forLink && c.refused != "" && !c.elsewhere {
		if strings.HasPrefix(c.refused, "401") && len(c.headers) == 1 && strings.HasPrefix(c.headers[0], "Cookie: ") {
			return list[:1] // an invitation can be accepted in spite of the cookie of an ended session
		}
		return []target{{"own", list[0].id, c.refused}} // an invalid credential is rejected before the token is checked
	}
	if name == "tpl" || kind.bearer {
		return list
	}
	if r.late && !c.role.AtLeast(domain.Role(r.role)) {
		list[0].outcome = "403 permission_denied"
	}
	list = append(list, m.foreign(r, c)...)
	if kind.others != nil {
		outcome := "404 not_found"
		if kind.open != "" && c.testOrg == m.home && c.role.AtLeast(kind.open) {
			outcome = "ok"
		}
		list = append(list, target{"another member's", m.others(r, name, outcome), outcome})
	}
	return asField(r, list)
}

// asField changes the expected results if the row's id is in a body or a filter, because a missing
// id is an invalid value in these places. An empty parameter is an invalid value everywhere.
func asField(r *accessRow, list []target) []target {
	reference := r.body == hookRowBody || r.attaches() || strings.Contains(r.body, `"target":`) || strings.Contains(r.body, `"templateId":`) || r.query == "hookId=$hook"
	for i := range list {
		empty := list[i].name == "empty" && strings.Contains(r.query, "$")
		if (reference || empty) && list[i].outcome == "404 not_found" {
			list[i].outcome = "400 invalid_request"
		}
	}
	return list
}

// cell sends the request of a row with a credential and an id.
func (m *matrix) cell(r *accessRow, c *credential, at target) answer {
	m.cells.Add(1)
	who, word := c.who, "home"
	if who.email == "" {
		who = m.home.owner
	}
	if c.testOrg != nil {
		word = c.testOrg.word
	}
	fill := func(s string, escape func(string) string) string {
		s = strings.NewReplacer("$word", word, "$okey", c.testOrgOr(m.home).keyID, "$fresh", m.fresh(), "$email", who.email).Replace(s)
		return placeholder.ReplaceAllLiteralString(s, escape(at.id))
	}
	escape := url.QueryEscape
	if r.inPath() {
		escape = url.PathEscape
	}
	where := r.at(fill(r.query, escape))
	body := fill(r.body, func(s string) string { return strings.Trim(strconv.QuoteToASCII(s), `"`) })
	headers := c.headers
	if r.who == forPage && c.page == "" {
		headers = append(slices.Clone(headers), "Origin: "+widgetPage)
	}
	if at.outcome == "ok" && (r.who == forAnyone || r.who == forLink || strings.HasSuffix(r.path, "/logout")) { // these requests end their own login session
		headers = m.spare(headers)
	}
	return m.from(r.method, where, body, append(slices.Clone(headers), "Prefer: respond-async")...)
}

// spare replaces the login sessions in the argument headers with new login sessions. Requests that
// end their session need this.
func (m *matrix) spare(headers []string) []string {
	out := slices.Clone(headers)
	for i, h := range out {
		for token, p := range m.people {
			if strings.Contains(h, token) {
				out[i] = strings.ReplaceAll(h, token, m.loginAgain(p).token)
			}
		}
	}
	return out
}

// check compares a response with the access table.
func (m *matrix) check(t *testing.T, r *accessRow, c *credential, at target, want string, got answer) {
	t.Helper()
	what := r.method + " " + r.path + "?" + r.query + " " + r.body + " as " + c.name + ", id: " + at.name
	seen := strconv.Itoa(got.status)
	if got.status >= 400 {
		code, _, _ := strings.Cut(got.problems(t), " ")
		seen += " " + code
	}
	switch {
	case want == "ok" && got.status == r.status:
	case want != "ok" && seen == want:
	default:
		t.Errorf("%s: %s, want %s (%d)\n%s", what, seen, want, r.status, got.body)
		return
	}
	if want != "404 not_found" && (r.who != forPage || c.via == "widget" || want != "403 permission_denied") {
		return
	}
	if named := got.missingID(t); named != "" && named != at.id && !strings.Contains(r.query, "id="+named) {
		t.Errorf("%s: the error names %q", what, named)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	route, shown := r.method+" "+r.path+" "+got.sharedWith(), got.shown()
	if strings.Contains(r.query, "template=") {
		route += " template" // the error names a template, not an agent
	}
	if first, known := m.notFound[route]; known && first != shown {
		t.Errorf("%s: this refusal differs from others\n%s\nwant\n%s", what, shown, first)
	}
	m.notFound[route] = shown
}

// changes reports whether the row's request may change something.
func (r *accessRow) changes() bool { return r.method != http.MethodGet && r.method != http.MethodHead }

// missingShare is the number of credentials among which the missing ids are divided: each of three
// successive credentials is tested with a third of these ids.
const missingShare = 3

// isMissing reports whether the id belongs to no resource, or to a resource of a kind that the row
// does not accept.
func (at target) isMissing() bool {
	return strings.HasPrefix(at.outcome, "40") && at.name != "own" && at.name != "foreign" && at.name != "another member's"
}

// row sends the requests of a row with the credentials that were selected for it.
func (m *matrix) row(t *testing.T, number int, d draw) {
	t.Helper()
	r := &accessTable[number]
	for n, c := range d.credentials(number, m.credentials) {
		want := r.outcome(c)
		if want != "ok" { // every id has the same result
			missing, none := m.missingAt(r), target{}
			if r.needsID() {
				none.id = "none"
			}
			m.check(t, r, c, none, want, m.cell(r, c, none))
			if len(missing) > 0 {
				at := missing[n%len(missing)]
				m.check(t, r, c, at, want, m.cell(r, c, at))
			}
			continue
		}
		for j, at := range m.targets(r, c) {
			if at.isMissing() && (n+j)%missingShare > 0 {
				continue // this id is tested with another credential, because the result does not depend on the credential
			}
			m.check(t, r, c, at, at.outcome, m.cell(r, c, at))
		}
	}
}

// TestAccessMatrix tests every row of the access table: each route with the credentials selected
// for it, and with every kind of id.
func TestAccessMatrix(t *testing.T) { //nolint:tparallel // the only direct subtest groups the others
	t.Parallel()
	m, d := newMatrix(t, newRunEnv(t)), newDraw(t)
	t.Run("rows", func(t *testing.T) {
		for i := range accessTable {
			r := &accessTable[i]
			t.Run(r.method+" "+r.path+" "+r.query, func(t *testing.T) {
				t.Parallel()
				m.row(t, i, d)
			})
		}
	})
	m.logsClean("home prompt", "home secret", "away prompt")
	t.Logf("%d cells: %d rows, %d credentials", m.cells.Load(), len(accessTable), len(m.credentials))
	if m.cells.Load() < 5000 && !underRace {
		t.Errorf("only %d cells ran", m.cells.Load())
	}
}

// TestForeignIDsOverASabotagedStore repeats the requests with ids of another organization, with a
// store whose SQL statements lack the condition on the organization. Because of row-level security,
// the results must be the same.
func TestForeignIDsOverASabotagedStore(t *testing.T) {
	t.Parallel()
	a, by := newSabotaged(t)
	m, d := newMatrix(t, a), newDraw(t)
	for i := range accessTable {
		r := &accessTable[i]
		for _, c := range d.credentials(i, m.credentials) {
			if c.page != "" || c.testOrg == nil || r.outcome(c) != "ok" {
				continue
			}
			for _, at := range m.foreign(r, c) {
				m.check(t, r, c, at, at.outcome, m.cell(r, c, at))
			}
		}
	}
	t.Logf("%d cells, %d conditions forgotten", m.cells.Load(), by.Conditions())
	if m.cells.Load() < 100 || by.Conditions() < 10 {
		t.Errorf("%d cells, %d conditions forgotten", m.cells.Load(), by.Conditions())
	}
}

// A route without a row would not be tested, and a row without a route would test nothing.
func TestAccessTableIsComplete(t *testing.T) {
	t.Parallel()
	routes, rows := map[string]bool{}, map[string]bool{} // HEAD shares the row of GET
	for _, r := range tableFor(t).routes() {
		routes[r.Method+" "+r.Path+" "+r.Action] = false
	}
	for _, r := range accessTable {
		query, err := url.ParseQuery(r.query)
		must(t, err)
		name := r.method + " " + r.path + " "
		if _, known := routes[name+query.Get("action")]; known {
			routes[name+query.Get("action")] = true
		} else if _, known := routes[name+"*"]; known {
			routes[name+"*"] = true
		} else {
			t.Errorf("the access table has %s%s, the route table has not", name, query.Get("action"))
		}
		rows[name] = true
	}
	for name, found := range routes {
		if !found {
			t.Errorf("%s has no row in the access table", name)
		}
	}
	for _, r := range tableFor(t).routes() {
		if r.Method != http.MethodGet || !slices.Contains(r.List, "cursor") {
			continue
		}
		byID := slices.ContainsFunc(accessTable, func(row accessRow) bool {
			return row.method == r.Method && row.path == r.Path && strings.HasPrefix(row.query, "id=$")
		})
		if r.Find == nil || !byID {
			t.Errorf("%s is a list, but has no row for a single entry by id", r.Path)
		}
	}
}
