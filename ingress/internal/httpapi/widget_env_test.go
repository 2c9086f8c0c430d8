package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/widget"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// Origins of pages that embed agents.
const (
	widgetPage = "https://www.example.com"
	otherPage  = "https://shop.example.com"
)

const identityKey = "an identity secret"

// newWidgetAgent returns an agent of h whose widget lists the origins.
func (a *runEnv) newWidgetAgent(h *testOrg, origins ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/agents", `{"name":"`+h.word+` agent","systemPrompt":"`+h.word+` prompt","widget":{"enabled":true,`+
		`"allowedOrigins":["`+strings.Join(origins, `","`)+`"],"identitySecret":"`+identityKey+`"}}`, h.owner.auth, h.header).text(a.t, "id")
}

// signed returns a visitor whose identity is signed by a website.
func signed(agentID, visitor string) string {
	mac := hmac.New(sha256.New, []byte(identityKey))
	mac.Write([]byte(agentID + "\n" + visitor))
	return `{"id":"` + visitor + `","signature":"` + hex.EncodeToString(mac.Sum(nil)) + `"}`
}

// visit requests a widget token. The argument visitor is the JSON of the field visitor in the
// request body, or "" for a new visitor.
func (a *runEnv) visit(agentID, visitor, origin string) answer {
	a.t.Helper()
	body := `{"agentId":"` + agentID + `"}`
	if visitor != "" {
		body = `{"agentId":"` + agentID + `","visitor":` + visitor + `}`
	}
	return a.from("POST", widget.WidgetSessionsPath, body, "Origin: "+origin)
}

// guest is a visitor of widgetPage. It has a widget token and the sealed visitor id that the
// browser stores.
type guest struct {
	agent, token, name string
	headers            []string
}

func (a *runEnv) guest(agentID, visitor string) guest {
	a.t.Helper()
	got := a.visit(agentID, visitor, widgetPage).want(a.t, "a visitor's token", 201, "")
	return newGuest(agentID, got.text(a.t, "token"), widgetPage, got.text(a.t, "visitor"))
}

func newGuest(agentID, token, origin, name string) guest {
	return guest{agent: agentID, token: token, name: name, headers: []string{"Authorization: Bearer " + token, "Origin: " + origin}}
}

// says sends a message to the guest's agent and does not wait for the answer.
func (a *runEnv) says(g guest, session, message string, more ...string) answer {
	a.t.Helper()
	return a.from("POST", "/api/agents?action=chat&id="+g.agent, `{"sessionId":"`+session+`","message":"`+message+`"}`,
		slices.Concat(g.headers, []string{"Prefer: respond-async"}, more)...)
}

// token creates a widget token without sending a request. The token expires after the duration in
// the argument life.
func (a *runEnv) token(agentID string, life time.Duration) string {
	a.t.Helper()
	over := strconv.FormatInt(time.Now().Add(life).Unix(), 10)
	return a.api.Secrets.SealWidgetToken([]byte(`{"a":"` + agentID + `","o":"` + widgetPage + `","v":"` + domain.VisitorAnonymous + `x","x":` + over + `}`))
}

// visiting returns widget credentials for an agent that no request of the access table names.
func (s *orgPair) visiting() []credential {
	agentID := s.newWidgetAgent(s.home, widgetPage)
	visitor := func(name, token, origin, refused string) credential {
		return credential{
			name: name, headers: newGuest(agentID, token, origin, "").headers, refused: refused, via: "widget", page: "widget", testOrg: s.home, role: domain.RoleMember,
		}
	}
	good := s.token(agentID, time.Hour) // on a slow machine, the tests take longer than a real token is valid
	list := []credential{
		visitor("widget token", good, widgetPage, ""),
		visitor("widget token on another page", good, otherPage, ""),
		visitor("expired widget token", s.token(agentID, -time.Second), widgetPage, "401 unauthenticated"),
		visitor("forged widget token", good[:len(good)-2], widgetPage, "401 unauthenticated"),
	}
	beside := visitor("widget token beside a cookie", good, widgetPage, "")
	beside.headers = append([]string{s.home.owner.cookie}, beside.headers...)
	return append(list, beside)
}

// visitorsOutcome returns the expected result of a widget token at a row of the access table. The
// token is valid for public routes, for the chat of one agent, and for cancelling runs. No row of
// the table is for this agent.
func (c *credential) visitorsOutcome(r *accessRow) string {
	switch {
	case c.refused != "":
		return c.refused
	case (r.who == forPublic && c.page != foreignPage || r.who == forVisitor) && !strings.Contains(c.name, "another page"):
		return "ok"
	}
	return "403 permission_denied"
}

// ownTarget returns an id that belongs to the caller. Visitors have no runs, so they get the id of a
// member's run, which they must not find.
func (m *matrix) ownTarget(r *accessRow, name string, c *credential) target {
	if c.via == "widget" && name == "run" {
		const outcome = "404 not_found"
		return target{"a member's", m.others(r, name, outcome), outcome}
	}
	return target{"own", m.own(r, name, c), "ok"}
}

// pagesOutcome returns the expected result of a request to a route that ignores credentials and
// checks the page's origin.
func (c *credential) pagesOutcome() string {
	switch {
	case c.page == "":
		return "ok"
	case slices.ContainsFunc(c.headers, func(h string) bool { return strings.HasPrefix(h, "Origin: ") }):
		return "403 permission_denied"
	default:
		return "400 invalid_request"
	}
}

// pageTargets returns the ids of agents for the requests of a page. An agent may belong to any
// organization, but its widget must list the page's origin. For every other id, the error is the
// same.
func (m *matrix) pageTargets(name string, c *credential) []target {
	kind := idKinds[name]
	return []target{
		{"own", kind.own(m.orgPair, c), "ok"},
		{"foreign", m.newWidgetAgent(m.away, widgetPage), "ok"},
		{"embedded elsewhere", m.newWidgetAgent(m.home, otherPage), "403 permission_denied"},
	}
}

// missingForPages returns ids that do not exist, for the requests of a page.
func (m *matrix) missingForPages(name string) []target {
	list := slices.Clone(m.missing[name]())
	for i := range list {
		list[i].outcome = "403 permission_denied"
	}
	return list
}

// forgetWidgets removes an agent and origins from the caches of widgets, so that changes to the
// agent's widget apply immediately.
func (a *runEnv) forgetWidgets(agentID string, origins ...string) {
	a.widgets().Forget(agentID, origins...)
}

func (a *runEnv) widgets() *auth.Widgets { return a.api.Auth.Widgets() }

// foreignToken returns a token that was sealed by a service with another key.
func foreignToken(agentID string) string {
	box, err := secrets.NewBox(strings.Repeat("cd", 32))
	if err != nil {
		panic(err) // unreachable, because the key is valid
	}
	token, _ := auth.NewWidgets(nobodysWidgets{}, box, nil).NewToken(agentID, widgetPage, domain.VisitorAnonymous+"x")
	return token
}

type nobodysWidgets struct{ auth.WidgetLookup }
