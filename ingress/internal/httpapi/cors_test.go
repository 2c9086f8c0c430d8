package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/widget"
	"parley/shared/id"
)

func TestPreflights(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID, elsewhere := a.newWidgetAgent(h, widgetPage), a.newWidgetAgent(a.newTestOrg("blue"), otherPage)
	off := a.newWidgetAgent(h, "https://off.example.com")
	a.ok("PUT", "/api/agents?id="+off, `{"widget":{"enabled":false}}`, h.owner.auth)
	chat := "/api/agents?action=chat&id="
	preflight := func(origin string) []string {
		return []string{"Origin: " + origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type"}
	}
	for name, c := range map[string]struct {
		path    string
		headers []string
		shared  string
	}{
		"token":                   {widget.WidgetSessionsPath, preflight(widgetPage), widgetPage},
		"token, another's origin": {widget.WidgetSessionsPath, preflight(otherPage), otherPage},
		"files":                   {widget.FilesPath + "?name=a.png&sessionId=s", preflight(widgetPage), widgetPage},
		"files, listed by nobody": {widget.FilesPath, preflight("https://evil.example.com"), ""},
		"files, another method":   {widget.FilesPath, []string{"Origin: " + widgetPage, "Access-Control-Request-Method: GET"}, ""},
		"chat":                    {chat + agentID, preflight(widgetPage), widgetPage},
		"chat, another's":         {chat + elsewhere, preflight(otherPage), otherPage},
		"cancel":                  {"/api/runs?action=cancel&id=" + id.New(id.Run), preflight(widgetPage), widgetPage},

		"chat, listed by another":      {chat + agentID, preflight(otherPage), ""},
		"chat, switched off":           {chat + off, preflight("https://off.example.com"), ""},
		"token, switched off":          {widget.WidgetSessionsPath, preflight("https://off.example.com"), ""},
		"chat with nobody":             {chat + id.New(id.Agent), preflight(widgetPage), ""},
		"chat with no id":              {chat + "x", preflight(widgetPage), ""},
		"chat with two":                {chat + agentID + "&id=" + agentID, preflight(widgetPage), ""},
		"chat with none":               {"/api/agents?action=chat", preflight(widgetPage), ""},
		"chat with a template":         {"/api/agents?action=chat&template=tpl_support", preflight(widgetPage), ""},
		"no chat":                      {"/api/agents?id=" + agentID, preflight(widgetPage), ""},
		"another action":               {"/api/agents?action=import-openapi&id=" + agentID, preflight(widgetPage), ""},
		"two actions":                  {chat + agentID + "&action=chat", preflight(widgetPage), ""},
		"listed by nobody":             {widget.WidgetSessionsPath, preflight("https://evil.example.com"), ""},
		"null":                         {widget.WidgetSessionsPath, preflight("null"), ""},
		"another port":                 {widget.WidgetSessionsPath, preflight(widgetPage + ":8443"), ""},
		"another scheme":               {widget.WidgetSessionsPath, preflight("http://www.example.com"), ""},
		"upper case":                   {widget.WidgetSessionsPath, preflight("https://WWW.example.com"), ""},
		"no origin":                    {widget.WidgetSessionsPath, preflight(widgetPage)[1:], ""},
		"two origins":                  {widget.WidgetSessionsPath, append(preflight(widgetPage), "Origin: "+widgetPage), ""},
		"no method":                    {widget.WidgetSessionsPath, preflight(widgetPage)[:1], ""},
		"another method":               {widget.WidgetSessionsPath, []string{"Origin: " + widgetPage, "Access-Control-Request-Method: DELETE"}, ""},
		"a method in small letters":    {widget.WidgetSessionsPath, []string{"Origin: " + widgetPage, "Access-Control-Request-Method: post"}, ""},
		"runs":                         {"/api/runs?id=" + id.New(id.Run), preflight(widgetPage), ""},
		"approve":                      {"/api/runs?action=approve&id=" + id.New(id.Run), preflight(widgetPage), ""},
		"cancel and approve":           {"/api/runs?action=cancel&action=approve&id=" + id.New(id.Run), preflight(widgetPage), ""},
		"cancel, listed by nobody":     {"/api/runs?action=cancel&id=" + id.New(id.Run), preflight("https://evil.example.com"), ""},
		"keys":                         {"/api/keys", preflight(widgetPage), ""},
		"a path that ends otherwise":   {widget.WidgetSessionsPath + "/", preflight(widgetPage), ""},
		"a path that begins otherwise": {"/x" + widget.WidgetSessionsPath, preflight(widgetPage), ""},
	} {
		got := a.from("OPTIONS", c.path, "", c.headers...)
		switch {
		case got.sharedWith() != c.shared || (got.status == 204) != (c.shared != ""):
			t.Errorf("%s: %d %v", name, got.status, got.header)
		case c.shared != "":
			if got.header.Get("Access-Control-Allow-Methods") != "POST" || got.header.Get("Access-Control-Max-Age") == "" || len(got.body) > 0 ||
				!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Authorization, Content-Type, Idempotency-Key, Last-Event-ID") {
				t.Errorf("%s: %v %s", name, got.header, got.body)
			}
		case got.status != 405 && got.status != 404:
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// A page whose origin a widget allows can read only the responses of the widget's routes and of
// /api/events.
func TestNothingElseIsShared(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newWidgetAgent(h, widgetPage)
	for _, r := range a.api.routes() {
		uploads := r.Path == widget.FilesPath && r.Method == http.MethodPost
		if r.Path == widget.WidgetSessionsPath || uploads || r.Action == widget.ChatAction || r.Action == widget.CancelAction || r.Path == "/api/events" {
			continue
		}
		target := r.Path + "?id=" + agentID
		if r.Action != "" && r.Action != "*" {
			target += "&action=" + r.Action
		}
		for _, who := range [][]string{nil, {h.key}, {h.owner.cookie}} {
			if slices.Contains([]string{"/api/auth/logout", "/api/agents"}, r.Path) && r.Method != http.MethodGet {
				continue // a logout would end the session that the other requests need
			}
			got := a.from(r.Method, target, "", append(slices.Clone(who), "Origin: "+widgetPage)...)
			for name := range got.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: %s", r.Method, target, name)
				}
			}
		}
	}
}
