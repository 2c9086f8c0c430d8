package organization

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// listKeys handles GET /api/keys: it lists the caller's own keys and, for admins, the
// organization's keys. Keys themselves are not stored, so the response has only their last four
// characters.
func (h *Handler) listKeys(c *gin.Context) error {
	p, err := httpx.ReadPage(c, id.Key)
	if err != nil {
		return err
	}

	filter := keysFor(c)
	filter.After = p.After
	keys, err := h.Organizations.Keys(c.Request.Context(), filter, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(keys, p, func(k domain.APIKey) string { return k.ID }))
}

// keysFor returns the filter of the keys that the caller may list. An organization's key has no
// user, and lists only keys of the organization.
func keysFor(c *gin.Context) accountdb.KeyFilter {
	who := httpx.Caller(c)
	filter := accountdb.KeyFilter{UserID: who.UserID}
	if who.Role.AtLeast(domain.RoleAdmin) {
		filter.OrganizationID = who.OrganizationID
	}
	return filter
}

// keyBody is the body of POST /api/keys. A key of the organization is valid in that organization,
// and a user's key in all organizations of the user.
type keyBody struct {
	// Text for people.
	Name  string          `json:"name" required:"true"`
	Scope domain.KeyScope `json:"scope" required:"true"`
	// Time in RFC 3339 form; nil: the key does not expire.
	ExpiresAt *string `json:"expiresAt"`
	// ExpiresAt as a time; set by Check.
	expires *domain.Time
}

// Check checks the fields and parses the expiry, which must be in the future. A key with a past
// expiry would never be valid.
func (b *keyBody) Check(p *httpx.Problems) {
	p.Name("name", b.Name, httpx.MaxName)
	if b.Scope != domain.KeyScopeOrganization && b.Scope != domain.KeyScopeUser {
		p.Add("scope", httpx.CodeInvalidValue, "must be %s or %s", domain.KeyScopeOrganization, domain.KeyScopeUser)
	}
	if b.ExpiresAt == nil {
		return
	}

	at, err := time.Parse(time.RFC3339, *b.ExpiresAt)
	if err != nil {
		p.Add("expiresAt", httpx.CodeInvalidValue, "must be a time such as 2030-01-31T12:00:00Z")
		return
	}
	if !at.After(time.Now()) {
		p.Add("expiresAt", httpx.CodeInvalidValue, "must be in the future")
	}

	b.expires = domain.AtPtr(at)
}

// newKeyView is the response with a new key. The key is shown only once. The other fields are those
// of lists.
type newKeyView struct {
	domain.APIKey
	Key string `json:"key"`
}

// createKey handles POST /api/keys: it creates a key of the caller, or of the organization if the
// caller is an admin. The status is 201. Members get permission_denied for a key of the
// organization.
func (h *Handler) createKey(c *gin.Context) error {
	body, err := httpx.Bind[keyBody](c)
	if err != nil {
		return err
	}

	who := actor(c)
	if body.Scope == domain.KeyScopeUser && who.UserID == "" {
		return apierr.New(apierr.PermissionDenied, "an organization's key cannot create a user's key")
	}

	// Only the hash is stored, so a reader of the database cannot use the key.
	k := secrets.NewAPIKey()
	stored, err := h.Organizations.CreateKey(c.Request.Context(), who, accountdb.NewKey{
		ID: k.ID, Scope: body.Scope, Name: body.Name, SecretHash: k.Hash, LastFour: k.LastFour, ExpiresAt: body.expires,
	})
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusCreated, newKeyView{stored, k.Key})
}

// revokeKey handles DELETE /api/keys?id=. The key becomes invalid at this ingress process
// immediately and at others within 5 seconds.
func (h *Handler) revokeKey(c *gin.Context) error {
	keyID, err := httpx.RequiredID(c, id.Key)
	if err != nil {
		return err
	}
	if err := h.Organizations.RevokeKey(c.Request.Context(), actor(c), keyID); err != nil {
		return err
	}

	h.Auth.ForgetKey(keyID)
	return httpx.JSON(c, http.StatusOK, httpx.Deleted(keyID))
}

// rotateBody is the optional body of a request to rotate a key. A request without a body uses
// httpx.DefaultOverlap.
type rotateBody struct {
	// Time in seconds for which the old key stays valid.
	OverlapSeconds httpx.Optional[int] `json:"overlapSeconds"`
}

// Check checks the time for which the old key stays valid. If this time is 0, the old key expires
// immediately. A missing value is valid.
func (b *rotateBody) Check(p *httpx.Problems) {
	if n := b.OverlapSeconds.Value; n < 0 || n > httpx.MaxOverlap {
		p.Add("overlapSeconds", httpx.CodeInvalidValue, "must be from 0 to %d", httpx.MaxOverlap)
	}
}

// rotateKey handles POST /api/keys?id=&action=rotate: it creates a key with the same properties as
// an existing key. The old key expires after the overlap that the body contains. The caller must
// have permission to create such a key. The body is optional. The response is 201 with the new key,
// which has a new id.
func (h *Handler) rotateKey(c *gin.Context) error {
	var body rotateBody
	var err error

	// -1 means a chunked body, which is read too.
	if c.Request.ContentLength != 0 {
		body, err = httpx.Bind[rotateBody](c)
	}

	if err != nil {
		return err
	}

	keyID, err := httpx.RequiredID(c, id.Key)
	if err != nil {
		return err
	}

	k := secrets.NewAPIKey()
	made := accountdb.NewKey{ID: k.ID, SecretHash: k.Hash, LastFour: k.LastFour}
	overlap := time.Duration(body.OverlapSeconds.Or(httpx.DefaultOverlap)) * time.Second
	stored, err := h.Organizations.RotateKey(c.Request.Context(), actor(c), keyID, made, overlap)
	if err != nil {
		return err
	}

	h.Auth.ForgetKey(keyID) // its expiry has changed
	return httpx.JSON(c, http.StatusCreated, newKeyView{stored, k.Key})
}

// actor returns the caller in the form in which the store records who makes a change. The record
// contains the key or the login session, so that the change can be attributed.
func actor(c *gin.Context) accountdb.Actor {
	who := httpx.Caller(c)
	by := accountdb.Actor{OrganizationID: who.OrganizationID, UserID: who.UserID, KeyID: who.KeyID, Role: who.Role}
	if who.KeyID == "" {
		by.LoginID = who.Credential // a person who does not use a key has a login session
	}
	return by
}
