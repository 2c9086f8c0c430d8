package auth

import (
	"net/http"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// headerOrigin is the header with the origin of the page that sends a request. Browsers set it, and
// scripts of a page cannot change it.
const headerOrigin = "Origin"

// visitor identifies the widget visitor who sends req. Visitors may chat, cancel their runs and
// read public resources. They may also upload files if the widget accepts attachments. If visitor
// returns an error, the identity says only that the request has a widget token. The token is
// checked at every request, so a disabled widget takes effect within 5 s.
func (r *Resolver) visitor(req *http.Request, p presented, need Need) (Identity, error) {
	ident, err := r.visiting(req, p, false)
	if err == nil && !need.admits(ident.Caller.Visitor) {
		err = WidgetRestricted()
	}
	if err != nil {
		return Identity{Via: ViaWidget}, err
	}
	return ident, nil
}

// admits reports whether an endpoint with this need accepts a widget visitor.
func (n Need) admits(visitor domain.Visitor) bool {
	switch n {
	case NeedDemo, NeedPublic, NeedVisitor:
		return true
	case NeedUpload:
		return visitor.Attachments
	default:
		return false
	}
}

// WidgetRestricted returns the error for endpoints that are closed to widget visitors.
func WidgetRestricted() error {
	return apierr.New(apierr.PermissionDenied, "a widget token is valid only for chatting with its agent")
}

// visiting checks a widget token and the page that uses it. If the argument before is set, it
// accepts an expired token: the request was accepted earlier, and the token was valid then. The
// token is valid only together with the origin for which it was created. The errors are
// unauthenticated, permission_denied and organization_mismatch.
func (r *Resolver) visiting(req *http.Request, p presented, before bool) (Identity, error) {
	if r.widgets == nil {
		return Identity{}, unauthenticated("the widget token is malformed")
	}
	token, err := r.widgets.open(p.token)
	if err != nil {
		return Identity{}, unauthenticated("the widget token is malformed")
	}
	expires := time.Unix(token.Expires, 0)
	if !before && !r.now().Before(expires) {
		return Identity{}, unauthenticated("the widget token has expired")
	}

	// Browsers send the real origin of the page. A token that was copied to another website
	// therefore does not work in browsers.
	denied := apierr.New(apierr.PermissionDenied, "the widget is not allowed on this page")
	if origins := req.Header[headerOrigin]; len(origins) != 1 || origins[0] != token.Origin {
		return Identity{}, denied
	}

	// Check the widget, too, because it may have been disabled since the token was created.
	found, err := r.widgets.embedded(req.Context(), token.Agent, token.Origin)
	if err != nil {
		return Identity{}, err
	}
	if found.found == nil {
		return Identity{}, denied
	}

	org := found.found.OrganizationID
	if p.org != "" && p.org != org {
		return Identity{}, apierr.New(apierr.OrganizationMismatch, "x-organization-id does not match the organization of the widget")
	}
	return Identity{Until: found.until, Via: ViaWidget, Caller: domain.Caller{
		Kind: domain.CallerUser, OrganizationID: org, Credential: "widget:" + token.Agent + ":" + token.Visitor,
		Visitor: domain.Visitor{
			ID: token.Visitor, AgentID: token.Agent, Origin: token.Origin, Client: r.DemoClient(req), Attachments: found.found.Attachments,
		},
	}}, nil
}

// Again checks the caller's credential again while the service responds to an accepted request. A
// widget token that has expired in the meantime is still accepted, provided that the agent's widget
// is enabled. Any other credential must be valid for NeedUser.
func (r *Resolver) Again(req *http.Request) (Identity, error) {
	p, err := read(req, true)
	if err == nil && p.via == ViaWidget {
		return r.visiting(req, p, true)
	}
	return r.Resolve(req, NeedUser)
}

// Widgets returns the widgets, or nil if this resolver accepts no widget tokens.
func (r *Resolver) Widgets() *Widgets { return r.widgets }
