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
	maxVisitor      = 128 // characters of what a site calls a visitor
	signatureDigits = 64  // of HMAC-SHA256, in hexadecimal
)

// Deps is what the handler of widgets needs.
type Deps struct {
	*httpx.Limiter
	Auth  *auth.Resolver
	Rates *ratelimit.Limits
}

// Handler gives the pages that agents list their tokens, and lets them read answers.
type Handler struct{ Deps }

// New makes the handler of widgets.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes is the one route that is the widgets' alone.
func (h *Handler) Routes() []httpx.Route {
	return []httpx.Route{{Method: "POST", Path: WidgetSessionsPath, Need: auth.NeedPage, Handle: h.widgetSession}}
}

// widgetSessionBody is what a widget sends for a token. The visitor is the name that the browser has kept, or an object
// that the site's server has signed.
type widgetSessionBody struct {
	AgentID string          `json:"agentId" need:"yes"`
	Visitor json.RawMessage `json:"visitor"`

	name   string
	signed *signedBody
}

type signedBody struct {
	ID        string `json:"id" need:"yes"`
	Signature string `json:"signature" need:"yes"`
}

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
		p.Add(field, httpx.CodeInvalidType, "must be the visitor of an earlier answer, or an object with id and signature")
	}
}

// decodeWithin is decodeStrict for what a body holds as it was written, under the name of its field.
func decodeWithin(field string, src []byte, dst any, found *httpx.Problems) {
	target := reflect.ValueOf(dst).Elem()
	d := httpx.Decoder{Src: src, Path: []byte(field), Found: found}
	if err := d.Into(target); err != nil {
		found.List = append(found.List, *err) // not reached: the body was read to its end before
	}
}

// widgetSessionView is the answer to a widget that asked for a token.
type widgetSessionView struct {
	Token     string      `json:"token"`
	ExpiresAt domain.Time `json:"expiresAt"`
	Visitor   string      `json:"visitor"`
	Agent     widgetAgent `json:"agent"`
}

type widgetAgent struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// widgetSession is POST /api/widget/sessions: a token for a visitor of a page that an agent's widget lists.
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

func (h *Handler) newWidgetSession(c *gin.Context) (widgetSessionView, error) {
	body, found, err := httpx.Collect[widgetSessionBody](c)
	if err != nil {
		return widgetSessionView{}, err
	}
	switch origins := c.Request.Header[httpx.HeaderOrigin]; {
	case len(origins) == 0:
		found.Add(httpx.HeaderOrigin, httpx.CodeRequired, "is required: browsers send it for the page")
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
	httpx.About(c, widget.AgentID, "", "")
	visitorID, name, err := h.visitor(widget, &body)
	if err != nil {
		return widgetSessionView{}, err
	}
	d, err := h.Rates.WidgetToken(c.Request.Context(), widget.AgentID) // whose own limit strangers use up with good requests only
	if err != nil {
		return widgetSessionView{}, fmt.Errorf("checking limit: %w", err)
	}
	if err := httpx.Refusal(d); err != nil {
		httpx.ShowDecision(c, d)
		return widgetSessionView{}, err
	}
	token, expires := h.Auth.Widgets().NewToken(widget.AgentID, origin, visitorID)
	return widgetSessionView{token, domain.At(expires), name, widgetAgent{widget.AgentID, widget.Name}}, nil
}

// widgetFor gives the widget of an agent for the page that asks for it. Whatever stands against it, the page learns
// nothing but that, and another page not even that much.
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

// visitor tells who visits: whom the site has signed, whom the browser knows, or somebody new.
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
