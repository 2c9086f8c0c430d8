package site

import (
	"context"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/web"
	"parley/shared/domain"
)

// Deps contains the dependencies and settings of the Handler.
type Deps struct {
	Auth *auth.Resolver
	// Session returns the response of GET /api/auth/session for a caller.
	Session   func(context.Context, domain.Caller) (any, error)
	PublicURL string // URL at which browsers reach the service
	Reset     string // command that prints a link to set a new password
	Currency  string // of costs
}

// Handler handles the requests for pages and assets. There is one per process. It is safe for
// concurrent use.
type Handler struct {
	Deps
	guides func() (map[string]web.Asset, error) // pages of the documentation, rendered once because any client may request them
}

// New returns a Handler.
func New(deps Deps) *Handler {
	h := &Handler{Deps: deps}
	h.guides = sync.OnceValues(h.renderGuides)
	return h
}

// Routes returns the routes of the handler. All of them are open to everybody. The page of the
// dashboard checks the cookie of the person itself.
func (h *Handler) Routes() []httpx.Route {
	return []httpx.Route{
		{Method: "GET", Path: "/", Handle: toDashboard},
		{Method: "GET", Path: pages.Dashboard, Handle: h.dashboardPage},
		{Method: "GET", Path: pages.Dashboard + "/*page", Handle: h.dashboardPage},
		{Method: "GET", Path: "/assets/:name", Handle: asset},
		{Method: "GET", Path: "/" + web.WidgetScript, Handle: widgetScript(web.WidgetScript)},
		{Method: "GET", Path: "/" + web.WidgetFiles, Handle: widgetScript(web.WidgetFiles)},
		{Method: "GET", Path: "/widget/preview", Handle: previewPage},
		{Method: "GET", Path: "/favicon.svg", Handle: favicon()},
		{Method: "GET", Path: "/docs", Handle: pages.StrictQuery(h.guidesPage, httpx.Fail, "q")},
		{Method: "GET", Path: "/docs/", Handle: func(c *gin.Context) { c.Redirect(http.StatusPermanentRedirect, "/docs") }},
		{Method: "GET", Path: "/docs/:page", Handle: pages.StrictQuery(h.guidePage(""), httpx.Fail)},
		{Method: "GET", Path: "/docs/guides/:page", Handle: pages.StrictQuery(h.guidePage("guides/"), httpx.Fail)},
		{Method: "GET", Path: "/docs/api", Handle: pages.StrictQuery(document(contentHTML, h.docsPage), httpx.Fail)},
		{Method: "GET", Path: "/docs/api/schemas", Handle: pages.StrictQuery(document(contentHTML, schemasPage), httpx.Fail)},
		{Method: "GET", Path: "/docs/errors", Handle: pages.StrictQuery(document(contentHTML, errorsPage), httpx.Fail)},
		{Method: "GET", Path: "/llms.txt", Handle: pages.StrictQuery(document(contentText, h.llmsText), httpx.Fail)},
		{Method: "GET", Path: "/openapi.json", Handle: pages.StrictQuery(document(httpx.ContentJSON, openAPIDocument), httpx.Fail)},
	}
}
