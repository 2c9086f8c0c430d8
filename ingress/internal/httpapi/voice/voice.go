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
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/agentdb"
	"parley/shared/store/queuedb"
	"parley/shared/store/sessiondb"
)

const (
	// RealtimePath is the path of voice connections.
	RealtimePath = "/v1/realtime"
	// Id prefix.
	voiceSession = "rt" // prefix of the ids of voice sessions that clients did not name
	// Name of the WebSocket subprotocol.
	socketName = "realtime"

	headerProtocol  = "Sec-WebSocket-Protocol"
	headerVersion   = "Sec-WebSocket-Version"
	headerSocketKey = "Sec-WebSocket-Key"
	headerBeta      = "Openai-Beta" // the header's name in net/http's canonical form
	displayBeta     = "OpenAI-Beta" // the header's name in the usual form, for messages
)

// voiceCall contains the parameters of a voice connection. It is created by callFor or readSecret.
type voiceCall struct {
	// Id of an agent or a template.
	model string
	// Session of the connection's runs.
	sessionID string
	named     bool // the request names the session
	// Voice settings of the agent, as of the last look-up.
	tools domain.VoiceTool
}

// PageList reports whether an agent's widget allows an origin. Package widget implements it. If the
// look-up fails, it reports false.
type PageList interface {
	Embeds(ctx context.Context, agentID, origin string) bool
}

// TemplateList lists the templates. The list may come from a cache.
type TemplateList interface {
	Get(ctx context.Context) ([]domain.Template, error)
}

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	*httpx.Limiter
	*dispatch.Submitter
	httpx.SessionChecks
	// Agents and their settings.
	AgentsDB *agentdb.Store
	// Playback positions.
	SessionsDB *sessiondb.Store
	// Authenticates callers and creates client secrets.
	Auth *auth.Resolver
	// Cancels runs.
	Dispatch *dispatch.Dispatcher
	// Owns the connections.
	Voice     *voicegate.Gate
	Templates TemplateList
	// Origins that the widgets of agents allow.
	Pages PageList
	// Origins that the service itself allows.
	Origins *http.CrossOriginProtection
	// Reports whether the process is about to end.
	Stopping func() bool
	// Maximum number of simultaneous connections of an organization.
	VoicePerOrganization int
}

// Handler handles requests to OpenAI's Realtime API. There is one per process. It is safe for
// concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes returns the routes of the handler. Both routes ignore unknown parameters, because OpenAI
// defines the queries. Browsers cannot use cookies for voice connections; see auth.NeedVoice.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	return []httpx.Route{
		{Method: "GET", Path: RealtimePath, Need: auth.NeedVoice, Role: member, Open: true, Stream: true, Handle: h.realtime},
		{Method: "POST", Path: RealtimePath + "/client_secrets", Need: auth.NeedUser, Role: member, Open: true, Handle: h.createClientSecret},
	}
}

// realtime handles GET /v1/realtime: it opens a voice connection with an agent or template. All
// checks happen before the upgrade, so that errors can be HTTP responses. realtime returns when the
// connection has ended and its slots are free.
func (h *Handler) realtime(c *gin.Context) {
	if err := checkNoBody(c); err != nil {
		httpx.Fail(c, err)
		return
	}

	call, err := h.callFor(c)
	if err == nil {
		err = checkUpgrade(c.Request)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	// Take the slots last, so that rejected requests do not use them up.
	seats, err := h.takeVoiceSeats(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	httpx.SetLogIDs(c, call.model, "", call.sessionID)

	// An error means that there was no upgrade, so the response can still be sent.
	if err := h.Voice.Serve(c.Writer, c.Request, h.admission(c, call)); err != nil {
		httpx.Fail(c, err)
	}
}

// admission returns the settings and permissions of a caller's connection. The connection ends when
// Holds returns false. Runs of the connection belong to the caller's principal.
func (h *Handler) admission(c *gin.Context, call voiceCall) voicegate.Admission {
	permit, who := h.voicePermit(c), httpx.Caller(c)
	settings := call.settings()

	// The settings that were checked when the secret was created take precedence.
	if secret := httpx.Identity(c).Secret; secret != nil {
		settings.Session = secret.Session
	}
	return voicegate.Admission{
		Conversation: settings, Organization: who.OrganizationID, Holds: permit.Holds, Look: permit.Earlier,
		Runs: &runs{
			h: h, request: c.Request, traceparent: httpx.Traceparent(c), call: call,
			org: who.OrganizationID, principal: who.Principal(), started: map[string]bool{},
		},
	}
}

// settings returns the initial settings of the protocol's session.
func (k *voiceCall) settings() realtime.Settings {
	return realtime.Settings{SessionID: k.sessionID, Model: k.model, Voice: k.tools.Voice, NewID: id.New}
}

// voicePermit returns the session check of a connection. Its only requirement is that the caller
// may use sessions of their own. Each turn checks the caller's current permissions. A revoked
// credential ends the connection at the next check.
func (h *Handler) voicePermit(c *gin.Context) *httpx.SessionCheck {
	permit := h.SessionCheck(c)
	permit.Reads = []string{httpx.Caller(c).Principal()}
	permit.Resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return h.Auth.VoiceAgain(req) }
	return &permit
}

// callFor reads and checks the parameters of a connection, except for the upgrade headers. Problems
// of the parameters are reported together. A client secret may replace missing parameters; see
// bind.
func (h *Handler) callFor(c *gin.Context) (voiceCall, error) {
	found := &httpx.Problems{}

	checkProtocol(found, c.Request)
	model, present := httpx.QueryValue(c, "model", found)
	call := voiceCall{model: model}
	if !present && httpx.Identity(c).Secret == nil {
		found.Add("model", httpx.CodeRequired, "is required: an agent or a template")
	}
	if call.sessionID, call.named = httpx.QueryValue(c, "session_id", found); call.named {
		runbody.CheckSession(found, "session_id", call.sessionID)
	}

	if err := found.Err(); err != nil {
		return voiceCall{}, err
	}

	if err := call.bind(httpx.Identity(c).Secret, present); err != nil {
		return voiceCall{}, err
	}
	// Report a missing agent before checking the origin. Otherwise a page could find out whose
	// widget lists its origin.
	if err := h.findVoice(c.Request.Context(), httpx.Caller(c).OrganizationID, &call); err != nil {
		return voiceCall{}, err
	}
	return call, h.checkOrigin(c, call.model)
}

// bind applies a client secret to a call. If a call has neither a secret nor a session id, bind
// creates a session id. A caller with a client secret cannot choose the session, because other
// sessions of the secret's creator are private. The model is truncated; a truncated name never
// belongs to an agent. Requests for another agent or session get permission_denied.
func (k *voiceCall) bind(secret *auth.ClientSecret, modelGiven bool) error {
	k.model = openaiapi.TruncateModel(k.model)
	switch {
	case secret == nil && !k.named:
		k.sessionID = id.New(voiceSession)

	// The session that the request names is used as it is.
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

// checkProtocol rejects clients that expect the beta version of the protocol. The beta has
// different events. checkProtocol adds problems to the argument found, under the names of the
// headers.
func checkProtocol(found *httpx.Problems, req *http.Request) {
	for _, value := range req.Header.Values(headerBeta) {
		if strings.Contains(value, "realtime=") {
			found.Add(displayBeta, openaiapi.CodeUnsupported, "the beta of the Realtime API is not supported; omit the header")
		}
	}

	// Browsers send the credential as a subprotocol, because they cannot set headers.
	offered, err := auth.Protocols(req)
	if err != nil || len(offered) == 0 { // authentication has already rejected malformed headers
		return
	}
	if slices.ContainsFunc(offered, func(name string) bool { return strings.HasPrefix(name, "openai-beta.") }) {
		found.Add(headerProtocol, openaiapi.CodeUnsupported, "the beta of the Realtime API is not supported; use %s", socketName)
	}
	if !slices.Contains(offered, socketName) {
		found.Add(headerProtocol, httpx.CodeInvalidValue, "must include %s", socketName)
	}
}

// checkOrigin rejects requests from pages unless the service itself or the agent's widget allows
// their origin. The check is necessary because browsers let any page open a WebSocket. Clients that
// are not browsers send no origin and are accepted. The error is permission_denied.
func (h *Handler) checkOrigin(c *gin.Context, model string) error {
	posted := *c.Request
	posted.Method = http.MethodPost // Check ignores the origin of safe methods such as GET

	cause := h.Origins.Check(&posted)
	if cause == nil && len(c.Request.Header[httpx.HeaderOrigin]) <= 1 {
		return nil
	}

	if origin, ok := httpx.PageOrigin(c.Request); ok && h.Pages.Embeds(c.Request.Context(), model, origin) {
		return nil
	}
	return apierr.Wrap(apierr.PermissionDenied, cause, "this page's origin is not allowed: add it to the agent's widget")
}

// findVoice finds the agent or template of a call and checks that voice is enabled. k.model must be
// set; findVoice sets k.tools. Errors: not_found for a model that does not exist,
// caller_not_allowed, and voice_not_enabled.
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

// toolsFor returns the tools of the agent or template that the argument model names, if users may
// call it. model must be the id of an agent or of a template.
func (h *Handler) toolsFor(ctx context.Context, org, model string) (domain.Tools, error) {
	if id.Valid(id.Agent, model) {
		agent, err := h.AgentsDB.Agent(ctx, org, model)
		if err == nil && !slices.Contains(agent.AllowedCallers, domain.CallerUser) {
			err = apierr.New(apierr.CallerNotAllowed, "%s", queuedb.CallerNotAllowedMessage(agent.ID, "", domain.CallerUser))
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

// checkNoBody rejects a request that has or announces a body. RFC 6455 requires a GET request
// without a body. The bytes of a body could be mistaken for WebSocket frames. The connection is
// closed, because the body is not read.
func checkNoBody(c *gin.Context) error {
	if c.Request.ContentLength == 0 && len(c.Request.TransferEncoding) == 0 {
		return nil
	}
	c.Header("Connection", "close")
	return apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue, "must be empty for a WebSocket")
}

// checkUpgrade rejects requests that are not a WebSocket upgrade (RFC 6455). Without this check,
// the library would reject them, but with errors in another format. The error is upgrade_required
// for a request without an upgrade. For a malformed upgrade, it lists the problems.
func checkUpgrade(req *http.Request) error {
	// has reports whether a list in a header contains a token, ignoring case.
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

// checkSocketKey checks the Sec-WebSocket-Key header: 16 bytes in base64. checkSocketKey adds
// problems to the argument found. The value is not secret; it proves only that the client speaks
// the protocol.
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

// takeVoiceSeats takes the stream slots of a voice connection, as TakeStreams does, and one of the
// organization's voice slots. After a nil error, the caller must pass the result to LeaveStreams. A
// stopping process accepts no new connections, because it would have to close them soon.
func (h *Handler) takeVoiceSeats(who domain.Caller) ([]stream.Limit, error) {
	if h.Stopping() {
		stopping := apierr.New(apierr.Unavailable, "the service is stopping; try again")
		stopping.RetryAfter = time.Second
		return nil, stopping
	}

	seats, err := h.TakeStreams(who)
	if err != nil {
		return nil, err
	}

	// In addition to the limits for streams of all kinds, voice connections have a limit of their
	// own.
	voice := stream.Limit{Name: "voice:" + who.OrganizationID, Max: h.VoicePerOrganization}
	if !h.TakeStream(voice) {
		h.LeaveStreams(seats)
		return nil, httpx.RateLimited(httpx.SlotRetryAfter, "too many open voice connections of this organization; close some")
	}
	return append(seats, voice), nil
}
