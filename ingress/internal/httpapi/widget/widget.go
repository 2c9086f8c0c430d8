package widget

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/agentdb"
)

const (
	// The website signs the id of a visitor, for example the id of one of its users.
	maxVisitor      = 128 // maximum number of characters in a visitor id that a website chooses
	signatureDigits = 64  // number of digits of an HMAC-SHA256 in hexadecimal
)

// Deps contains the dependencies of the Handler. They are set once and never change.
type Deps struct {
	*httpx.Limiter
	// Caches widgets, and encrypts tokens and the names of visitors.
	Auth *auth.Resolver
	// Limit of new tokens per agent.
	Rates *ratelimit.Limits
}

// Handler issues tokens to pages whose origin an agent's widget lists. It also sets the CORS
// headers for their requests. There is one per process. It is safe for concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes returns the route of widget sessions. The route needs no credential; the Origin header
// decides whether a page gets a token.
func (h *Handler) Routes() []httpx.Route {
	return []httpx.Route{{Method: "POST", Path: WidgetSessionsPath, Need: auth.NeedPage, Handle: h.widgetSession}}
}

// widgetSessionBody is the body of a request for a token. The visitor is the id that the browser
// has stored, or an object that the site's server has signed. Without the field visitor, the
// browser is a new visitor.
type widgetSessionBody struct {
	// The agent, and the visitor as a text or an object. Check decodes the visitor.
	AgentID string          `json:"agentId" required:"true"`
	Visitor json.RawMessage `json:"visitor"`

	// Visitor as text; "" if the visitor is missing or is an object.
	name string
	// Visitor as object; nil if the visitor is missing or is a text.
	signed *signedBody
}

// signedBody is a visitor's id and the site's signature of this id; see auth.Signed. The signature
// is verified later, with the secret of the agent.
type signedBody struct {
	ID        string `json:"id" required:"true"`
	Signature string `json:"signature" required:"true"`
}

// Check checks the fields and decodes the visitor. Afterwards, at most one of b.name and b.signed
// is set. A text that is no valid name of a visitor is no error: it results in a new visitor.
func (b *widgetSessionBody) Check(p *httpx.Problems) {
	const field = "visitor"
	if len(b.Visitor) == 0 {
		return
	}

	switch b.Visitor[0] {
	case '"':
		decodeWithin(field, b.Visitor, &b.name, p)
	case '{':
		b.signed = &signedBody{}
		decodeWithin(field, b.Visitor, b.signed, p)
		p.Name(field+".id", b.signed.ID, maxVisitor)
		if raw, err := hex.DecodeString(b.signed.Signature); err != nil || len(raw)*2 != signatureDigits {
			p.Add(field+".signature", httpx.CodeInvalidValue, "must be %d hexadecimal digits", signatureDigits)
		}
	default:
		p.Add(field, httpx.CodeInvalidType, "must be the visitor of an earlier response, or an object with id and signature")
	}
}

// decodeWithin works like httpx.DecodeStrict for the raw value of a field. The argument field is
// the field's name, with which the paths of the problems begin. dst is a pointer.
func decodeWithin(field string, src []byte, dst any, found *httpx.Problems) {
	target := reflect.ValueOf(dst).Elem()
	d := httpx.Decoder{Src: src, Path: []byte(field), Found: found}
	if err := d.Into(target); err != nil {
		found.List = append(found.List, *err) // unreachable: the whole body was decoded before
	}
}

// widgetSessionView is the response with a token. The page sends the token with each request, and
// stores the visitor for its next visit.
type widgetSessionView struct {
	Token string `json:"token"`
	// Time at which the page must request another token.
	ExpiresAt domain.Time `json:"expiresAt"`
	// Encrypted name of the visitor.
	Visitor string      `json:"visitor"`
	Agent   widgetAgent `json:"agent"`
}

// widgetAgent is the agent in a token's response. It contains only what the page may show to
// anyone.
type widgetAgent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Suggestions []string `json:"suggestions"`
	Attachments bool     `json:"attachments"`
}

// widgetSession handles POST /api/widget/sessions: it creates a token for a visitor of a page whose
// origin the agent's widget lists. The status is 201. Each request counts against the limit of the
// client address. A valid request also counts against the limit of the agent.
func (h *Handler) widgetSession(c *gin.Context) {
	if err := h.CountWidgetAddress(c); err != nil {
		httpx.Fail(c, err)
		return
	}

	view, err := h.newWidgetSession(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusCreated, view)
}

// newWidgetSession checks a request for a token and creates the token. The order of the checks is:
// body, origin, widget, visitor, limit. A token is not stored, so it cannot be revoked before it
// expires.
func (h *Handler) newWidgetSession(c *gin.Context) (widgetSessionView, error) {
	body, found, err := httpx.Collect[widgetSessionBody](c)
	if err != nil {
		return widgetSessionView{}, err
	}

	switch origins := c.Request.Header[httpx.HeaderOrigin]; {
	case len(origins) == 0:
		found.Add(httpx.HeaderOrigin, httpx.CodeRequired, "is required; browsers send it automatically")
	case len(origins) > 1:
		found.Add(httpx.HeaderOrigin, httpx.CodeDuplicate, "must be sent only once")
	}

	if err := found.Err(); err != nil {
		return widgetSessionView{}, err
	}

	widget, origin, err := h.widgetFor(c, body.AgentID)
	if err != nil {
		return widgetSessionView{}, err
	}

	httpx.SetLogIDs(c, widget.AgentID, "", "")
	visitorID, name, err := h.visitor(widget, &body)
	if err != nil {
		return widgetSessionView{}, err
	}

	d, err := h.Rates.WidgetToken(c.Request.Context(), widget.AgentID) // called last, so that only valid requests use up the agent's limit
	if err != nil {
		return widgetSessionView{}, fmt.Errorf("checking limit: %w", err)
	}
	if err := httpx.Refusal(d); err != nil {
		httpx.ShowDecision(c, d)
		return widgetSessionView{}, err
	}

	token, expires := h.Auth.Widgets().NewToken(widget.AgentID, origin, visitorID)
	return widgetSessionView{Token: token, ExpiresAt: domain.At(expires), Visitor: name, Agent: widgetAgent{
		ID: widget.AgentID, Name: widget.Name, Suggestions: widget.Suggestions, Attachments: widget.Attachments,
	}}, nil
}

// widgetFor returns the widget of an agent for the page that sends the request, and the page's
// origin. The error permission_denied does not reveal why there is no widget. A page of another
// origin cannot even read the error.
func (h *Handler) widgetFor(c *gin.Context, agentID string) (*agentdb.Widget, string, error) {
	origin, ok := httpx.PageOrigin(c.Request)
	var widget *agentdb.Widget
	if ok && id.Valid(id.Agent, agentID) {
		var err error
		if widget, err = h.Auth.Widgets().Embedded(c.Request.Context(), agentID, origin); err != nil {
			return nil, "", err
		}
	}

	if widget == nil {
		unshare(c)
		return nil, "", apierr.New(apierr.PermissionDenied, "the agent has no widget for this page")
	}
	return widget, origin, nil
}

// visitor returns the id and name of the visitor. The id is signed by the site, stored in the
// browser, or new. An agent with an identity secret decides which visitors it accepts; see
// auth.Widgets. The name is encrypted for the browser.
func (h *Handler) visitor(widget *agentdb.Widget, body *widgetSessionBody) (visitorID, name string, err error) {
	widgets := h.Auth.Widgets()
	if body.signed != nil {
		return widgets.Identify(widget, auth.Signed{ID: body.signed.ID, Signature: body.signed.Signature})
	}
	visitorID, name, ok, err := widgets.Returning(widget, body.name)
	if ok || err != nil {
		return visitorID, name, err
	}
	visitorID, name = widgets.NewVisitor(widget)
	return visitorID, name, nil
}
