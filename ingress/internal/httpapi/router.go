package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/account"
	"parley/ingress/internal/httpapi/hook"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/mcp"
	"parley/ingress/internal/httpapi/openai"
	"parley/ingress/internal/httpapi/pages"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// routes returns the routes under /api, /v1 and /mcp. The order matters only for routes with the
// same path and method: the first of them is the default.
func (a *api) routes() []httpx.Route {
	return slices.Concat(a.account.Routes(), a.organizations.Routes(), a.agents.Routes(), a.runs.Routes(), a.usage.Routes(),
		a.knowledge.Routes(), a.hooks.Routes(), a.notifications.Routes(), a.widget.Routes(), a.mcp.Routes(),
		a.openai.Routes(), a.voice.Routes())
}

// pages returns all routes except those that the method routes returns. Admission does not check
// their requests. Each route authenticates its callers itself, or needs no credential. The routes
// for probes ignore the query, because load balancers add parameters.
func (a *api) pages(m *metrics) []httpx.Route {
	people := account.Pages{Handler: a.account}
	own := []httpx.Route{
		{Method: "GET", Path: "/healthz", Handle: healthz},
		{Method: "GET", Path: "/readyz", Handle: a.readyz},
		{Method: "GET", Path: "/metrics", Handle: a.showMetrics(m)},
		{Method: "POST", Path: hook.ReceivePath + ":id", Handle: httpx.Handle(a.hooks.ReceiveDelivery)}, // authenticated by its signature
		{Method: "GET", Path: filelink.Path, Handle: pages.StrictQuery(a.runs.Files().OpenLink, httpx.Fail, filelink.Token)},
	}
	return slices.Concat(own, people.Routes(), a.site.Routes())
}

// engine builds the router from the route tables. It is called once, at the start. A conflict of
// paths causes a panic.
func (a *api) engine(m *metrics) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false

	e.UseRawPath = true // otherwise an escaped slash would count as a separator, unlike in the rules of proxies that protect paths
	e.ContextWithFallback = false
	// Package auth determines the addresses of clients behind proxies, so gin must trust no proxy.
	if err := e.SetTrustedProxies(nil); err != nil {
		panic(err) // an empty list is always valid
	}

	// The order of the middlewares matters: answerHead sees the response last.
	e.Use(answerHead)
	if a.Tracer.On() {
		e.Use(a.traced())
	}

	e.Use(a.observe(m))
	missing := a.noRoute(apierr.New(apierr.NotFound, "no such path; /openapi.json lists the paths of the API"))
	missingV1 := a.noRoute(openai.NoSuchPath(a.routes()))
	noOAuth := a.noRoute(mcp.NoOAuth())
	e.NoRoute(func(c *gin.Context) {
		switch {
		case wantsPage(c):
			pages.NotFound(c)
		case openai.OfV1(c):
			missingV1(c)
		case mcp.IsRegistration(c):
			noOAuth(c)
		default:
			missing(c)
		}
	})

	// The widget's preflight comes first, because OPTIONS is no route of its own.
	e.NoMethod(a.widget.Preflight,
		a.noRoute(apierr.New(apierr.MethodNotAllowed, "method not allowed; the Allow header lists the supported methods")))
	for _, r := range withHead(a.pages(m)) {
		e.Handle(r.Method, r.Path, r.Handle)
	}

	all := withHead(a.routes())
	for _, group := range groupRoutes(all) {
		group[0].Elsewhere = actionsElsewhere(all, group[0])
		e.Handle(group[0].Method, group[0].Path, a.byAction(group))
	}
	return e
}

// actionsElsewhere returns the actions that the route's path has only with another method. It maps
// each action to that method. The error for such an action names the right method. An action that
// the route's own method has too is left out.
func actionsElsewhere(all []httpx.Route, r httpx.Route) map[string]string {
	methods := map[string]string{}
	for _, other := range all {
		if other.Path == r.Path && other.Method != r.Method && other.Action != "" {
			methods[other.Action] = other.Method
		}
	}
	for _, own := range all {
		if own.Path == r.Path && own.Method == r.Method {
			delete(methods, own.Action)
		}
	}
	return methods
}

// wantsPage reports whether a browser requests a page, and not a path of the API. Such requests get
// an HTML page for an unknown path.
func wantsPage(c *gin.Context) bool {
	at := c.Request.URL.Path
	return (c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead) &&
		!strings.HasPrefix(at, "/api/") && !openai.OfV1(c) && !strings.HasPrefix(at, "/mcp") &&
		slices.ContainsFunc(httpx.ReadAccept(c.Request.Header), func(r httpx.MediaRange) bool { return r.Media == "text/html" })
}

// groupRoutes groups the routes by method and path. It keeps the order of the table. Routes of one
// group differ only in their actions.
func groupRoutes(routes []httpx.Route) [][]httpx.Route {
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

// byAction returns the handler for the routes of a group, which differ in their actions. It selects
// the route by the query's action. The first route handles requests without an action and, if its
// own action is "*", all other requests without a route. A query with several values of action is
// rejected.
func (a *api) byAction(group []httpx.Route) gin.HandlerFunc {
	none := group[0]
	if len(group) == 1 {
		return a.admissionHandler(none)
	}

	if none.Action == "" {
		none.Actions = actionsByParameter(group[1:])
	}

	first := a.admissionHandler(none)
	actions := map[string]gin.HandlerFunc{}
	for _, r := range group[1:] {
		actions[r.Action] = a.admissionHandler(r)
	}

	// Admission also checks requests with an unknown action, so that their credentials are checked
	// and they count against the rate limit.
	unknown := group[0]
	unknown.Role, unknown.Find, unknown.Open = domain.RoleMember, nil, true
	unknown.Handle = func(c *gin.Context) {
		err := none.MethodError(c.QueryArray("action"))
		if err == nil {
			err = apierr.Invalid("action", httpx.CodeInvalidValue, "must be given once, and must be %s", httpx.OneName(actionNames(group)))
		}
		httpx.Fail(c, err)
	}
	refuse := a.admissionHandler(unknown)
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
		if none.Action == "*" {
			first(c)
			return
		}
		refuse(c)
	}
}

// actionsByParameter returns the actions of the routes that take an id, and of those that take a
// template, under the names of the parameters.
func actionsByParameter(routes []httpx.Route) map[string][]string {
	byID := slices.DeleteFunc(slices.Clone(routes), func(r httpx.Route) bool { return r.Find == nil })
	byTemplate := slices.DeleteFunc(slices.Clone(routes), func(r httpx.Route) bool { return !slices.Contains(r.List, "template") })
	return map[string][]string{"id": actionNames(byID), "template": actionNames(byTemplate)}
}

// actionNames returns the actions of the routes in alphabetical order.
func actionNames(routes []httpx.Route) []string {
	names := []string{}
	for _, r := range routes {
		if r.Action != "" {
			names = append(names, r.Action)
		}
	}
	slices.Sort(names)
	return names
}

// noRoute returns the handler for requests without a route. It responds with the error in the
// parameter answer, and with the headers that show the caller's current rate limit. If the request
// has the demo header but no valid credential, it counts against the demo limit and gets an error
// of the demo. The request is authenticated, so that the log line has the caller, but it does not
// count against the rate limit.
func (a *api) noRoute(answer *apierr.Error) gin.HandlerFunc {
	return func(c *gin.Context) {
		ident, err := a.Auth.Resolve(c.Request, auth.NeedUser)
		httpx.StateFor(c).Ident = ident
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
