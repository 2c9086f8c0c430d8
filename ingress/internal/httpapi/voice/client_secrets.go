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
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/id"
)

const (
	secretLife    = 600 // seconds, when a request names none,
	secretLeast   = 10
	maxSecretLife = 7200

	secretAnchor = "created_at" // the only one there is
)

// clientSecretBody is what a client secret is asked for with.
type clientSecretBody struct {
	ExpiresAfter *expiresAfter   `json:"expires_after"`
	Session      json.RawMessage `json:"session" need:"yes"`
}

type expiresAfter struct {
	Anchor  *string `json:"anchor"`
	Seconds *int64  `json:"seconds"`
}

func (b *clientSecretBody) Check(found *httpx.Problems) {
	if b.ExpiresAfter == nil {
		return
	}
	if anchor := b.ExpiresAfter.Anchor; anchor != nil && *anchor != secretAnchor {
		found.Add("expires_after.anchor", httpx.CodeInvalidValue, "must be %s", secretAnchor)
	}
	if s := b.ExpiresAfter.Seconds; s != nil && (*s < secretLeast || *s > maxSecretLife) {
		found.Add("expires_after.seconds", httpx.CodeInvalidValue, "must be a number of seconds from %d to %d", secretLeast, maxSecretLife)
	}
}

func (b *clientSecretBody) life() time.Duration {
	if b.ExpiresAfter == nil || b.ExpiresAfter.Seconds == nil {
		return secretLife * time.Second
	}
	return time.Duration(*b.ExpiresAfter.Seconds) * time.Second
}

// secretModel is what is looked at of a client secret's session before the protocol looks at the rest.
type secretModel struct {
	Model string `json:"model" need:"yes"`
}

// clientSecretView is a client secret as its maker is shown it, once.
type clientSecretView struct {
	Value     string          `json:"value"`
	ExpiresAt int64           `json:"expires_at"`
	Session   json.RawMessage `json:"session"`
}

// createClientSecret is POST /v1/realtime/client_secrets: what a page needs to open a voice connection by itself.
func (h *Handler) createClientSecret(c *gin.Context) {
	view, err := h.newClientSecret(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, view)
}

func (h *Handler) newClientSecret(c *gin.Context) (clientSecretView, error) {
	body, asked, err := h.secretAsked(c)
	if err != nil {
		return clientSecretView{}, err
	}
	httpx.About(c, asked.model, "", asked.sessionID)
	settings := asked.settings()
	settings.Session = body.Session
	shown, err := sessionShown(settings)
	if err != nil {
		return clientSecretView{}, err
	}
	expires := time.Now().Add(body.life()).Truncate(time.Second)
	value, err := h.Auth.NewClientSecret(c.Request.Context(), httpx.Identity(c), auth.ClientSecret{
		Model: asked.model, SessionID: asked.sessionID, Named: asked.named, Session: body.Session, Expires: expires,
	})
	if err != nil {
		return clientSecretView{}, err
	}
	return clientSecretView{value, expires.Unix(), shown}, nil
}

// secretAsked reads what a client secret is to be for. What is wrong with the session's settings is told along with the rest.
func (h *Handler) secretAsked(c *gin.Context) (body clientSecretBody, asked voiceCall, err error) {
	body, found, err := httpx.CollectOpen[clientSecretBody](c, httpx.MaxBody)
	if err != nil {
		return body, asked, err
	}
	if asked.sessionID, asked.named = httpx.QueryValue(c, "session_id", found); asked.named {
		httpx.CheckSession(found, "session_id", asked.sessionID)
	} else {
		asked.sessionID = id.New(voiceSession)
	}
	var of secretModel
	if !found.Has("session") {
		d := httpx.Decoder{Src: body.Session, Path: []byte("session"), Found: found, Open: true}
		if wrong := d.Into(reflect.ValueOf(&of).Elem()); wrong != nil {
			found.List = append(found.List, *wrong) // not reached: the body was read to its end before
		}
	}
	if !found.Has("session") && !found.Has("session.model") {
		asked.model = openaiapi.ClipModel(of.Model)
	}
	if asked.model != "" && asked.model == of.Model { // else there is no such model
		if _, err := sessionShown(realtime.Settings{Model: of.Model, Session: body.Session, NewID: id.New}); found.Take(err) != nil {
			return body, asked, err
		}
	}
	if err := found.Err(); err != nil {
		return body, asked, err
	}
	return body, asked, inSession(h.findVoice(c.Request.Context(), httpx.Caller(c).OrganizationID, &asked))
}

// inSession names the model where it stands in the body.
func inSession(err error) error {
	coded, ok := err.(*apierr.Error) //nolint:errorlint // whatever stands around it is not told
	if ok && len(coded.Fields) == 1 && coded.Fields[0].Field == "model" {
		coded.Fields[0].Field = "session.model"
	}
	return err
}

// sessionShown is a session as its connection is told it first.
func sessionShown(settings realtime.Settings) (json.RawMessage, error) {
	conversation, err := realtime.New(settings, time.Now())
	if err != nil {
		return nil, err
	}
	var created struct {
		Session json.RawMessage `json:"session"`
	}
	for _, event := range conversation.Open().Events {
		if err := json.Unmarshal(event.Body, &created); err != nil {
			return nil, fmt.Errorf("reading session: %w", err)
		}
	}
	return created.Session, nil
}
