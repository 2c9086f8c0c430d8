package site

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/id"
)

const (
	// Cache-Control of assets whose names contain a hash of their content.
	assetAge  = "public, max-age=31536000, immutable"
	widgetAge = "public, max-age=300" // Cache-Control of assets whose names stay the same when their content changes
)

// dashboardPage handles GET /dashboard and all paths below it: it responds with the page that loads
// the dashboard. Without a session cookie it redirects to the login page, except for pages that are
// open to demo visitors. The page contains the session of the person, so that the dashboard needs
// no request for it. The router passes all paths below /dashboard, because the dashboard has its
// own router.
func (h *Handler) dashboardPage(c *gin.Context) {
	ident, err := h.Auth.Resolve(c.Request, auth.NeedUser)

	// If the database is unreachable, show the error, because a redirect to the login page would
	// suggest that the person is logged out.
	if code := apierr.CodeFor(err); code == apierr.Unavailable || code == apierr.Overloaded {
		httpx.Fail(c, err)
		return
	}

	boot := web.Boot{BaseURL: h.PublicURL, Reset: h.Reset, Currency: h.Currency}
	switch {
	case err == nil && ident.Via == auth.ViaCookie:
		httpx.StateFor(c).Ident = ident
		view, err := h.Session(c.Request.Context(), ident.Caller)
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		boot.Session = view
	case !opensDemo(c.Request.URL):
		c.Redirect(http.StatusSeeOther, loginFor(c.Request.URL))
		return
	}

	body, err := web.RenderDashboard(boot)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	pages.Show(c, http.StatusOK, body, web.DashboardSecurityPolicy)
}

// opensDemo reports whether a dashboard URL is open to demo visitors, who have no account. Only the
// pages of templates are.
func opensDemo(address *url.URL) bool {
	under := strings.TrimPrefix(address.Path, pages.Dashboard+"/templates")
	return under != address.Path && (under == "" || under[0] == '/') && address.Query().Get("token") == "demo"
}

// loginFor returns the URL of the login page, from which a person continues to the requested page
// after the login. The dashboard itself is the default, so it needs no parameter.
func loginFor(asked *url.URL) string {
	next := pages.ReturnTo([]string{asked.RequestURI()})
	if next == "" || next == pages.Dashboard {
		return "/login"
	}
	return "/login?" + url.Values{"next": {next}}.Encode()
}

// asset handles GET /assets/:name: it responds with a bundle of scripts or styles, or with the list
// of licences. The name of a bundle changes with its content. The scripts of the widget have their
// own paths, and are not found here.
func asset(c *gin.Context) {
	assets, err := web.Assets()
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	found, known := assets[c.Param("name")]
	switch name := c.Param("name"); {
	case !known || name == web.WidgetScript || name == web.WidgetFiles:
		httpx.Fail(c, apierr.Missing())
	case name == web.Licences:
		pages.Serve(c, found, widgetAge)
	default:
		pages.Serve(c, found, assetAge)
	}
}

// widgetScript returns the handler for a script of the widget, which pages of any origin may load.
// The argument name must be the name of an asset. The content of the script changes with each
// release, so browsers keep it only for a short time.
func widgetScript(name string) gin.HandlerFunc {
	return func(c *gin.Context) {
		assets, err := web.Assets()
		if err != nil {
			httpx.Fail(c, err)
			return
		}

		header := c.Writer.Header()
		header.Set("Access-Control-Allow-Origin", "*") // browsers require it for modules and for scripts with an integrity hash
		header.Set("Cross-Origin-Resource-Policy", "cross-origin")
		pages.Serve(c, assets[name], widgetAge)
	}
}

// previewPage handles GET /widget/preview?agent=: it responds with a page that embeds an agent's
// widget as a website would. The request needs no login.
func previewPage(c *gin.Context) {
	agents := c.Request.URL.Query()["agent"]
	if len(agents) != 1 || !id.Valid(id.Agent, agents[0]) {
		pages.Notice(c, http.StatusBadRequest, "The address must name an agent, such as /widget/preview?agent=ag_….")
		return
	}

	body, err := web.RenderPreview(web.Preview{AgentID: agents[0]})
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	pages.Show(c, http.StatusOK, body, web.DashboardSecurityPolicy)
}

// toDashboard handles GET /.
// The dashboard redirects to the login page if necessary.
func toDashboard(c *gin.Context) { c.Redirect(http.StatusSeeOther, pages.Dashboard) }
