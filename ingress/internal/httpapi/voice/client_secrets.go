package voice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/id"
)

const (
	secretLife = 600 // default lifetime of a secret, in seconds
	// Minimum lifetime in seconds.
	minSecretLife = 10
	// Maximum lifetime in seconds.
	maxSecretLife = 7200

	secretAnchor = "created_at" // the only time from which a lifetime can be counted
)

// clientSecretBody is the body of a request for a client secret. Unknown fields are ignored,
// because clients may send options of OpenAI that Parley does not have.
type clientSecretBody struct {
	// Lifetime; nil: secretLife.
	ExpiresAfter *expiresAfter `json:"expires_after"`
	// Settings of the session, in the protocol's form, with the model.
	Session json.RawMessage `json:"session" required:"true"`
}

// expiresAfter is the lifetime of a client secret, in the protocol's form. Both fields may be
// missing.
type expiresAfter struct {
	Anchor  *string `json:"anchor"`
	Seconds *int64  `json:"seconds"`
}

// Check checks the lifetime. The settings of the session are checked later, by readSecret. A
// missing field is valid.
func (b *clientSecretBody) Check(found *httpx.Problems) {
	if b.ExpiresAfter == nil {
		return
	}
	if anchor := b.ExpiresAfter.Anchor; anchor != nil && *anchor != secretAnchor {
		found.Add("expires_after.anchor", httpx.CodeInvalidValue, "must be %s", secretAnchor)
	}
	if s := b.ExpiresAfter.Seconds; s != nil && (*s < minSecretLife || *s > maxSecretLife) {
		found.Add("expires_after.seconds", httpx.CodeInvalidValue, "must be a number of seconds from %d to %d", minSecretLife, maxSecretLife)
	}
}

// life returns the requested lifetime, or the default. It must be called only after Check.
func (b *clientSecretBody) life() time.Duration {
	if b.ExpiresAfter == nil || b.ExpiresAfter.Seconds == nil {
		return secretLife * time.Second
	}
	return time.Duration(*b.ExpiresAfter.Seconds) * time.Second
}

// secretModel is the part of a client secret's session that is checked first. Package realtime
// checks the rest. The model is an agent or a template.
type secretModel struct {
	Model string `json:"model" required:"true"`
}

// clientSecretView is the response with a client secret. The secret is shown only once. Its form is
// that of OpenAI's API, so that the official client libraries can read it.
type clientSecretView struct {
	// The secret.
	Value string `json:"value"`
	// End of the lifetime, in seconds since 1970.
	ExpiresAt int64 `json:"expires_at"`
	// Session as a connection with the secret will report it.
	Session json.RawMessage `json:"session"`
}

// createClientSecret handles POST /v1/realtime/client_secrets: it creates a secret with which a web
// page can open a voice connection. The caller must be a user or a key. The secret permits only
// connections to one agent and one session. The secret is valid until its lifetime ends, or until
// the credential of its creator becomes invalid.
func (h *Handler) createClientSecret(c *gin.Context) {
	view, err := h.newClientSecret(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, view)
}

// newClientSecret reads a request and creates its client secret. It checks the settings in the
// body, so that a page with the secret gets no errors about them later.
func (h *Handler) newClientSecret(c *gin.Context) (clientSecretView, error) {
	body, call, err := h.readSecret(c)
	if err != nil {
		return clientSecretView{}, err
	}

	httpx.SetLogIDs(c, call.model, "", call.sessionID)
	settings := call.settings()
	settings.Session = body.Session
	shown, err := sessionView(settings)
	if err != nil {
		return clientSecretView{}, err
	}

	// The protocol has whole seconds.
	expires := time.Now().Add(body.life()).Truncate(time.Second)
	value, err := h.Auth.NewClientSecret(c.Request.Context(), httpx.Identity(c), auth.ClientSecret{
		Model: call.model, SessionID: call.sessionID, Named: call.named, Session: body.Session, Expires: expires,
	})
	if err != nil {
		return clientSecretView{}, err
	}
	return clientSecretView{value, expires.Unix(), shown}, nil
}

// readSecret reads and checks a request for a client secret. It reports all problems together,
// including those of the session's settings. If the query has no session id, readSecret creates a
// session id for the secret. The result call contains the model, the session and the agent's voice.
// The agent must exist and have voice enabled.
func (h *Handler) readSecret(c *gin.Context) (body clientSecretBody, call voiceCall, err error) {
	body, found, err := httpx.CollectOpen[clientSecretBody](c, httpx.MaxBody)
	if err != nil {
		return body, call, err
	}

	if call.sessionID, call.named = httpx.QueryValue(c, "session_id", found); call.named {
		runbody.CheckSession(found, "session_id", call.sessionID)
	} else {
		call.sessionID = id.New(voiceSession)
	}

	// First decode only the model, because the settings can be checked only for a known model.
	var session secretModel
	if !found.Has("session") {
		d := httpx.Decoder{Src: body.Session, Path: []byte("session"), Found: found, Open: true}
		if wrong := d.Into(reflect.ValueOf(&session).Elem()); wrong != nil {
			found.List = append(found.List, *wrong) // unreachable: the whole body was decoded before
		}
	}

	if !found.Has("session") && !found.Has("session.model") {
		call.model = openaiapi.TruncateModel(session.Model)
	}

	// Create a session with the settings only to find their problems.
	if call.model != "" && call.model == session.Model { // a truncated name never belongs to an agent
		if _, err := sessionView(realtime.Settings{Model: session.Model, Session: body.Session, NewID: id.New}); found.Take(err) != nil {
			return body, call, err
		}
	}

	if err := found.Err(); err != nil {
		return body, call, err
	}
	return body, call, modelInSession(h.findVoice(c.Request.Context(), httpx.Caller(c).OrganizationID, &call))
}

// modelInSession corrects the path of the field in an error about the model. In this body, the path
// is session.model. It changes err. Errors of other fields, and nil, are returned unchanged.
func modelInSession(err error) error {
	coded, ok := err.(*apierr.Error) //nolint:errorlint // a wrapped error has no field of the body
	if ok && len(coded.Fields) == 1 && coded.Fields[0].Field == "model" {
		coded.Fields[0].Field = "session.model"
	}
	return err
}

// sessionView returns the session object that a connection with these settings receives as its
// first message. sessionView needs no connection, because it opens a conversation in memory and
// reads the first event. The error lists the problems of the settings.
func sessionView(settings realtime.Settings) (json.RawMessage, error) {
	conversation, err := realtime.New(settings, time.Now())
	if err != nil {
		return nil, err
	}

	var created struct {
		Session json.RawMessage `json:"session"`
	}

	// The event session.created is the only one with a session.
	for _, event := range conversation.Open("").Events {
		if err := json.Unmarshal(event.Body, &created); err != nil {
			return nil, fmt.Errorf("reading session: %w", err)
		}
	}

	return created.Session, nil
}
