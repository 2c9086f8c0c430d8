package httpapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

// routes is everything under /api and /v1, and /mcp.
func (a *api) routes() []httpx.Route {
	const member = domain.RoleMember
	return slices.Concat(a.loginRoutes(), a.accountRoutes(), a.agentRoutes(), a.runRoutes(), a.knowledge.Routes(), a.deliveryRoutes(), []httpx.Route{
		{Method: "POST", Path: "/api/internal/run-automation", Need: auth.NeedKey, Role: member, Late: true, Handle: a.runAutomation},
		{Method: "POST", Path: "/mcp", Need: auth.NeedUserKey, Role: member, Handle: a.mcp},
	}, a.v1Routes())
}

// agentRoutes are agents, templates and chats.
func (a *api) agentRoutes() []httpx.Route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	of := a.finders()
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/agents/templates", Need: auth.NeedPublic,
			Find: of.template, List: httpx.Paged, One: httpx.ReadOne(a.readTemplate, id.Template),
			Handle: a.listTemplates,
		},
		{
			Method: "GET", Path: "/api/agents", Need: auth.NeedUser, Role: member,
			Find: of.agent, List: httpx.Params{"q", "limit", "cursor"},
			Handle: a.getAgents,
		},
		{Method: "POST", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Handle: a.createAgent},
		{
			Method: "POST", Path: "/api/agents", Action: "chat", Need: auth.NeedDemo, Role: member, Late: true,
			Find: of.target, List: httpx.Params{"template", "format"}, Beside: httpx.Params{"template", "format"},
			Handle: a.chat,
		},
		{
			Method: "POST", Path: "/api/agents", Action: "import-openapi", Need: auth.NeedUser, Role: admin,
			Find:   of.agent,
			Handle: a.importOpenAPI,
		},
		{Method: "POST", Path: widgetSessionsPath, Need: auth.NeedPage, Handle: a.widgetSession},
		{Method: "PUT", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Find: of.agent, Handle: a.updateAgent},
		{Method: "DELETE", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Find: of.agent, Handle: a.deleteAgent},

		{
			Method: "GET", Path: "/api/sessions", Need: auth.NeedUser, Role: member,
			Find: of.session, List: httpx.Params{"principal", "limit", "cursor"}, Beside: httpx.Params{"agentId", "templateId", "principal", "limit", "cursor"},
			Handle: a.getSessions,
		},
		{
			Method: "DELETE", Path: "/api/sessions", Need: auth.NeedUser, Role: member,
			Find: of.session, Beside: httpx.Params{"agentId", "templateId", "principal"},
			Handle: a.eraseSession,
		},
	}
}

// runRoutes are runs and what they used, made and cited.
func (a *api) runRoutes() []httpx.Route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	of := a.finders()
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/runs", Need: auth.NeedUser, Role: member,
			Find: of.run, List: httpx.Params{"agentId", "sessionId", "automationId", "status", "limit", "cursor"},
			Beside: httpx.Params{"wait", "stream", "format", "timeline"},
			Handle: a.getRuns,
		},
		{
			Method: "POST", Path: "/api/runs", Action: "*", Need: auth.NeedUser, Role: member,
			Find: of.run, Beside: httpx.Params{"toolCallId"},
			Handle: a.postRuns,
		},
		{
			Method: "GET", Path: "/api/automations", Need: auth.NeedUser, Role: admin,
			Find: of.automation, List: httpx.Paged, One: httpx.ReadOne(a.readAutomation),
			Handle: a.getAutomations,
		},
		{
			Method: "GET", Path: "/api/usage", Need: auth.NeedUser, Role: admin,
			List:   httpx.Params{"days", "agentId", "keyId", "automationId", "by"},
			Handle: a.getUsage,
		},
		{Method: "GET", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: of.budget, List: httpx.Paged, Handle: a.getBudgets},
		{Method: "POST", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Handle: a.createBudget},
		{Method: "PUT", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: of.budget, Handle: a.updateBudget},
		{Method: "DELETE", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: of.budget, Handle: a.deleteBudget},

		{Method: "GET", Path: "/api/events", Need: auth.NeedUser, Role: member, Stream: true, Handle: a.streamChanges},

		{Method: "GET", Path: "/api/sources", Need: auth.NeedUser, Role: member, Find: of.source, Handle: a.getSource},
		{Method: "GET", Path: "/api/files", Need: auth.NeedUser, Role: member, Find: of.file, Handle: a.getFile},
	}
}

// deliveryRoutes are webhooks, in and out.
func (a *api) deliveryRoutes() []httpx.Route {
	const admin = domain.RoleAdmin
	of := a.finders()
	return []httpx.Route{
		{Method: "GET", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: of.hook, List: httpx.Paged, Handle: a.getHooks},
		{Method: "POST", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Handle: a.createHook},
		{Method: "POST", Path: "/api/hooks", Action: "rotate", Need: auth.NeedUser, Role: admin, Find: of.hook, Handle: a.rotateHook},
		{Method: "POST", Path: "/api/hooks", Action: "test", Need: auth.NeedUser, Role: admin, Find: of.hook, Handle: a.testHook},
		{Method: "PUT", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: of.hook, Handle: a.updateHook},
		{Method: "DELETE", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: of.hook, Handle: a.deleteHook},
		{
			Method: "GET", Path: "/api/hooks/deliveries", Need: auth.NeedUser, Role: admin,
			Find: of.delivery, List: httpx.Params{"hookId", "runId", "status", "limit", "cursor"}, Beside: httpx.Params{"hookId"},
			Handle: a.getDeliveries,
		},
		{
			Method: "POST", Path: "/api/hooks/deliveries", Action: "*", Need: auth.NeedUser, Role: admin,
			Find: of.delivery, Beside: httpx.Params{"hookId"},
			Handle: a.postDeliveries,
		},

		{
			Method: "GET", Path: "/api/notifications", Need: auth.NeedUser, Role: admin,
			Find: of.endpoint, List: httpx.Paged,
			Handle: a.getNotifications,
		},
		{Method: "POST", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Handle: a.createEndpoint},
		{
			Method: "POST", Path: "/api/notifications", Action: "rotate", Need: auth.NeedUser, Role: admin,
			Find:   of.endpoint,
			Handle: a.rotateEndpoint,
		},
		{
			Method: "POST", Path: "/api/notifications", Action: "test", Need: auth.NeedUser, Role: admin,
			Find:   of.endpoint,
			Handle: a.testEndpoint,
		},
		{Method: "PUT", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Find: of.endpoint, Handle: a.updateEndpoint},
		{Method: "DELETE", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Find: of.endpoint, Handle: a.deleteEndpoint},
		{
			Method: "GET", Path: "/api/notifications/messages", Need: auth.NeedUser, Role: admin,
			Find: of.message, List: httpx.Params{"endpointId", "status", "limit", "cursor"},
			Handle: a.getMessages,
		},
		{
			Method: "POST", Path: "/api/notifications/messages", Action: "*", Need: auth.NeedUser, Role: admin,
			Find:   of.message,
			Handle: a.postMessages,
		},
	}
}

// loginRoutes are what people have before they have an organization.
func (a *api) loginRoutes() []httpx.Route {
	const member = domain.RoleMember
	of := a.finders()
	return []httpx.Route{
		{Method: "POST", Path: "/api/auth/signup", Need: auth.NeedNobody, Handle: a.signup},
		{Method: "POST", Path: "/api/auth/login", Need: auth.NeedNobody, Handle: a.login},
		{
			Method: "POST", Path: "/api/auth/logout", Need: auth.NeedUser, Role: member, Login: true,
			List:   httpx.Params{"everywhere"},
			Handle: a.logout,
		},
		{Method: "GET", Path: "/api/auth/session", Need: auth.NeedUser, Role: member, Handle: a.session},
		{
			Method: "GET", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find: of.login, List: httpx.Paged, One: httpx.ReadOne(a.readLogin, id.Login),
			Handle: a.listLogins,
		},
		{
			Method: "DELETE", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find:   of.login,
			Handle: a.endLogin,
		},
		{Method: "POST", Path: "/api/auth/accept", Need: auth.NeedNobody, Handle: a.accept},
		{
			Method: "GET", Path: "/api/auth/invitations", Need: auth.NeedUser, Role: member, Login: true,
			Find: of.invitation, List: httpx.Paged, One: httpx.ReadOne(a.readInvitation, id.Invitation),
			Handle: a.listInvitations,
		},
		{
			Method: "POST", Path: "/api/auth/invitations", Action: "*", Need: auth.NeedUser, Role: member, Login: true,
			Find:   of.invitation,
			Handle: a.answerInvitation,
		},
		{Method: "POST", Path: "/api/auth/reset", Need: auth.NeedNobody, Handle: a.reset},
		{Method: "GET", Path: "/api/auth/oidc", Need: auth.NeedNobody, List: httpx.Params{"next", "takeover"}, Handle: a.beginOIDC},
		{Method: "GET", Path: "/api/auth/oidc/callback", Need: auth.NeedNobody, Open: true, Handle: a.finishOIDC},
	}
}

// accountRoutes are organizations, their members and keys.
func (a *api) accountRoutes() []httpx.Route {
	const member, admin, owner = domain.RoleMember, domain.RoleAdmin, domain.RoleOwner
	of := a.finders()
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find: of.organization, List: httpx.Paged,
			Handle: a.getOrganizations,
		},
		{Method: "POST", Path: "/api/organizations", Need: auth.NeedUser, Role: member, Person: true, Handle: a.createOrganization},
		{
			Method: "PUT", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find:   of.organization,
			Handle: a.renameOrganization,
		},
		{Method: "GET", Path: "/api/organizations/limits", Need: auth.NeedUser, Role: member, Handle: a.getLimits},
		{
			Method: "GET", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find: of.member, List: httpx.Paged, One: httpx.ReadOne(a.readMember, id.User, id.Invitation),
			Handle: a.listMembers,
		},
		{Method: "POST", Path: "/api/organizations/members", Need: auth.NeedUser, Role: owner, Handle: a.addMember},
		{
			Method: "POST", Path: "/api/organizations/members", Action: "reset", Need: auth.NeedUser, Role: admin,
			Find:   of.member,
			Handle: a.resetMember,
		},
		{
			Method: "DELETE", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find:   of.member,
			Handle: a.removeMember,
		},

		{
			Method: "GET", Path: "/api/keys", Need: auth.NeedUser, Role: member,
			Find: of.key, List: httpx.Paged, One: httpx.ReadOne(a.readKey, id.Key),
			Handle: a.listKeys,
		},
		{Method: "POST", Path: "/api/keys", Need: auth.NeedUser, Role: member, Handle: a.createKey},
		{Method: "POST", Path: "/api/keys", Action: "rotate", Need: auth.NeedUser, Role: member, Find: of.key, Handle: a.rotateKey},
		{Method: "DELETE", Path: "/api/keys", Need: auth.NeedUser, Role: member, Find: of.key, Handle: a.revokeKey},
	}
}

// pages is everything else: no gate stands before these.
func (a *api) pages(m *metrics) []httpx.Route {
	return []httpx.Route{
		{Method: "GET", Path: "/healthz", Handle: healthz},
		{Method: "GET", Path: "/readyz", Handle: a.readyz},
		{Method: "GET", Path: "/metrics", Handle: a.showMetrics(m)},
		{Method: "POST", Path: receivePath + ":id", Handle: a.receiveDelivery}, // what counts is the signature
		{Method: "GET", Path: "/", Handle: toDashboard},
		{Method: "GET", Path: "/login", Handle: a.loginPage},
		{Method: "POST", Path: "/login", Handle: a.loginForm},
		{Method: "GET", Path: acceptPath, Handle: a.acceptPage},
		{Method: "POST", Path: acceptPath, Handle: a.acceptForm},
		{Method: "GET", Path: resetPath, Handle: a.resetPage},
		{Method: "POST", Path: resetPath, Handle: a.resetForm},
		{Method: "GET", Path: "/signup", Handle: a.signupPage},
		{Method: "POST", Path: "/signup", Handle: a.signupForm},
		{Method: "GET", Path: dashboardPath, Handle: a.dashboardPage},
		{Method: "GET", Path: dashboardPath + "/*page", Handle: a.dashboardPage},
		{Method: "GET", Path: "/assets/:name", Handle: asset},
		{Method: "GET", Path: "/widget.js", Handle: widgetScript},
		{Method: "GET", Path: "/widget/preview", Handle: previewPage},
		{Method: "GET", Path: "/favicon.svg", Handle: document("image/svg+xml", web.Favicon)},
		{Method: "GET", Path: "/docs", Handle: document(contentHTML, a.docsPage)},
		{Method: "GET", Path: "/docs/errors", Handle: document(contentHTML, errorsPage)},
		{Method: "GET", Path: "/llms.txt", Handle: document(contentText, a.llmsText)},
		{Method: "GET", Path: "/openapi.json", Handle: document(httpx.ContentJSON, openAPIDocument)},
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
		e.Handle(r.Method, r.Path, r.Handle)
	}
	for _, group := range grouped(withHead(a.routes())) {
		e.Handle(group[0].Method, group[0].Path, a.byAction(group))
	}
	return e
}

// grouped gathers the routes of one method and path, in the table's order.
func grouped(routes []httpx.Route) [][]httpx.Route {
	var out [][]httpx.Route
	at := map[string]int{}
	for _, r := range routes {
		name := r.Method + " " + r.Path
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
func (a *api) byAction(group []httpx.Route) gin.HandlerFunc {
	none := group[0]
	if len(group) == 1 {
		return a.gate(none)
	}
	none.Other = group[1].Action
	first := a.gate(none)
	actions := map[string]gin.HandlerFunc{}
	for _, r := range group[1:] {
		actions[r.Action] = a.gate(r)
	}
	unknown := group[0]
	unknown.Role, unknown.Find, unknown.Open = domain.RoleMember, nil, true
	unknown.Handle = func(c *gin.Context) {
		httpx.Fail(c, apierr.Invalid("action", httpx.CodeInvalidValue, "must be one of the actions of this resource, once"))
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
		httpx.StateOf(c).Ident = ident
		if !auth.SaysDemo(c.Request) {
			a.ShowLimit(c)
			httpx.Fail(c, answer)
			return
		}
		if err != nil || ident.Caller.Kind == domain.CallerDemo {
			if err := a.CountDemo(c); err != nil {
				httpx.Fail(c, err)
				return
			}
		}
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		a.ShowLimit(c)
		httpx.Fail(c, answer)
	}
}

func toDashboard(c *gin.Context) { c.Redirect(http.StatusSeeOther, dashboardPath) }
