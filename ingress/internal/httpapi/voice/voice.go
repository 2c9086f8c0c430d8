package voice

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/agentdb"
	"parley/shared/store/sessiondb"
)

const (
	// RealtimePath is where voice connections begin.
	RealtimePath = "/v1/realtime"
	voiceSession = "rt" // prefix of a voice session that nobody has named
	socketName   = "realtime"

	headerProtocol  = "Sec-WebSocket-Protocol"
	headerVersion   = "Sec-WebSocket-Version"
	headerSocketKey = "Sec-WebSocket-Key"
	headerBeta      = "Openai-Beta" // as net/http keeps it,
	nameBeta        = "OpenAI-Beta" // and as others write it
)

// voiceCall is what a voice connection is asked for with.
type voiceCall struct {
	model     string
	sessionID string
	named     bool // the session, by who asks
	tools     domain.VoiceTool
}

// PageList reports whether an agent's widget lists the pages of an origin.
type PageList interface {
	Embeds(ctx context.Context, agentID, origin string) bool
}

// TemplateList lists the templates.
type TemplateList interface {
	Get(ctx context.Context) ([]domain.Template, error)
}

// Deps is what the handler of voice needs.
type Deps struct {
	*httpx.Limiter
	*dispatch.Submitter
	httpx.SessionChecks
	AgentsDB             *agentdb.Store
	SessionsDB           *sessiondb.Store
	Auth                 *auth.Resolver
	Dispatch             *dispatch.Dispatcher
	Voice                *voicegate.Gate
	Templates            TemplateList
	Pages                PageList
	Origins              *http.CrossOriginProtection
	Stopping             func() bool
	VoicePerOrganization int
}

// Handler answers OpenAI's Realtime API.
type Handler struct{ Deps }

// New makes the handler of voice.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes are voice connections and the secrets that open them.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	return []httpx.Route{
		{Method: "GET", Path: RealtimePath, Need: auth.NeedVoice, Role: member, Open: true, Stream: true, Handle: h.realtime},
		{Method: "POST", Path: RealtimePath + "/client_secrets", Need: auth.NeedUser, Role: member, Open: true, Handle: h.createClientSecret},
	}
}

// realtime is GET /v1/realtime: a voice connection with an agent or template, by OpenAI's Realtime protocol. Whatever stands against
// it is answered before it is one.
func (h *Handler) realtime(c *gin.Context) {
	if err := bodiless(c); err != nil {
		httpx.Fail(c, err)
		return
	}
	asked, err := h.callFor(c)
	if err == nil {
		err = upgradable(c.Request)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	seats, err := h.takeVoiceSeats(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	httpx.About(c, asked.model, "", asked.sessionID)
	if err := h.Voice.Serve(c.Writer, c.Request, h.admission(c, asked)); err != nil {
		httpx.Fail(c, err)
	}
}

// admission lets a caller's connection in.
func (h *Handler) admission(c *gin.Context, asked voiceCall) voicegate.Admission {
	may, who := h.voicePermit(c), httpx.Caller(c)
	settings := asked.settings()
	if secret := httpx.Identity(c).Secret; secret != nil {
		settings.Session = secret.Session
	}
	return voicegate.Admission{
		Conversation: settings, Organization: who.OrganizationID, Holds: may.Holds, Look: may.Earlier,
		Runs: &runs{
			h: h, request: c.Request, traceparent: httpx.Traceparent(c), call: asked,
			org: who.OrganizationID, principal: who.Principal(), begun: map[string]bool{},
		},
	}
}

// settings are what the protocol's session begins with.
func (k *voiceCall) settings() realtime.Settings {
	return realtime.Settings{SessionID: k.sessionID, Model: k.model, Voice: k.tools.Voice, NewID: id.New}
}

// voicePermit is the permit of a connection that is its caller's as they stand at each turn: whatever they may do by then, it is
// their own session.
func (h *Handler) voicePermit(c *gin.Context) *httpx.Permit {
	may := h.Permit(c)
	may.Reads = []string{httpx.Caller(c).Principal()}
	may.Resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return h.Auth.VoiceAgain(req) }
	return &may
}

// callFor reads and checks what a connection is asked for with, but for its being one.
func (h *Handler) callFor(c *gin.Context) (voiceCall, error) {
	found := &httpx.Problems{}
	checkProtocol(found, c.Request)
	model, given := httpx.QueryValue(c, "model", found)
	asked := voiceCall{model: model}
	if !given && httpx.Identity(c).Secret == nil {
		found.Add("model", httpx.CodeRequired, "is required: an agent or a template")
	}
	if asked.sessionID, asked.named = httpx.QueryValue(c, "session_id", found); asked.named {
		httpx.CheckSession(found, "session_id", asked.sessionID)
	}
	if err := found.Err(); err != nil {
		return voiceCall{}, err
	}
	if err := asked.bind(httpx.Identity(c).Secret, given); err != nil {
		return voiceCall{}, err
	}
	// What is not the caller's is missing to every page: whose widget lists it is none of theirs.
	if err := h.findVoice(c.Request.Context(), httpx.Caller(c).OrganizationID, &asked); err != nil {
		return voiceCall{}, err
	}
	return asked, h.checkOrigin(c, asked.model)
}

// bind holds a call to what a client secret is for, and gives a session to one that names none. Whoever was given a secret must not
// choose the session: those of its maker are none of their business.
func (k *voiceCall) bind(secret *auth.ClientSecret, modelGiven bool) error {
	k.model = openaiapi.ClipModel(k.model)
	switch {
	case secret == nil && !k.named:
		k.sessionID = id.New(voiceSession)
	case secret == nil:
	case modelGiven && k.model != secret.Model:
		return apierr.New(apierr.PermissionDenied, "the client secret is valid only for another agent")
	case k.named && k.sessionID != secret.SessionID:
		return apierr.New(apierr.PermissionDenied, "the client secret is valid only for another session")
	default:
		k.model, k.sessionID, k.named = secret.Model, secret.SessionID, secret.Named
	}
	return nil
}

// checkProtocol reads which protocol a client expects: OpenAI's has had another one.
func checkProtocol(found *httpx.Problems, req *http.Request) {
	for _, value := range req.Header.Values(headerBeta) {
		if strings.Contains(value, "realtime=") {
			found.Add(nameBeta, openaiapi.CodeUnsupported, "the beta of the Realtime API is not supported; omit the header")
		}
	}
	offered, err := auth.Protocols(req)
	if err != nil || len(offered) == 0 { // what is malformed was refused before
		return
	}
	if slices.ContainsFunc(offered, func(name string) bool { return strings.HasPrefix(name, "openai-beta.") }) {
		found.Add(headerProtocol, openaiapi.CodeUnsupported, "the beta of the Realtime API is not supported; use %s", socketName)
	}
	if !slices.Contains(offered, socketName) {
		found.Add(headerProtocol, httpx.CodeInvalidValue, "must include %s", socketName)
	}
}

// checkOrigin refuses pages of other origins than the service's own and those that the agent's widget lists: browsers let any page
// open a WebSocket.
func (h *Handler) checkOrigin(c *gin.Context, model string) error {
	posted := *c.Request
	posted.Method = http.MethodPost // what only reads is let pass by the check
	cause := h.Origins.Check(&posted)
	if cause == nil && len(c.Request.Header[httpx.HeaderOrigin]) <= 1 {
		return nil
	}
	if origin, ok := httpx.PageOrigin(c.Request); ok && h.Pages.Embeds(c.Request.Context(), model, origin) {
		return nil
	}
	return apierr.Wrap(apierr.PermissionDenied, cause, "this page's origin is not allowed: add it to the agent's widget")
}

// findVoice finds the agent or template that a call is for, if it is for talking with.
func (h *Handler) findVoice(ctx context.Context, org string, k *voiceCall) error {
	tools, err := h.toolsFor(ctx, org, k.model)
	if err != nil {
		return openaiapi.AsModelError(err)
	}
	if tools.Voice == nil || !tools.Voice.Enabled {
		return apierr.Invalid("model", openaiapi.CodeVoiceNotEnabled, "voice is not enabled for this agent: set tools.voice.enabled")
	}
	k.tools = *tools.Voice
	return nil
}

func (h *Handler) toolsFor(ctx context.Context, org, model string) (domain.Tools, error) {
	if id.Valid(id.Agent, model) {
		agent, err := h.AgentsDB.Agent(ctx, org, model)
		if err == nil && !slices.Contains(agent.AllowedCallers, domain.CallerUser) {
			err = apierr.New(apierr.CallerNotAllowed, "this agent's allowedCallers does not include %q", domain.CallerUser)
		}
		return agent.Tools, err
	}
	all, err := h.Templates.Get(ctx)
	if err != nil {
		return domain.Tools{}, err
	}
	for _, t := range all {
		if t.ID == model {
			return t.Tools, nil
		}
	}
	return domain.Tools{}, openaiapi.ModelNotFound()
}

// bodiless refuses a request that brings or announces a body, which no upgrade has: a WebSocket's frames would be taken for it, or it
// for them. It is not waited for, so that nothing else can follow on its connection.
func bodiless(c *gin.Context) error {
	if c.Request.ContentLength == 0 && len(c.Request.TransferEncoding) == 0 {
		return nil
	}
	c.Header("Connection", "close")
	return apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue, "must be empty for a WebSocket")
}

// upgradable refuses requests that do not ask for a WebSocket as RFC 6455 has it. The library would refuse them in words of its own.
func upgradable(req *http.Request) error {
	has := func(header, token string) bool {
		for _, line := range req.Header.Values(header) {
			for name := range strings.SplitSeq(line, ",") {
				if strings.EqualFold(strings.TrimSpace(name), token) {
					return true
				}
			}
		}
		return false
	}
	versions := req.Header.Values(headerVersion)
	switch {
	case !req.ProtoAtLeast(1, 1):
		return apierr.New(apierr.UpgradeRequired, "a WebSocket needs HTTP/1.1")
	case !has("Connection", "upgrade") || !has("Upgrade", "websocket"):
		return apierr.New(apierr.UpgradeRequired, "the request must be an upgrade to a WebSocket")
	case len(versions) <= 1 && req.Header.Get(headerVersion) != httpx.SocketVersion:
		return apierr.New(apierr.UpgradeRequired, "the WebSocket version must be %s", httpx.SocketVersion)
	}
	found := &httpx.Problems{}
	if len(versions) > 1 {
		found.Add(headerVersion, httpx.CodeDuplicate, "must be sent only once")
	}
	checkSocketKey(found, req.Header.Values(headerSocketKey))
	return found.Err()
}

func checkSocketKey(found *httpx.Problems, keys []string) {
	const bytes = 16
	switch len(keys) {
	case 0:
		found.Add(headerSocketKey, httpx.CodeRequired, "is required")
	case 1:
		if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(key) != bytes {
			found.Add(headerSocketKey, httpx.CodeInvalidValue, "must be %d bytes in base64", bytes)
		}
	default:
		found.Add(headerSocketKey, httpx.CodeDuplicate, "must be sent only once")
	}
}

// takeVoiceSeats is takeSeats for a voice connection, which takes one of its organization's besides.
func (h *Handler) takeVoiceSeats(who domain.Caller) ([]stream.Seat, error) {
	if h.Stopping() {
		stopping := apierr.New(apierr.Unavailable, "the service is stopping; try again")
		stopping.RetryAfter = time.Second
		return nil, stopping
	}
	seats, err := h.TakeSeats(who)
	if err != nil {
		return nil, err
	}
	voice := stream.Seat{Name: "voice:" + who.OrganizationID, Max: h.VoicePerOrganization}
	if !h.TakeSeat(voice) {
		h.LeaveSeats(seats)
		return nil, httpx.RateLimited(httpx.SeatWait, "too many open voice connections of this organization; close some")
	}
	return append(seats, voice), nil
}
