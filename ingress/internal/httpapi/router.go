package httpapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
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
	person bool        // not for organizations' keys
	login  bool        // for login sessions alone
	stream bool        // the answer to GET has no end, and HEAD is not offered
	open   bool        // the query is another protocol's: unknown parameters are ignored

	find   finder          // looks up what the query's id names; nil: the route takes no id
	list   params          // parameters of the query without an id; nil beside a find: the id is required
	beside params          // parameters of the query beside an id
	one    gin.HandlerFunc // answers a query with an id in the place of handle; nil: handle does
	other  string          // an action that the path has beside; set by byAction on a route without an action

	handle gin.HandlerFunc
}

// params names parameters of a query.
type params []string

// paged are the parameters of every list.
var paged = params{"limit", "cursor"}

// routes is everything under /api and /v1, and /mcp.
func (a *api) routes() []route {
	const member = domain.RoleMember
	return slices.Concat(a.loginRoutes(), a.accountRoutes(), a.agentRoutes(), a.runRoutes(), a.documentRoutes(), a.deliveryRoutes(), []route{
		{method: "POST", path: "/api/internal/run-automation", need: auth.NeedKey, role: member, late: true, handle: a.runAutomation},
		{method: "POST", path: "/mcp", need: auth.NeedUserKey, role: member, handle: a.mcp},
	}, a.v1Routes())
}

// agentRoutes are agents, templates and chats.
func (a *api) agentRoutes() []route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	of := a.finders()
	return []route{
		{
			method: "GET", path: "/api/agents/templates", need: auth.NeedPublic,
			find: of.template, list: paged, one: readOne(a.readTemplate, id.Template),
			handle: a.listTemplates,
		},
		{
			method: "GET", path: "/api/agents", need: auth.NeedUser, role: member,
			find: of.agent, list: params{"q", "limit", "cursor"},
			handle: a.getAgents,
		},
		{method: "POST", path: "/api/agents", need: auth.NeedUser, role: admin, handle: a.createAgent},
		{
			method: "POST", path: "/api/agents", action: "chat", need: auth.NeedDemo, role: member, late: true,
			find: of.target, list: params{"template", "format"}, beside: params{"template", "format"},
			handle: a.chat,
		},
		{
			method: "POST", path: "/api/agents", action: "import-openapi", need: auth.NeedUser, role: admin,
			find:   of.agent,
			handle: a.importOpenAPI,
		},
		{method: "POST", path: widgetSessionsPath, need: auth.NeedPage, handle: a.widgetSession},
		{method: "PUT", path: "/api/agents", need: auth.NeedUser, role: admin, find: of.agent, handle: a.updateAgent},
		{method: "DELETE", path: "/api/agents", need: auth.NeedUser, role: admin, find: of.agent, handle: a.deleteAgent},

		{
			method: "GET", path: "/api/sessions", need: auth.NeedUser, role: member,
			find: of.session, list: params{"principal", "limit", "cursor"}, beside: params{"agentId", "templateId", "principal", "limit", "cursor"},
			handle: a.getSessions,
		},
		{
			method: "DELETE", path: "/api/sessions", need: auth.NeedUser, role: member,
			find: of.session, beside: params{"agentId", "templateId", "principal"},
			handle: a.eraseSession,
		},
	}
}

// runRoutes are runs and what they used, made and cited.
func (a *api) runRoutes() []route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	of := a.finders()
	return []route{
		{
			method: "GET", path: "/api/runs", need: auth.NeedUser, role: member,
			find: of.run, list: params{"agentId", "sessionId", "automationId", "status", "limit", "cursor"},
			beside: params{"wait", "stream", "format", "timeline"},
			handle: a.getRuns,
		},
		{
			method: "POST", path: "/api/runs", action: "*", need: auth.NeedUser, role: member,
			find: of.run, beside: params{"toolCallId"},
			handle: a.postRuns,
		},
		{
			method: "GET", path: "/api/automations", need: auth.NeedUser, role: admin,
			find: of.automation, list: paged, one: readOne(a.readAutomation),
			handle: a.getAutomations,
		},
		{
			method: "GET", path: "/api/usage", need: auth.NeedUser, role: admin,
			list:   params{"days", "agentId", "keyId", "automationId", "by"},
			handle: a.getUsage,
		},
		{method: "GET", path: "/api/budgets", need: auth.NeedUser, role: admin, find: of.budget, list: paged, handle: a.getBudgets},
		{method: "POST", path: "/api/budgets", need: auth.NeedUser, role: admin, handle: a.createBudget},
		{method: "PUT", path: "/api/budgets", need: auth.NeedUser, role: admin, find: of.budget, handle: a.updateBudget},
		{method: "DELETE", path: "/api/budgets", need: auth.NeedUser, role: admin, find: of.budget, handle: a.deleteBudget},

		{method: "GET", path: "/api/events", need: auth.NeedUser, role: member, stream: true, handle: a.streamChanges},

		{method: "GET", path: "/api/sources", need: auth.NeedUser, role: member, find: of.source, handle: a.getSource},
		{method: "GET", path: "/api/files", need: auth.NeedUser, role: member, find: of.file, handle: a.getFile},
	}
}

// documentRoutes are the documents of an organization.
func (a *api) documentRoutes() []route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	of := a.finders()
	return []route{
		{
			method: "GET", path: "/api/knowledge", need: auth.NeedUser, role: member,
			find: of.document, list: params{"q", "status", "query", "documentId", "metadata", "limit", "cursor"},
			beside: params{"content", "page", "chunk"},
			handle: a.getKnowledge,
		},
		{method: "POST", path: "/api/knowledge", need: auth.NeedUser, role: admin, forms: true, handle: a.addDocuments},
		{
			method: "POST", path: "/api/knowledge", action: "retry", need: auth.NeedUser, role: admin,
			find:   of.document,
			handle: a.retryDocument,
		},
		{
			method: "PUT", path: "/api/knowledge", need: auth.NeedUser, role: admin, forms: true,
			find:   of.document,
			handle: a.putDocument,
		},
		{method: "DELETE", path: "/api/knowledge", need: auth.NeedUser, role: admin, find: of.document, handle: a.deleteDocument},
	}
}

// deliveryRoutes are webhooks, in and out.
func (a *api) deliveryRoutes() []route {
	const admin = domain.RoleAdmin
	of := a.finders()
	return []route{
		{method: "GET", path: "/api/hooks", need: auth.NeedUser, role: admin, find: of.hook, list: paged, handle: a.getHooks},
		{method: "POST", path: "/api/hooks", need: auth.NeedUser, role: admin, handle: a.createHook},
		{method: "POST", path: "/api/hooks", action: "rotate", need: auth.NeedUser, role: admin, find: of.hook, handle: a.rotateHook},
		{method: "POST", path: "/api/hooks", action: "test", need: auth.NeedUser, role: admin, find: of.hook, handle: a.testHook},
		{method: "PUT", path: "/api/hooks", need: auth.NeedUser, role: admin, find: of.hook, handle: a.updateHook},
		{method: "DELETE", path: "/api/hooks", need: auth.NeedUser, role: admin, find: of.hook, handle: a.deleteHook},
		{
			method: "GET", path: "/api/hooks/deliveries", need: auth.NeedUser, role: admin,
			find: of.delivery, list: params{"hookId", "runId", "status", "limit", "cursor"}, beside: params{"hookId"},
			handle: a.getDeliveries,
		},
		{
			method: "POST", path: "/api/hooks/deliveries", action: "*", need: auth.NeedUser, role: admin,
			find: of.delivery, beside: params{"hookId"},
			handle: a.postDeliveries,
		},

		{
			method: "GET", path: "/api/notifications", need: auth.NeedUser, role: admin,
			find: of.endpoint, list: paged,
			handle: a.getNotifications,
		},
		{method: "POST", path: "/api/notifications", need: auth.NeedUser, role: admin, handle: a.createEndpoint},
		{
			method: "POST", path: "/api/notifications", action: "rotate", need: auth.NeedUser, role: admin,
			find:   of.endpoint,
			handle: a.rotateEndpoint,
		},
		{
			method: "POST", path: "/api/notifications", action: "test", need: auth.NeedUser, role: admin,
			find:   of.endpoint,
			handle: a.testEndpoint,
		},
		{method: "PUT", path: "/api/notifications", need: auth.NeedUser, role: admin, find: of.endpoint, handle: a.updateEndpoint},
		{method: "DELETE", path: "/api/notifications", need: auth.NeedUser, role: admin, find: of.endpoint, handle: a.deleteEndpoint},
		{
			method: "GET", path: "/api/notifications/messages", need: auth.NeedUser, role: admin,
			find: of.message, list: params{"endpointId", "status", "limit", "cursor"},
			handle: a.getMessages,
		},
		{
			method: "POST", path: "/api/notifications/messages", action: "*", need: auth.NeedUser, role: admin,
			find:   of.message,
			handle: a.postMessages,
		},
	}
}

// loginRoutes are what people have before they have an organization.
func (a *api) loginRoutes() []route {
	const member = domain.RoleMember
	of := a.finders()
	return []route{
		{method: "POST", path: "/api/auth/signup", need: auth.NeedNobody, handle: a.signup},
		{method: "POST", path: "/api/auth/login", need: auth.NeedNobody, handle: a.login},
		{
			method: "POST", path: "/api/auth/logout", need: auth.NeedUser, role: member, login: true,
			list:   params{"everywhere"},
			handle: a.logout,
		},
		{method: "GET", path: "/api/auth/session", need: auth.NeedUser, role: member, handle: a.session},
		{
			method: "GET", path: "/api/auth/sessions", need: auth.NeedUser, role: member, login: true,
			find: of.login, list: paged, one: readOne(a.readLogin, id.Login),
			handle: a.listLogins,
		},
		{
			method: "DELETE", path: "/api/auth/sessions", need: auth.NeedUser, role: member, login: true,
			find:   of.login,
			handle: a.endLogin,
		},
		{method: "POST", path: "/api/auth/accept", need: auth.NeedNobody, handle: a.accept},
		{
			method: "GET", path: "/api/auth/invitations", need: auth.NeedUser, role: member, login: true,
			find: of.invitation, list: paged, one: readOne(a.readInvitation, id.Invitation),
			handle: a.listInvitations,
		},
		{
			method: "POST", path: "/api/auth/invitations", action: "*", need: auth.NeedUser, role: member, login: true,
			find:   of.invitation,
			handle: a.answerInvitation,
		},
		{method: "POST", path: "/api/auth/reset", need: auth.NeedNobody, handle: a.reset},
		{method: "GET", path: "/api/auth/oidc", need: auth.NeedNobody, list: params{"next", "takeover"}, handle: a.beginOIDC},
		{method: "GET", path: "/api/auth/oidc/callback", need: auth.NeedNobody, open: true, handle: a.finishOIDC},
	}
}

// accountRoutes are organizations, their members and keys.
func (a *api) accountRoutes() []route {
	const member, admin, owner = domain.RoleMember, domain.RoleAdmin, domain.RoleOwner
	of := a.finders()
	return []route{
		{
			method: "GET", path: "/api/organizations", need: auth.NeedUser, role: member,
			find: of.organization, list: paged,
			handle: a.getOrganizations,
		},
		{method: "POST", path: "/api/organizations", need: auth.NeedUser, role: member, person: true, handle: a.createOrganization},
		{
			method: "PUT", path: "/api/organizations", need: auth.NeedUser, role: member,
			find:   of.organization,
			handle: a.renameOrganization,
		},
		{method: "GET", path: "/api/organizations/limits", need: auth.NeedUser, role: member, handle: a.getLimits},
		{
			method: "GET", path: "/api/organizations/members", need: auth.NeedUser, role: member,
			find: of.member, list: paged, one: readOne(a.readMember, id.User, id.Invitation),
			handle: a.listMembers,
		},
		{method: "POST", path: "/api/organizations/members", need: auth.NeedUser, role: owner, handle: a.addMember},
		{
			method: "POST", path: "/api/organizations/members", action: "reset", need: auth.NeedUser, role: admin,
			find:   of.member,
			handle: a.resetMember,
		},
		{
			method: "DELETE", path: "/api/organizations/members", need: auth.NeedUser, role: member,
			find:   of.member,
			handle: a.removeMember,
		},

		{
			method: "GET", path: "/api/keys", need: auth.NeedUser, role: member,
			find: of.key, list: paged, one: readOne(a.readKey, id.Key),
			handle: a.listKeys,
		},
		{method: "POST", path: "/api/keys", need: auth.NeedUser, role: member, handle: a.createKey},
		{method: "POST", path: "/api/keys", action: "rotate", need: auth.NeedUser, role: member, find: of.key, handle: a.rotateKey},
		{method: "DELETE", path: "/api/keys", need: auth.NeedUser, role: member, find: of.key, handle: a.revokeKey},
	}
}

// pages is everything else: no gate stands before these.
func (a *api) pages(m *metrics) []route {
	return []route{
		{method: "GET", path: "/healthz", handle: healthz},
		{method: "GET", path: "/readyz", handle: a.readyz},
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
	e.Use(answerHead)
	if a.Tracer.On() {
		e.Use(a.traced())
	}
	e.Use(a.observe(m))
	e.NoRoute(a.stray(apierr.New(apierr.NotFound, "no such resource")))
	e.NoMethod(a.preflight,
		a.stray(apierr.New(apierr.MethodNotAllowed, "this resource does not have the method; the header Allow lists those it has")))
	for _, r := range withHead(a.pages(m)) {
		e.Handle(r.method, r.path, r.handle)
	}
	for _, group := range grouped(withHead(a.routes())) {
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
	none := group[0]
	if len(group) == 1 {
		return a.gate(none)
	}
	none.other = group[1].action
	first := a.gate(none)
	actions := map[string]gin.HandlerFunc{}
	for _, r := range group[1:] {
		actions[r.action] = a.gate(r)
	}
	unknown := group[0]
	unknown.role, unknown.find, unknown.open = domain.RoleMember, nil, true
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
