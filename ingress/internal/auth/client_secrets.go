package auth

import (
	"context"
	"encoding/json"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// ClientSecret is what a client secret is for: voice connections with one agent or template, in one session.
type ClientSecret struct {
	Model     string
	SessionID string
	Named     bool            // the session, by who made the secret
	Session   json.RawMessage // settings of the protocol's session; nil for none
	Expires   time.Time
}

// sealedSecret is what a client secret says. What it was made with is known by its name and its hash: neither is a credential.
type sealedSecret struct {
	KeyID     string          `json:"k,omitempty"` // of the API key that it was made with, if it was one
	Hash      []byte          `json:"h"`           // of that, or of the login session's token
	Org       string          `json:"o"`
	Model     string          `json:"m"`
	SessionID string          `json:"i"`
	Named     bool            `json:"n,omitempty"`
	Session   json.RawMessage `json:"s,omitempty"`
	Expires   int64           `json:"x"` // Unix time
}

// NewClientSecret makes a client secret, which is good for as long as what its maker shows is, and no longer than of says.
// Its errors are coded.
func (r *Resolver) NewClientSecret(ctx context.Context, maker Identity, of ClientSecret) (string, error) {
	s := sealedSecret{
		KeyID: maker.Caller.KeyID, Org: maker.Caller.OrganizationID, Model: of.Model, SessionID: of.SessionID, Named: of.Named,
		Session: of.Session, Expires: of.Expires.Unix(),
	}
	if s.KeyID == "" {
		sum := hashed(maker.Token)
		s.Hash = sum[:]
	} else {
		found, err := r.keys.get(ctx, s.KeyID, r.now())
		if err != nil {
			return "", err
		}
		if found.found == nil {
			return "", ended()
		}
		s.Hash = found.found.SecretHash
	}
	plain := rendered(s)
	if len(plain) > secrets.ClientSecretRoom {
		return "", apierr.Invalid("session", "too_long", "is %d bytes too long for a client secret: send the rest in session.update",
			len(plain)-secrets.ClientSecretRoom)
	}
	return r.widgets.box.SealClientSecret(plain), nil
}

// secret checks a client secret, whose time may be over when its connection was let in before. Who shows it is its maker, as they
// stand now, and acts where it was made.
func (r *Resolver) secret(ctx context.Context, p presented, before bool) (Identity, error) {
	var s sealedSecret
	if r.widgets == nil {
		return Identity{}, unauthenticated("the client secret is malformed")
	}
	plain, err := r.widgets.box.OpenClientSecret(p.token)
	if err != nil || json.Unmarshal(plain, &s) != nil || len(s.Hash) != len([32]byte{}) {
		return Identity{}, unauthenticated("the client secret is malformed")
	}
	expires := time.Unix(s.Expires, 0)
	switch {
	case !before && !r.now().Before(expires):
		return Identity{}, unauthenticated("the client secret has expired")
	case p.org != "" && p.org != s.Org:
		return Identity{}, apierr.New(apierr.OrganizationMismatch, "x-organization-id names another organization than the client secret's")
	}
	found, err := r.maker(ctx, s)
	if err != nil {
		return Identity{}, err
	}
	ident := Identity{Until: found.until, Via: ViaSecret, Caller: domain.Caller{
		Kind: domain.CallerUser, UserID: found.found.UserID, KeyID: found.found.KeyID, Lineage: found.found.Lineage,
		Credential: found.found.Label,
	}}
	made := p
	made.via, made.org = ViaKey, s.Org
	standing, err := organization(found.found, made)
	if err != nil {
		return Identity{Caller: ident.Caller}, err
	}
	ident.Caller.OrganizationID, ident.Caller.Role = standing.OrganizationID, standing.Role
	ident.Secret = &ClientSecret{Model: s.Model, SessionID: s.SessionID, Named: s.Named, Session: s.Session, Expires: expires}
	return ident, nil
}

// maker finds what a client secret was made with; unauthenticated when that was revoked or is over.
func (r *Resolver) maker(ctx context.Context, s sealedSecret) (found entry[accountdb.Credential], err error) {
	if s.KeyID != "" {
		found, err = r.keys.get(ctx, s.KeyID, r.now())
	} else {
		found, err = r.logins.get(ctx, [32]byte(s.Hash), r.now())
	}
	if err != nil {
		return entry[accountdb.Credential]{}, err
	}
	return r.lasting(found, [32]byte(s.Hash))
}
