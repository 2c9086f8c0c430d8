package httpapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// route is one line of the route table.
type route struct {
	method string
	path   string
	action string      // the query's action that it is for; "" is none, "*" any or none
	need   auth.Need   // who may come at all
	role   domain.Role // the least that a member must be
	late   bool        // the handler counts the request against its limit itself, after looking for a replay
	forms  bool        // the body may be a form that holds files
	handle gin.HandlerFunc
}

// routes is everything under /api and /v1, and /mcp.
func (a *api) routes() []route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	return slices.Concat(a.accountRoutes(), []route{
		{"GET", "/api/agents/templates", "", auth.NeedPublic, "", false, false, a.listTemplates},
		{"GET", "/api/agents", "", auth.NeedUser, member, false, false, a.getAgents},
		{"POST", "/api/agents", "", auth.NeedUser, admin, false, false, a.createAgent},
		{"POST", "/api/agents", "chat", auth.NeedDemo, member, true, false, a.chat},
		{"POST", "/api/agents", "import-openapi", auth.NeedUser, admin, false, false, a.importOpenAPI},
		{"POST", widgetSessionsPath, "", auth.NeedPage, "", false, false, a.widgetSession},
		{"PUT", "/api/agents", "", auth.NeedUser, admin, false, false, a.updateAgent},
		{"DELETE", "/api/agents", "", auth.NeedUser, admin, false, false, a.deleteAgent},

		{"GET", "/api/sessions", "", auth.NeedUser, member, false, false, a.getSessions},
		{"DELETE", "/api/sessions", "", auth.NeedUser, member, false, false, a.eraseSession},

		{"GET", "/api/runs", "", auth.NeedUser, member, false, false, a.getRuns},
		{"POST", "/api/runs", "*", auth.NeedUser, member, false, false, a.postRuns},
		{"GET", "/api/automations", "", auth.NeedUser, admin, false, false, a.getAutomations},
		{"GET", "/api/usage", "", auth.NeedUser, admin, false, false, a.getUsage},
		{"GET", "/api/budgets", "", auth.NeedUser, admin, false, false, a.getBudgets},
		{"POST", "/api/budgets", "", auth.NeedUser, admin, false, false, a.createBudget},
		{"PUT", "/api/budgets", "", auth.NeedUser, admin, false, false, a.updateBudget},
		{"DELETE", "/api/budgets", "", auth.NeedUser, admin, false, false, a.deleteBudget},

		{"GET", "/api/events", "", auth.NeedUser, member, false, false, a.streamChanges},

		{"GET", "/api/sources", "", auth.NeedUser, member, false, false, a.getSource},
		{"GET", "/api/files", "", auth.NeedUser, member, false, false, a.getFile},
		{"HEAD", "/api/files", "", auth.NeedUser, member, false, false, a.getFile},

		{"GET", "/api/knowledge", "", auth.NeedUser, member, false, false, a.getKnowledge},
		{"HEAD", "/api/knowledge", "", auth.NeedUser, member, false, false, a.headKnowledge},
		{"POST", "/api/knowledge", "", auth.NeedUser, admin, false, true, a.addDocuments},
		{"POST", "/api/knowledge", "retry", auth.NeedUser, admin, false, false, a.retryDocument},
		{"PUT", "/api/knowledge", "", auth.NeedUser, admin, false, true, a.putDocument},
		{"DELETE", "/api/knowledge", "", auth.NeedUser, admin, false, false, a.deleteDocument},

		{"GET", "/api/hooks", "", auth.NeedUser, admin, false, false, a.getHooks},
		{"POST", "/api/hooks", "", auth.NeedUser, admin, false, false, a.createHook},
		{"POST", "/api/hooks", "rotate", auth.NeedUser, admin, false, false, a.rotateHook},
		{"POST", "/api/hooks", "test", auth.NeedUser, admin, false, false, a.testHook},
		{"PUT", "/api/hooks", "", auth.NeedUser, admin, false, false, a.updateHook},
		{"DELETE", "/api/hooks", "", auth.NeedUser, admin, false, false, a.deleteHook},
		{"GET", "/api/hooks/deliveries", "", auth.NeedUser, admin, false, false, a.getDeliveries},
		{"POST", "/api/hooks/deliveries", "*", auth.NeedUser, admin, false, false, a.postDeliveries},

		{"GET", "/api/notifications", "", auth.NeedUser, admin, false, false, a.getNotifications},
		{"POST", "/api/notifications", "", auth.NeedUser, admin, false, false, a.createEndpoint},
		{"POST", "/api/notifications", "rotate", auth.NeedUser, admin, false, false, a.rotateEndpoint},
		{"POST", "/api/notifications", "test", auth.NeedUser, admin, false, false, a.testEndpoint},
		{"PUT", "/api/notifications", "", auth.NeedUser, admin, false, false, a.updateEndpoint},
		{"DELETE", "/api/notifications", "", auth.NeedUser, admin, false, false, a.deleteEndpoint},
		{"GET", "/api/notifications/messages", "", auth.NeedUser, admin, false, false, a.getMessages},
		{"POST", "/api/notifications/messages", "*", auth.NeedUser, admin, false, false, a.postMessages},

		{"POST", "/api/internal/run-automation", "", auth.NeedKey, member, true, false, a.runAutomation},
		{"POST", "/mcp", "", auth.NeedUserKey, member, false, false, a.mcp},
	}, a.v1Routes())
}

// accountRoutes is what people have before they have agents: a login, an organization, and keys.
func (a *api) accountRoutes() []route {
	const member, admin, owner = domain.RoleMember, domain.RoleAdmin, domain.RoleOwner
	return []route{
		{"POST", "/api/auth/signup", "", auth.NeedNobody, "", false, false, a.signup},
		{"POST", "/api/auth/login", "", auth.NeedNobody, "", false, false, a.login},
		{"POST", "/api/auth/logout", "", auth.NeedUser, member, false, false, a.logout},
		{"GET", "/api/auth/session", "", auth.NeedUser, member, false, false, a.session},
		{"GET", "/api/auth/sessions", "", auth.NeedUser, member, false, false, a.listLogins},
		{"DELETE", "/api/auth/sessions", "", auth.NeedUser, member, false, false, a.endLogin},
		{"POST", "/api/auth/accept", "", auth.NeedNobody, "", false, false, a.accept},
		{"POST", "/api/auth/reset", "", auth.NeedNobody, "", false, false, a.reset},
		{"GET", "/api/auth/oidc", "", auth.NeedNobody, "", false, false, a.beginOIDC},
		{"GET", "/api/auth/oidc/callback", "", auth.NeedNobody, "", false, false, a.finishOIDC},

		{"GET", "/api/organizations", "", auth.NeedUser, member, false, false, a.getOrganizations},
		{"POST", "/api/organizations", "", auth.NeedUser, member, false, false, a.createOrganization},
		{"PUT", "/api/organizations", "", auth.NeedUser, member, false, false, a.renameOrganization},
		{"GET", "/api/organizations/limits", "", auth.NeedUser, member, false, false, a.getLimits},
		{"GET", "/api/organizations/members", "", auth.NeedUser, member, false, false, a.listMembers},
		{"POST", "/api/organizations/members", "", auth.NeedUser, owner, false, false, a.addMember},
		{"POST", "/api/organizations/members", "reset", auth.NeedUser, admin, false, false, a.resetMember},
		{"DELETE", "/api/organizations/members", "", auth.NeedUser, member, false, false, a.removeMember},

		{"GET", "/api/keys", "", auth.NeedUser, member, false, false, a.listKeys},
		{"POST", "/api/keys", "", auth.NeedUser, member, false, false, a.createKey},
		{"POST", "/api/keys", "rotate", auth.NeedUser, member, false, false, a.rotateKey},
		{"DELETE", "/api/keys", "", auth.NeedUser, member, false, false, a.revokeKey},
	}
}

// pages is everything else: no gate stands before these.
func (a *api) pages(m *metrics) []route {
	return []route{
		{method: "GET", path: "/healthz", handle: healthz},
		{method: "HEAD", path: "/healthz", handle: healthz},
		{method: "GET", path: "/readyz", handle: a.readyz},
		{method: "HEAD", path: "/readyz", handle: a.readyz},
		{method: "GET", path: "/metrics", handle: a.showMetrics(m)},
		{method: "POST", path: receivePath + ":id", handle: a.receiveDelivery}, // what counts is the signature
		{method: "GET", path: "/", handle: toDashboard},
		{method: "GET", path: "/login", handle: a.loginPage},
		{method: "POST", path: "/login", handle: a.loginForm},
		{method: "GET", path: acceptPath, handle: a.acceptPage},
		{method: "POST", path: acceptPath, handle: a.acceptForm},
		{method: "GET", path: resetPath, handle: a.resetPage},
		{method: "POST", path: resetPath, handle: a.resetForm},
		{method: "GET", path: "/signup", handle: a.signupPage},
		{method: "POST", path: "/signup", handle: a.signupForm},
		{method: "GET", path: dashboardPath, handle: a.dashboardPage},
		{method: "GET", path: dashboardPath + "/*page", handle: a.dashboardPage},
		{method: "GET", path: "/assets/:name", handle: asset},
		{method: "GET", path: "/widget.js", handle: widgetScript},
		{method: "GET", path: "/widget/preview", handle: previewPage},
		{method: "GET", path: "/favicon.svg", handle: document("image/svg+xml", web.Favicon)},
		{method: "GET", path: "/docs", handle: document(contentHTML, a.docsPage)},
		{method: "GET", path: "/docs/errors", handle: document(contentHTML, errorsPage)},
		{method: "GET", path: "/llms.txt", handle: document(contentText, a.llmsText)},
		{method: "GET", path: "/openapi.json", handle: document(contentJSON, openAPIDocument)},
	}
}

// engine builds the router from the tables.
func (a *api) engine(m *metrics) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.UseRawPath = true // an escaped slash is no slash to the proxies before us, which may guard paths
	e.ContextWithFallback = false
	// Addresses behind proxies are auth's matter: gin itself believes nobody.
	if err := e.SetTrustedProxies(nil); err != nil {
		panic(err) // an empty list is always well-formed
	}
	if a.Tracer.On() {
		e.Use(a.traced())
	}
	e.Use(a.observe(m))
	e.NoRoute(a.stray(apierr.New(apierr.NotFound, "no such resource")))
	e.NoMethod(a.preflight,
		a.stray(apierr.New(apierr.MethodNotAllowed, "this resource does not have the method; the header Allow lists those it has")))
	for _, r := range a.pages(m) {
		e.Handle(r.method, r.path, r.handle)
	}
	for _, group := range grouped(a.routes()) {
		e.Handle(group[0].method, group[0].path, a.byAction(group))
	}
	return e
}

// grouped gathers the routes of one method and path, in the table's order.
func grouped(routes []route) [][]route {
	var out [][]route
	at := map[string]int{}
	for _, r := range routes {
		name := r.method + " " + r.path
		i, known := at[name]
		if !known {
			i = len(out)
			at[name] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// byAction chooses among the routes of one method and path by the query's action. The group's first
// route stands for none.
func (a *api) byAction(group []route) gin.HandlerFunc {
	first := a.gate(group[0])
	if len(group) == 1 {
		return first
	}
	actions := map[string]gin.HandlerFunc{}
	for _, r := range group[1:] {
		actions[r.action] = a.gate(r)
	}
	unknown := group[0]
	unknown.role = domain.RoleMember
	unknown.handle = func(c *gin.Context) {
		fail(c, apierr.Invalid("action", codeInvalidValue, "must be one of the actions of this resource, once"))
	}
	refuse := a.gate(unknown)
	return func(c *gin.Context) {
		values := c.QueryArray("action")
		if len(values) == 0 {
			first(c)
			return
		}
		if handle := actions[values[0]]; handle != nil && len(values) == 1 {
			handle(c)
			return
		}
		refuse(c)
	}
}

// stray answers requests that no route takes. Those with the demo header count all the same, and to demo
// visitors what is not there is closed like everything else; other callers see where their limit stands.
func (a *api) stray(answer *apierr.Error) gin.HandlerFunc {
	return func(c *gin.Context) {
		ident, err := a.Auth.Resolve(c.Request, auth.NeedUser)
		stateOf(c).ident = ident
		if !auth.SaysDemo(c.Request) {
			a.showLimit(c)
			fail(c, answer)
			return
		}
		if err != nil || ident.Caller.Kind == domain.CallerDemo {
			if err := a.countDemo(c); err != nil {
				fail(c, err)
				return
			}
		}
		if err != nil {
			fail(c, err)
			return
		}
		a.showLimit(c)
		fail(c, answer)
	}
}

func toDashboard(c *gin.Context) { c.Redirect(http.StatusSeeOther, dashboardPath) }
