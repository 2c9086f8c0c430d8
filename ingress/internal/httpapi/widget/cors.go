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

// These paths may be called by pages of other origins if the widget of an agent lists the origin.
// The calls have no cookies: Access-Control-Allow-Credentials is never sent. Only POST requests are
// shared. Pages authenticate with a widget token, except for the request that creates the token.
const (
	// WidgetSessionsPath is the path for tokens of visitors.
	WidgetSessionsPath = "/api/widget/sessions"
	// FilesPath is the path for uploads of attachments.
	FilesPath = "/api/files"
	// chatPath with ChatAction is for messages to an agent.
	chatPath   = "/api/agents"
	ChatAction = "chat"
	// runsPath with CancelAction is for the cancellation of a run.
	runsPath     = "/api/runs"
	CancelAction = "cancel"
)

// isShared reports whether pages of other origins may call at least one action of a path. The
// answer decides whether responses vary with the origin.
func isShared(path string) bool {
	return path == WidgetSessionsPath || path == FilesPath || path == chatPath || path == runsPath
}

// isSharedAction reports whether pages of other origins may call an action of a path for which
// isShared is true. Other actions of these paths are for members only.
func isSharedAction(path, action string) bool {
	switch path {
	case chatPath:
		return action == ChatAction
	case runsPath:
		return action == CancelAction
	default:
		return true
	}
}

// Names of the CORS headers in net/http's canonical form. A name in this form can be used as a key
// of http.Header.
const (
	headerVary          = "Vary"
	headerAllowOrigin   = "Access-Control-Allow-Origin"
	headerExpose        = "Access-Control-Expose-Headers"
	headerAllowMethods  = "Access-Control-Allow-Methods"
	headerAllowHeaders  = "Access-Control-Allow-Headers"
	headerMaxAge        = "Access-Control-Max-Age"
	headerRequestMethod = "Access-Control-Request-Method"
)

const (
	// Response headers that pages may read.
	exposedHeaders = "X-Request-Id, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"
	// Request headers that pages may send.
	allowedHeaders = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, X-Request-Id, Traceparent"
	preflightAge   = "600" // seconds for which browsers cache a preflight response; each request is checked anyway
)

// Share lets a page of a listed origin read the response of a widget route, including errors.
// Without Share, the page could not distinguish a rate limit from a network failure. Share must be
// called before the handler writes. r is the route of the request. The header Vary is set even if
// the origin is not listed, so that caches keep the responses apart.
func (h *Handler) Share(c *gin.Context, r httpx.Route) {
	if r.Method != http.MethodPost || !isShared(r.Path) {
		return
	}

	c.Writer.Header().Add(headerVary, httpx.HeaderOrigin)
	if !isSharedAction(r.Path, r.Action) {
		return
	}
	if origin, ok := httpx.PageOrigin(c.Request); ok && h.isListed(c, origin) {
		c.Writer.Header()[headerAllowOrigin] = []string{origin}
		c.Writer.Header()[headerExpose] = []string{exposedHeaders}
	}
}

// unshare removes the headers that Share has set. A page that may not use the widget thus cannot
// read why its request was rejected.
func unshare(c *gin.Context) {
	c.Writer.Header().Del(headerAllowOrigin)
	c.Writer.Header().Del(headerExpose)
}

// isListed reports whether pages of the origin may call the request's route. For a chat, the agent
// in the query must list the origin. The other routes name no agent in the query, so any agent may
// list the origin. Uploads and cancellations also need a token, which is valid for one origin. If
// the lookup fails, isListed returns false. A listed origin is necessary but not sufficient: the
// handler authenticates the request too.
func (h *Handler) isListed(c *gin.Context, origin string) bool {
	ctx := c.Request.Context()
	if c.Request.URL.Path != chatPath {
		known, err := h.Auth.Widgets().Listed(ctx, origin)
		return err == nil && known
	}
	agents := c.QueryArray("id")
	return len(agents) == 1 && h.Embeds(ctx, agents[0], origin)
}

// Embeds reports whether an agent's widget lists an origin. A failed look-up counts as no.
func (h *Handler) Embeds(ctx context.Context, agentID, origin string) bool {
	if !id.Valid(id.Agent, agentID) {
		return false
	}
	widget, err := h.Auth.Widgets().Embedded(ctx, agentID, origin)
	return err == nil && widget != nil
}

// Preflight responds to a CORS preflight request if the page may send the announced request. The
// status is then 204, and the handler chain ends. Any other request is left to the handler for
// unknown methods.
func (h *Handler) Preflight(c *gin.Context) {
	req := c.Request
	if req.Method != http.MethodOptions || !isShared(req.URL.Path) {
		return
	}

	header := c.Writer.Header()
	header.Add(headerVary, strings.Join([]string{httpx.HeaderOrigin, headerRequestMethod, "Access-Control-Request-Headers"}, ", "))
	origin, ok := httpx.PageOrigin(req)
	if !ok || !slices.Equal(req.Header[headerRequestMethod], []string{http.MethodPost}) {
		return
	}

	action := ""
	if actions := c.QueryArray("action"); len(actions) == 1 {
		action = actions[0]
	}

	if !isSharedAction(req.URL.Path, action) || !h.isListed(c, origin) {
		return
	}

	// The headers of the response for unknown methods do not apply.
	header.Del("Allow")
	header[headerAllowOrigin] = []string{origin}
	header[headerAllowMethods] = []string{http.MethodPost}
	header[headerAllowHeaders] = []string{allowedHeaders}
	header[headerMaxAge] = []string{preflightAge}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	c.Abort()
}
