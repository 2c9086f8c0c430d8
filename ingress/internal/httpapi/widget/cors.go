package widget

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/id"
)

// The paths that pages of other origins may call, by what their agents' widgets list. No cookie goes with these calls:
// browsers keep what a page may not read from it, and Access-Control-Allow-Credentials is never sent.
const (
	WidgetSessionsPath = "/api/widget/sessions"
	chatPath           = "/api/agents"
	ChatAction         = "chat"
)

// The headers of cross-origin calls, as net/http keeps them.
const (
	headerVary         = "Vary"
	headerAllowOrigin  = "Access-Control-Allow-Origin"
	headerExpose       = "Access-Control-Expose-Headers"
	headerAllowMethods = "Access-Control-Allow-Methods"
	headerAllowHeaders = "Access-Control-Allow-Headers"
	headerMaxAge       = "Access-Control-Max-Age"
	headerAskedMethod  = "Access-Control-Request-Method"
)

const (
	exposedHeaders = "X-Request-Id, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"
	takenHeaders   = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, X-Request-Id, Traceparent"
	preflightAge   = "600" // seconds that browsers need not ask again; what they send is looked at each time
)

// Share lets a page of a listed origin read the answer of a route that is for such pages, errors included: a page that
// may not read a refusal cannot tell a limit from a network that is down.
func (h *Handler) Share(c *gin.Context, r httpx.Route) {
	if r.Method != http.MethodPost || r.Path != WidgetSessionsPath && r.Path != chatPath {
		return
	}
	c.Writer.Header().Add(headerVary, httpx.HeaderOrigin)
	if r.Path == chatPath && r.Action != ChatAction {
		return
	}
	if origin, ok := httpx.PageOrigin(c.Request); ok && h.listed(c, origin) {
		c.Writer.Header()[headerAllowOrigin] = []string{origin}
		c.Writer.Header()[headerExpose] = []string{exposedHeaders}
	}
}

// unshare takes back what share has allowed.
func unshare(c *gin.Context) {
	c.Writer.Header().Del(headerAllowOrigin)
	c.Writer.Header().Del(headerExpose)
}

// listed reports whether the origin's pages may call what a request asks for: with a chat the agent that the query names must
// list it, else any agent. While that cannot be looked up they may not.
func (h *Handler) listed(c *gin.Context, origin string) bool {
	ctx := c.Request.Context()
	if c.Request.URL.Path == WidgetSessionsPath {
		known, err := h.Auth.Widgets().Listed(ctx, origin)
		return err == nil && known
	}
	agents := c.QueryArray("id")
	return len(agents) == 1 && h.Embeds(ctx, agents[0], origin)
}

// Embeds reports whether an agent's widget lists the pages of an origin.
func (h *Handler) Embeds(ctx context.Context, agentID, origin string) bool {
	if !id.Valid(id.Agent, agentID) {
		return false
	}
	widget, err := h.Auth.Widgets().Embedded(ctx, agentID, origin)
	return err == nil && widget != nil
}

// Preflight answers browsers that ask whether a page may send what it is about to. Others, and pages that may not, get
// what every request gets with a method that the path does not have.
func (h *Handler) Preflight(c *gin.Context) {
	req := c.Request
	if req.Method != http.MethodOptions || req.URL.Path != WidgetSessionsPath && req.URL.Path != chatPath {
		return
	}
	header := c.Writer.Header()
	header.Add(headerVary, strings.Join([]string{httpx.HeaderOrigin, headerAskedMethod, "Access-Control-Request-Headers"}, ", "))
	origin, ok := httpx.PageOrigin(req)
	if !ok || !slices.Equal(req.Header[headerAskedMethod], []string{http.MethodPost}) {
		return
	}
	if req.URL.Path == chatPath && !slices.Equal(c.QueryArray("action"), []string{ChatAction}) || !h.listed(c, origin) {
		return
	}
	header.Del("Allow")
	header[headerAllowOrigin] = []string{origin}
	header[headerAllowMethods] = []string{http.MethodPost}
	header[headerAllowHeaders] = []string{takenHeaders}
	header[headerMaxAge] = []string{preflightAge}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	c.Abort()
}
