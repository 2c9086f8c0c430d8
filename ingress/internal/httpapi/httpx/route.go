package httpx

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// Route is one row of the route table. The table is built once at the start and not changed
// afterwards. Package httpapi interprets the fields before it calls a handler.
type Route struct {
	// GET routes also handle HEAD, unless Stream is set.
	Method string
	Path   string
	Action string      // value of the parameter action; "": requests without the parameter, "*": any value or none
	Need   auth.Need   // the credentials that are accepted
	Role   domain.Role // the minimum role of a member
	Late   bool        // the handler counts the request against the rate limit, after it has looked for a replay
	Forms  bool        // the body may be a form that contains files
	Raw    bool        // the body may have any media type
	NoBody bool        // a POST or PUT takes no body; a DELETE never takes one
	Person bool        // the caller must be a person or a person's key
	Login  bool        // the caller must have a login session
	Stream bool        // the response to GET is an endless stream; there is no HEAD
	Waits  bool        // thousands of requests may wait in the handler for runs or their events
	Open   bool        // unknown parameters are ignored, because another protocol defines the query
	Match  bool        // the handler compares If-Match with the resource's version

	Find   Finder          // looks up the resource named by the query's id; nil: the route takes no id
	List   Params          // parameters of a query without an id; if List is nil but Find is not, an id is required
	Beside Params          // parameters of a query with an id, in addition to the id
	One    gin.HandlerFunc // handles a query with an id; nil: Handle also handles such queries

	// Actions is for error messages. It maps the parameters id and template to the actions of this
	// path and method that take the parameter. byAction sets it on routes without an action.
	Actions map[string][]string

	// Elsewhere is for error messages. It maps each action of this path that permits only one
	// method, other than this route's, to that method. The key "*" stands for any action. The
	// router sets the field.
	Elsewhere map[string]string

	Handle gin.HandlerFunc
}

// MethodError returns an error if the path has the action, but only with a method other than the
// route's.
func (r *Route) MethodError(actions []string) error {
	if len(actions) != 1 {
		return nil
	}
	if method := r.Elsewhere[actions[0]]; method != "" {
		return apierr.Invalid("action", CodeInvalidValue, "the action %s requires the method %s", actions[0], method)
	}
	if method := r.Elsewhere["*"]; method != "" {
		return apierr.Invalid("action", CodeInvalidValue, "the actions of this path require the method %s", method)
	}
	return nil
}

// RefusesFields reports whether the route takes no body, so that a body with fields is an error.
// Routes with GET and HEAD ignore the body.
func (r *Route) RefusesFields() bool { return r.NoBody || r.Method == http.MethodDelete }

// Params is a list of query parameters.
type Params []string

// Paged lists the parameters of every list.
var Paged = Params{"limit", "cursor"}
