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

// ClientSecret describes the permission of a client secret: voice connections to one agent or
// template, in one session. The settings were checked when the secret was created.
type ClientSecret struct {
	// ID of the agent or template.
	Model     string
	SessionID string
	Named     bool            // whether the creator of the client secret named the session
	Session   json.RawMessage // settings for the session, in the format of the Realtime protocol; nil: none
	Expires   time.Time
}

// sealedSecret is the encrypted content of a client secret. It contains an id and a hash that
// identify the credential with which it was created. Neither can be used as a credential. Short
// names keep the secret small, because it is sent in a header.
type sealedSecret struct {
	KeyID     string          `json:"k,omitempty"` // id of the API key that created the client secret, if any
	Hash      []byte          `json:"h"`           // SHA-256 of the API key or login token that created the client secret
	Org       string          `json:"o"`
	Model     string          `json:"m"`
	SessionID string          `json:"i"`
	Named     bool            `json:"n,omitempty"`
	Session   json.RawMessage `json:"s,omitempty"`
	Expires   int64           `json:"x"` // Unix time
}

// NewClientSecret returns a client secret with the given purpose. It is valid until purpose.Expires
// or until the maker's credential becomes invalid, whichever is earlier. The error is
// invalid_request if the settings are too large. The secret is stored nowhere.
func (r *Resolver) NewClientSecret(ctx context.Context, maker Identity, purpose ClientSecret) (string, error) {
	s := sealedSecret{
		KeyID: maker.Caller.KeyID, Org: maker.Caller.OrganizationID, Model: purpose.Model, SessionID: purpose.SessionID, Named: purpose.Named,
		Session: purpose.Session, Expires: purpose.Expires.Unix(),
	}

	// Each time the client secret is used, the function lasting compares this hash with the stored
	// one.
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

	// A client secret is sent in a header, and the size of headers is limited.
	plain := rendered(s)
	if len(plain) > secrets.ClientSecretRoom {
		return "", apierr.Invalid("session", "too_long", "exceeds the size limit of a client secret by %d bytes: send the rest in session.update",
			len(plain)-secrets.ClientSecretRoom)
	}
	return r.widgets.box.SealClientSecret(plain), nil
}

// secret checks a client secret. If the argument before is set, it accepts an expired secret: the
// connection already exists, and the secret was valid at its beginning. The holder of the secret
// acts as its maker, with the maker's current rights, in the organization in which the secret was
// created. The errors are unauthenticated, organization_mismatch, and those of the function
// organization.
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
		return Identity{}, apierr.New(apierr.OrganizationMismatch, "x-organization-id does not match the organization of the client secret")
	}
	found, err := r.maker(ctx, s)
	if err != nil {
		return Identity{}, err
	}

	// The caller has the current rights of the maker's credential.
	ident := Identity{Until: found.until, Via: ViaSecret, Caller: domain.Caller{
		Kind: domain.CallerUser, UserID: found.found.UserID, KeyID: found.found.KeyID, Lineage: found.found.Lineage,
		Credential: found.found.Label,
	}}

	// The secret belongs to the organization in which it was created. The request is treated as if
	// its header named that organization.
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

// maker returns the credential with which a client secret was created, or unauthenticated if that
// credential was revoked or has expired.
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
