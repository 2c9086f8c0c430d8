package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/offload"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// admissionHandler returns a handler that checks a request with admit and then calls the route's
// handler. If the handler may wait for a run or its events, admit runs on a goroutine of package
// offload. The route is passed by pointer, because a Route is large and would stay on the stacks of
// waiting requests. Handlers of the routes under /api, /v1 and /mcp are called only through the
// returned handler.
func (a *api) admissionHandler(r httpx.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		defer httpx.EndReservation(c)
		defer httpx.ReleaseBody(c) // releases the slot of the body, if the handler has not done so

		var err error
		if r.Waits {
			offload.Do(func() { err = a.admit(c, &r) })
		} else {
			err = a.admit(c, &r)
		}
		if err != nil {
			httpx.Fail(c, err)
			return
		}

		// The route of a list may have a separate handler for queries with an id.
		if _, named := httpx.Query(c)["id"]; named && r.One != nil {
			r.One(c)
			return
		}
		r.Handle(c)
	}
}

// admit checks a request in the documented order: credential, permission, rate limit, the query's
// id, parameters, body. A request that fails an early check still counts against the rate limit.
//
// The resource named by the query's id is looked up only if another check rejects the request,
// including a check of the handler; see [httpx.Fail]. The error has the code of the first check
// that fails. admit also sets the fields of the request's State that handlers use.
func (a *api) admit(c *gin.Context, r *httpx.Route) error {
	st := httpx.StateFor(c)
	st.Large, st.LargeBodies = &a.large, &a.bodies
	a.widget.Share(c, *r)

	ident, refused := a.Auth.Resolve(c.Request, r.Need)
	if auth.SaysDemo(c.Request) && (refused != nil || ident.Caller.Kind == domain.CallerDemo) {
		// Every request with the demo header counts against the demo limit, whatever its outcome,
		// unless it also has a valid credential.
		if err := a.CountDemo(c); err != nil {
			return err
		}
	}

	// The limits of visitors depend on the client's address.
	ident.Caller.Client = a.Auth.DemoClient(c.Request)
	st.Ident = ident // even after an error, because the caller may be known, and the caller's rate limit applies
	if refused == nil {
		if err := a.checkPage(c, *r, ident.Via); err != nil {
			return err
		}
	}

	// Errors of the credential, the permission and the rate limit come before an error of the
	// query.
	var malformed error
	st.Query, malformed = httpx.ReadQuery(c.Request.URL.RawQuery)
	if refused == nil {
		refused = checkAccess(c, *r)
	}

	// Requests that will be rejected count, too. Otherwise a caller could make any number of
	// attempts.
	overLimit := a.count(c, *r)
	if refused != nil && (overLimit == nil || ident.Via != auth.ViaWidget) { // visitors need no account, so their limit takes precedence
		return refused
	}
	if overLimit != nil {
		return overLimit
	}

	// The errors of later checks describe the request in detail. Only a caller who may read the
	// resource may see them.
	if r.Find != nil {
		st.Find = func() error { return a.findLate(c, r) }
	}
	if malformed != nil {
		return malformed
	}
	return checkRequest(c, r)
}

// checkPage rejects requests from pages of other origins if they have a cookie, which browsers send
// automatically, or no credential. API keys are never sent automatically, so requests with a key
// are accepted from any page. The error is permission_denied.
func (a *api) checkPage(c *gin.Context, r httpx.Route, via auth.Via) error {
	if via != auth.ViaCookie && (via != auth.ViaNothing || r.Need == auth.NeedPage) {
		return nil
	}

	cause := a.origins.Check(c.Request)
	if cause == nil {
		return nil
	}
	a.ShowLimit(c) // show the limit, but do not count the request, because pages of other origins must not use up the limit
	return apierr.Wrap(apierr.PermissionDenied, cause, "requests from pages of other origins are not allowed")
}

// findLate looks up the resource named by the query's id. If the field Late of the route is true,
// the rate limit has not been checked yet. findLate then first returns an error if the caller is
// over the limit. It does not count the request, because the handler does.
func (a *api) findLate(c *gin.Context, r *httpx.Route) error {
	who := httpx.Caller(c)
	late := r.Late && who.Kind != domain.CallerDemo && who.Visitor.ID == ""
	if d, known := a.Limits.Peek(who); late && known && d.Remaining == 0 {
		return httpx.Refusal(ratelimit.Decision{Limit: d.Limit, RetryAfter: d.Reset})
	}
	return r.Find(c)
}

// checkRequest checks the parameters, the precondition and the body's type. It also sets the
// parameters that handlers read from the State.
func checkRequest(c *gin.Context, r *httpx.Route) error {
	if err := r.CheckQuery(c); err != nil {
		return err
	}

	// Reject a precondition that the handler would ignore, because the client relies on it.
	if changes := r.Method == http.MethodPut || r.Method == http.MethodDelete; changes && !r.Match {
		if err := httpx.RefuseMatch(c.Request.Header); err != nil {
			return err
		}
	}
	return checkBody(c, r)
}

// checkBody rejects a body that is neither JSON nor a form that the route accepts. On a route that
// takes no body, it rejects a body with fields. An empty body is accepted here; the handler reports
// it if the body is required.
func checkBody(c *gin.Context, r *httpx.Route) error {
	req := c.Request

	switch {
	case r.RefusesFields():
		return httpx.RefuseFields(c)
	case req.Method == http.MethodGet || req.Method == http.MethodHead || req.ContentLength == 0 || httpx.IsJSON(req.Header) || r.Raw:
		return nil
	case !r.Forms:
		return httpx.NotJSON()
	case httpx.IsForm(req.Header):
		return nil
	}

	return httpx.NeitherJSONNorForm()
}

// count counts a request against its caller's rate limit, if the caller is known. If the field Late
// of the route is true, the handler counts the request, and count only sets the headers with the
// current limit. Unknown callers are limited by other means: by the demo limit, or by the limits
// for wrong passwords. The error is rate_limited.
func (a *api) count(c *gin.Context, r httpx.Route) error {
	who := httpx.Caller(c)

	// Visitors count against limits of their own.
	if httpx.Identity(c).Via == auth.ViaWidget {
		if err := a.CountVisitor(c); err != nil {
			return err
		}
	}

	switch {
	case who.Kind != domain.CallerUser && (who.Kind != domain.CallerSystem || who.OrganizationID == ""):
		return nil
	case r.Late || who.Visitor.ID != "": // their handlers count the requests
		a.ShowLimit(c)
		return nil
	}

	return a.Spend(c)
}

// checkAccess checks whether a known caller may use a route. Permissions that depend on the
// resource are checked later.
func checkAccess(c *gin.Context, r httpx.Route) error { //nolint:cyclop // a list of cases
	who := httpx.Caller(c)
	switch {
	case who.Kind == domain.CallerDemo:
		// Demo visitors may chat only with templates. The handler checks that the query names
		// exactly one agent or template.
		if r.Need == auth.NeedDemo && (len(httpx.Query(c)["template"]) == 0 || len(httpx.Query(c)["id"]) > 0) {
			return auth.DemoRestricted()
		}
	case who.Kind == "": // anonymous, on a public route
	case who.Visitor.ID != "" && r.Need != auth.NeedDemo: // on these routes, the token determines the agent
	case who.Visitor.ID != "": // visitors may only use their own agent, which the token names
		if q := httpx.Query(c); len(q["id"]) != 1 || q["id"][0] != who.Visitor.AgentID || len(q["template"]) > 0 {
			return auth.WidgetRestricted()
		}
	case r.Role != "" && !who.Role.AtLeast(r.Role):
		return apierr.New(apierr.PermissionDenied, "this operation needs the role %s", r.Role)
	case r.Login && httpx.Identity(c).Token == "":
		return apierr.New(apierr.PermissionDenied, "this operation needs a login session; API keys have none")
	case r.Person && who.UserID == "":
		return apierr.New(apierr.PermissionDenied,
			"an organization's API key cannot own an organization; use a user's API key or a login session")
	}

	return nil
}
