package pages

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/web"
)

const (
	// Dashboard is the path of the dashboard.
	Dashboard = "/dashboard"
	// MaxNext is the maximum length in bytes of the dashboard URL to which a person returns
	// after the login.
	MaxNext = 1024

	// NoMicrophone is the Permissions-Policy of all pages except the dashboard, where people talk
	// with agents.
	NoMicrophone = "camera=(), geolocation=(), microphone=()"
	// OwnMicrophone is the Permissions-Policy of the dashboard.
	OwnMicrophone = "camera=(), geolocation=(), microphone=(self)"
)

// Show responds with an HTML page and a Content-Security-Policy. The page must not be cached.
// policy restricts the sources of scripts and styles.
func Show(c *gin.Context, status int, page []byte, policy string) {
	header := c.Writer.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "no-store") // the page contains the person's name, and names of bundles that the next release may lack
	// The URL may contain a token, which must not be sent to other sites. The policy no-referrer
	// would be too strict, because browsers would then send forms with the origin "null".
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", NoMicrophone)
	if strings.HasPrefix(c.Request.URL.Path, Dashboard) {
		header.Set("Permissions-Policy", OwnMicrophone)
	}

	c.Data(status, "text/html; charset=utf-8", page)
}

// Notice shows a page with one message and no other content. It is meant for errors.
func Notice(c *gin.Context, status int, words string) {
	page, err := web.RenderNotice(web.Notice{Title: "Something went wrong", Words: words, Problem: true})
	ShowRendered(c, status, page, err)
}

// NotFound responds with 404 and a page for an address that does not exist.
func NotFound(c *gin.Context) {
	page, err := web.RenderNotice(web.Notice{
		Title: "Page not found", Words: "There is nothing at this address. The link may be incomplete.", Missing: true,
	})
	ShowRendered(c, http.StatusNotFound, page, err)
}

// ShowRendered responds with a rendered page, or with the error that occurred while it was
// rendered. The headers of pages are set by Show.
func ShowRendered(c *gin.Context, status int, page []byte, err error) {
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	Show(c, status, page, web.ContentSecurityPolicy)
}

// Fail responds to a browser with an error page. The message is that of the API's error.
func Fail(c *gin.Context, err error) {
	httpx.FailOn(c, err, func(status int, problem string) { Notice(c, status, problem) })
}

// StrictQuery returns a handler that checks the query before it calls the function handle. If the
// query repeats a parameter or has a parameter that is not in names, it calls the function fail
// instead. This function responds with the error in the form that suits the handler's clients.
func StrictQuery(handle gin.HandlerFunc, fail func(*gin.Context, error), names ...string) gin.HandlerFunc {
	r := httpx.Route{List: names}
	return func(c *gin.Context) {
		query, err := httpx.ReadQuery(c.Request.URL.RawQuery)
		httpx.StateFor(c).Query = query
		if err == nil {
			err = r.CheckQuery(c)
		}
		if err != nil {
			fail(c, err)
			return
		}
		handle(c)
	}
}

// ReturnTo returns the dashboard URL at which a person continues after the login. values are the
// values of the query parameter next. ReturnTo returns "" unless there is exactly one value and it
// is the URL of a dashboard page. Without this check, a link to the login page could redirect to
// another site. The result is the path with its query, without a fragment.
func ReturnTo(values []string) string {
	if len(values) != 1 || len(values[0]) > MaxNext || !strings.HasPrefix(values[0], Dashboard) { // the raw text is checked, too
		return ""
	}
	next, err := url.Parse(values[0])
	if err != nil || next.Scheme != "" || next.Host != "" || next.User != nil || strings.ContainsAny(values[0], "\\\t\r\n") ||
		next.Path != Dashboard && !strings.HasPrefix(next.Path, Dashboard+"/") || path.Clean(next.Path) != next.Path {
		return ""
	}
	return next.RequestURI()
}
