package httpx

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
)

// Route is one line of the route table.
type Route struct {
	Method string
	Path   string
	Action string      // the query's action that it is for; "" is none, "*" any or none
	Need   auth.Need   // who may come at all
	Role   domain.Role // the least that a member must be
	Late   bool        // the handler counts the request against its limit itself, after looking for a replay
	Forms  bool        // the body may be a form that holds files
	NoBody bool        // a POST or PUT that takes no body; no DELETE does
	Person bool        // not for organizations' keys
	Login  bool        // for login sessions alone
	Stream bool        // the answer to GET has no end, and HEAD is not offered
	Open   bool        // the query is another protocol's: unknown parameters are ignored
	Match  bool        // the handler compares If-Match with the version of what the id names

	Find   Finder          // looks up what the query's id names; nil: the route takes no id
	List   Params          // parameters of the query without an id; nil beside a find: the id is required
	Beside Params          // parameters of the query beside an id
	One    gin.HandlerFunc // answers a query with an id in the place of handle; nil: handle does
	Other  string          // an action that the path has beside; set by byAction on a route without an action

	Handle gin.HandlerFunc
}

// RefusesFields reports whether a body with fields is an error. GET and HEAD ignore a body.
func (r *Route) RefusesFields() bool { return r.NoBody || r.Method == http.MethodDelete }

// Params names parameters of a query.
type Params []string

// Paged are the parameters of every list.
var Paged = Params{"limit", "cursor"}
