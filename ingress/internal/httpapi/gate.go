package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// gate lets through to a route's handler whoever the route is for.
func (a *api) gate(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		stateOf(c).large = &a.large
		a.share(c, r)
		if err := a.admit(c, r); err != nil {
			fail(c, err)
			return
		}
		if _, named := query(c)["id"]; named && r.one != nil {
			r.one(c)
			return
		}
		r.handle(c)
	}
}

// admit checks a request in the order of the contract: credential, permission, limit, the id in the query, parameters, body. A
// request is counted also when it is refused before. What the id names is looked up when a later check, the handler's own
// included, refuses the request: see [fail].
func (a *api) admit(c *gin.Context, r route) error {
	ident, refused := a.Auth.Resolve(c.Request, r.need)
	if auth.SaysDemo(c.Request) && (refused != nil || ident.Caller.Kind == domain.CallerDemo) {
		// Every request with the demo header counts, whatever comes of it, unless a good credential stands in.
		if err := a.countDemo(c); err != nil {
			return err
		}
	}
	ident.Caller.Client = a.Auth.DemoClient(c.Request)
	st := stateOf(c)
	st.ident = ident // with an error, too, when the credential is good: then its limit is known
	if refused == nil {
		if err := a.checkPage(c, r, ident.Via); err != nil {
			return err
		}
	}
	var malformed error
	st.query, malformed = readQuery(c.Request.URL.RawQuery)
	if refused == nil {
		refused = mayUse(c, r)
	}
	overLimit := a.count(c, r)
	if refused != nil && (overLimit == nil || ident.Via != auth.ViaWidget) { // visitors need no account: their limit is first
		return refused
	}
	if overLimit != nil {
		return overLimit
	}

	if r.find != nil {
		st.find = func() error { return a.findLate(c, &r) }
	}
	if malformed != nil {
		return malformed
	}
	if err := r.checkQuery(c); err != nil {
		return err
	}
	return readableBody(c.Request, r.forms)
}

// checkPage refuses pages of other origins where a browser adds the credential, or none is needed.
func (a *api) checkPage(c *gin.Context, r route, via auth.Via) error {
	if via != auth.ViaCookie && (via != auth.ViaNothing || r.need == auth.NeedPage) {
		return nil
	}
	cause := a.origins.Check(c.Request)
	if cause == nil {
		return nil
	}
	a.showLimit(c) // another's page must not use up the visitor's limit
	return apierr.Wrap(apierr.PermissionDenied, cause, "a page of another origin may not send this request")
}

// findLate looks up what the query's id names. A late route has not looked at the limit by then.
func (a *api) findLate(c *gin.Context, r *route) error {
	who := caller(c)
	late := r.late && who.Kind != domain.CallerDemo && who.Visitor.ID == ""
	if d, known := a.Limits.Peek(who); late && known && d.Remaining == 0 {
		return limited(ratelimit.Decision{Limit: d.Limit, RetryAfter: d.Reset})
	}
	return r.find(c)
}

// readableBody refuses a body that is no JSON, and no form where there may be one, also where none is read. In GET and
// DELETE a body means nothing.
func readableBody(req *http.Request, forms bool) error {
	bodied := req.Method == http.MethodPost || req.Method == http.MethodPut
	switch {
	case !bodied || req.ContentLength == 0 || isJSON(req.Header):
		return nil
	case !forms:
		return notJSON()
	case isForm(req.Header):
		return nil
	}
	return neitherJSONNorForm()
}

// count counts a request against its caller's limit, when it is known who calls and it was not counted already. A
// late route's handler counts; until it does its answers show where the limit stands.
func (a *api) count(c *gin.Context, r route) error {
	who := caller(c)
	if identity(c).Via == auth.ViaWidget {
		if err := a.countVisitor(c); err != nil {
			return err
		}
	}
	switch {
	case who.Kind != domain.CallerUser && (who.Kind != domain.CallerSystem || who.OrganizationID == ""):
		return nil
	case r.late || who.Visitor.ID != "": // whose requests are counted, and who begins runs on a late route only
		a.showLimit(c)
		return nil
	}
	return a.spend(c)
}

// mayUse checks what a known caller may do at a route.
func mayUse(c *gin.Context, r route) error { //nolint:cyclop // a list of cases
	who := caller(c)
	switch {
	case who.Kind == domain.CallerDemo:
		// The demo may chat with templates; whether exactly one target is named is the handler's matter.
		if r.need == auth.NeedDemo && (len(query(c)["template"]) == 0 || len(query(c)["id"]) > 0) {
			return auth.DemoRestricted()
		}
	case who.Kind == "": // anonymous, on a public route
	case who.Visitor.ID != "" && r.need == auth.NeedPublic:
	case who.Visitor.ID != "":
		if q := query(c); len(q["id"]) != 1 || q["id"][0] != who.Visitor.AgentID || len(q["template"]) > 0 {
			return auth.WidgetRestricted()
		}
	case r.role != "" && !who.Role.AtLeast(r.role):
		return apierr.New(apierr.PermissionDenied, "this takes the role %s", r.role)
	case r.login && identity(c).Token == "":
		return apierr.New(apierr.PermissionDenied, "an API key has no login sessions: it is revoked instead")
	case r.person && who.UserID == "":
		return apierr.New(apierr.PermissionDenied, "an organization's key is not a person and cannot own another organization")
	}
	return nil
}
