package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// Need says which callers an endpoint accepts. Each route has one.
type Need int

// The callers that an endpoint may accept.
const (
	NeedUser    Need = iota // a user or a key
	NeedDemo                // a user, a key, or a visitor of the demo or a widget
	NeedUpload              // a user, a key, or a visitor of a widget that accepts attachments
	NeedVisitor             // a user, a key, or a visitor of a widget
	NeedPublic              // anyone, but an invalid credential is rejected
	NeedNobody              // no credential is read: sign-up and login
	NeedKey                 // an API key in a request that does not come from a browser
	NeedUserKey             // an API key that acts for its user
	NeedPage                // no credential, as with NeedNobody, but the Origin header of the request is checked
	NeedVoice               // a user or a key, but not by cookie, or the holder of a client secret
)

func (n Need) ofKeys() bool { return n == NeedKey || n == NeedUserKey }

// Lookup reads credentials. The store implements it. The maps contain only credentials that exist.
// Keys of the maps are key ids or hashes.
type Lookup interface {
	KeyCredentials(ctx context.Context, keyIDs []string) (map[string]*accountdb.Credential, error)
	LoginCredentials(ctx context.Context, hashes [][]byte) (map[string]*accountdb.Credential, error)
	Touch(ctx context.Context, used map[string]time.Time) error
}

// Resolver identifies callers. It works only while Run is running. It is safe for concurrent use. A
// process uses a single resolver.
type Resolver struct {
	proxies Proxies
	now     func() time.Time
	keys    *cache[string, accountdb.Credential]   // by key id
	logins  *cache[[32]byte, accountdb.Credential] // by the token's hash
	touches *touches
	widgets *Widgets
}

// New returns a resolver that reads credentials from l and checks widget tokens with w. If w is
// nil, it rejects all widget tokens. New takes client addresses from forwarding headers only if
// they come from the given proxies. It starts no goroutine and reads nothing.
func New(l Lookup, w *Widgets, proxies Proxies) *Resolver {
	r := &Resolver{proxies: proxies, now: time.Now, widgets: w}
	now := func() time.Time { return r.now() }
	r.keys = newCache(now, remember, l.KeyCredentials, func(keyID string) string { return keyID })
	r.logins = newCache(now, remember, func(ctx context.Context, hashes [][32]byte) (map[string]*accountdb.Credential, error) {
		list := make([][]byte, len(hashes))
		for i := range hashes {
			list[i] = hashes[i][:]
		}
		return l.LoginCredentials(ctx, list)
	}, func(hash [32]byte) string { return string(hash[:]) })
	r.touches = newTouches(l.Touch)
	return r
}

// Run does the background work of the resolver until ctx ends. It reads credentials for the caches,
// and stores when each credential was last used. It is called once. At the end it writes the
// remaining uses.
func (r *Resolver) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.keys.group.Run(ctx) })
	wg.Go(func() { r.logins.group.Run(ctx) })
	wg.Go(func() { r.touches.run(ctx) })
	if r.widgets != nil {
		wg.Go(func() { r.widgets.run(ctx) })
	}
	wg.Wait()
}

// Identity is an identified caller. Via says how the caller presented the credential. Token is the
// token of a login session, and otherwise empty. Organizations lists the organizations in which the
// credential is valid, oldest membership first. The credential may be changed or revoked, so
// requests that last longer than Until must resolve the caller again. A zero Until means that this
// is not necessary.
type Identity struct {
	Until         time.Time
	Caller        domain.Caller
	Via           Via
	Token         string
	Organizations []accountdb.Standing
	Secret        *ClientSecret // the client secret that the request presented; nil: none
}

// Resolve identifies the sender of a request to an endpoint with the given need. Its errors have a
// code; see package apierr. An error may come with an identity that contains only the caller, so
// that the request counts against a limit. Resolve does not check rates or roles.
func (r *Resolver) Resolve(req *http.Request, need Need) (Identity, error) {
	ident, err := r.resolve(req, need)
	if need == NeedKey && fromBrowser(req) { // the identity is returned too, because it selects the rate limit that the response reports
		return ident, apierr.New(apierr.ServerToServerOnly,
			"this endpoint does not accept requests from browsers; send the request from a server")
	}
	return ident, err
}

// resolve is Resolve without the check for browsers. If a request has several faults, the order of
// the cases determines which error it gets. resolve reads the database only if the credential is
// not cached.
func (r *Resolver) resolve(req *http.Request, need Need) (Identity, error) {
	if need == NeedVoice {
		return r.voice(req, false)
	}
	anybody := need == NeedNobody || need == NeedPage

	// Sign-up and login ignore the cookie of an earlier login.
	p, err := read(req, !anybody)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case p.via == ViaWidget && !need.ofKeys():
		return r.visitor(req, p, need)
	case anybody && !p.demo:
		return Identity{}, nil
	case anybody:
		return Identity{}, DemoRestricted()
	case p.via == ViaNothing && p.demo:
		return r.demo(req, need)
	case p.via == ViaNothing:
		return nobody(need)
	case need.ofKeys() && p.via != ViaKey:
		return Identity{}, noKey(p)
	}
	return r.known(req.Context(), p, need)
}

// fromBrowser reports whether a request has headers that browsers set and servers do not need.
// Endpoints with NeedKey reject such requests.
func fromBrowser(req *http.Request) bool {
	_, origin := req.Header["Origin"]
	_, fetch := req.Header["Sec-Fetch-Site"]
	return origin || fetch
}

// keyRequired returns the error for a request without an API key to an endpoint that accepts only
// keys.
func keyRequired() error {
	return apierr.New(apierr.APIKeyRequired, "this endpoint accepts only an API key, in x-api-key or as a bearer token")
}

// noKey returns the error for a request that presents another credential to an endpoint that
// requires an API key. For an unknown bearer token, the error says that it is not an API key.
func noKey(p presented) error {
	if p.via == ViaBearer && !secrets.IsSessionToken(p.token) {
		return apierr.New(apierr.APIKeyRequired, "the bearer token is not a Parley API key; Parley keys begin with ak_")
	}
	return keyRequired()
}

// nobody returns the identity of a request without a credential, or an error if the endpoint
// requires a credential.
func nobody(need Need) (Identity, error) {
	switch need {
	case NeedPublic:
		return Identity{}, nil
	case NeedKey, NeedUserKey:
		return Identity{}, keyRequired()
	default:
		return Identity{}, apierr.New(apierr.Unauthenticated, "a credential is missing: send an API key in x-api-key, or log in")
	}
}

// demo returns the identity of a demo visitor, or demo_restricted for endpoints that are closed to
// the demo. Demo visitors are distinguished by their address.
func (r *Resolver) demo(req *http.Request, need Need) (Identity, error) {
	if need != NeedDemo && need != NeedPublic {
		return Identity{}, DemoRestricted()
	}
	return Identity{Caller: domain.Caller{
		Kind:           domain.CallerDemo,
		OrganizationID: domain.DemoOrganization,
		DemoClient:     r.DemoClient(req),
	}}, nil
}

// DemoRestricted returns the error for a demo visitor at an endpoint that is closed to the demo.
func DemoRestricted() error {
	return apierr.New(apierr.DemoRestricted, "demo mode only allows listing templates and chatting with them")
}

// known verifies the presented credential and determines the organization in which the request
// acts. The role is that of the user's membership in this organization.
func (r *Resolver) known(ctx context.Context, p presented, need Need) (Identity, error) {
	found, err := r.credential(ctx, p)
	if err != nil {
		return Identity{}, err
	}

	// The kind of the caller depends on the endpoint and not on the credential, because the same
	// API key may start chats and automations.
	cred := found.found
	ident := Identity{Until: found.until, Via: p.via, Organizations: cred.Memberships}
	ident.Caller = domain.Caller{Kind: domain.CallerUser, UserID: cred.UserID, KeyID: cred.KeyID, Lineage: cred.Lineage}
	if need == NeedKey {
		ident.Caller.Kind = domain.CallerSystem
	}
	ident.Caller.Credential = cred.Label

	if p.via != ViaKey {
		ident.Token = p.token
	}

	standing, err := organization(cred, p)
	if err != nil && need != NeedPublic { // public endpoints need no organization
		return Identity{Caller: ident.Caller}, err // the caller is identified, so the request counts against the caller's limit
	}
	ident.Caller.OrganizationID, ident.Caller.Role = standing.OrganizationID, standing.Role
	return ident, nil
}

// credential returns the credential that a request presents, or unauthenticated if it is unknown,
// revoked or expired. The result contains the credential and the time until which it is cached.
func (r *Resolver) credential(ctx context.Context, p presented) (found entry[accountdb.Credential], err error) {
	if p.via == ViaKey {
		keyID, ok := secrets.APIKeyID(p.token)
		if !ok {
			return entry[accountdb.Credential]{}, malformed(p)
		}
		found, err = r.keys.get(ctx, keyID, r.now())
	} else {
		if !secrets.IsSessionToken(p.token) {
			return entry[accountdb.Credential]{}, malformed(p)
		}
		found, err = r.logins.get(ctx, hashed(p.token), r.now())
	}
	if err != nil {
		return entry[accountdb.Credential]{}, err
	}
	return r.lasting(found, hashed(p.token))
}

// lasting returns the argument found if the hash of its credential equals the argument sum and the
// credential has not expired. It then also records that the credential was used. Otherwise it
// returns the error unauthenticated.
func (r *Resolver) lasting(found entry[accountdb.Credential], sum [32]byte) (entry[accountdb.Credential], error) {
	// The comparison takes constant time, so that its duration reveals nothing about the stored
	// hash.
	cred := found.found
	if cred == nil || subtle.ConstantTimeCompare(cred.SecretHash, sum[:]) != 1 {
		return entry[accountdb.Credential]{}, ended()
	}

	now := r.now()
	if !cred.ExpiresAt.IsZero() && !now.Before(cred.ExpiresAt) {
		return entry[accountdb.Credential]{}, unauthenticated("the credential has expired")
	}
	r.touches.note(cred.KeyID+cred.LoginID, now)
	return found, nil
}

// Used records a use of a key by a request that did not present the key, such as a delivery to a
// hook.
func (r *Resolver) Used(keyID string) { r.touches.note(keyID, r.now()) }

// ended returns the error for a credential that is not valid. It does not reveal whether the
// credential is unknown, revoked or expired.
func ended() error { return unauthenticated("the credential is unknown, revoked or expired") }

// malformed returns the error for a credential of the wrong form. It describes the right form,
// because clients often send the key of another service for which they were configured.
func malformed(p presented) error {
	switch {
	case p.via == ViaCookie:
		return unauthenticated("the session token is malformed")
	case p.via == ViaBearer && secrets.IsClientSecret(p.token):
		return unauthenticated("a client secret is valid only for voice connections at /v1/realtime")
	case p.via == ViaBearer:
		return unauthenticated("the bearer token is neither a Parley API key, which begins with ak_, nor the token of a login session")
	case secrets.IsAPIKey(p.token):
		return unauthenticated("the API key is malformed")
	default:
		return unauthenticated("not a Parley API key; Parley keys begin with ak_")
	}
}

// unauthenticated returns an error with the code unauthenticated.
func unauthenticated(detail string) error { return apierr.New(apierr.Unauthenticated, "%s", detail) }

// organization returns the organization in which a request acts. An organization's key acts in its
// organization. A user's key acts in the organization that the header x-organization-id names. A
// login session acts in that organization, too; without the header, it acts in the organization of
// the user's oldest membership. The errors are organization_mismatch, organization_required and
// permission_denied. The function organization uses the cached memberships, so a change takes
// effect within 5 s.
func organization(cred *accountdb.Credential, p presented) (accountdb.Standing, error) {
	// A key that belongs to an organization has the rights of an administrator there.
	if cred.OrganizationID != "" {
		if p.org != "" && p.org != cred.OrganizationID {
			return accountdb.Standing{}, apierr.New(apierr.OrganizationMismatch, "x-organization-id does not match the organization of the API key")
		}
		return accountdb.Standing{OrganizationID: cred.OrganizationID, Role: domain.RoleAdmin}, nil
	}

	if p.org == "" {
		if p.via == ViaKey {
			return accountdb.Standing{}, apierr.New(apierr.OrganizationRequired, "a user's API key needs the header x-organization-id")
		}
		if len(cred.Memberships) > 0 {
			return cred.Memberships[0], nil
		}
	}

	for _, m := range cred.Memberships {
		if m.OrganizationID == p.org {
			return m, nil
		}
	}
	return accountdb.Standing{}, apierr.New(apierr.PermissionDenied, "you are not a member of this organization")
}

// DemoClient returns the name of the demo visitor who sends a request: the client's IP address, or
// its /64 network for IPv6.
func (r *Resolver) DemoClient(req *http.Request) string { return ClientName(r.proxies.ClientAddr(req)) }

// ClientAddr returns the address of the client that sends a request.
func (r *Resolver) ClientAddr(req *http.Request) netip.Addr { return r.proxies.ClientAddr(req) }

// ForgetKey drops a key from the cache, so that this process immediately notices that the key was
// revoked.
func (r *Resolver) ForgetKey(keyID string) { r.keys.forget(keyID) }

// ForgetToken drops the token of a login session from the cache.
func (r *Resolver) ForgetToken(token string) { r.logins.forget(hashed(token)) }

// ForgetLogin drops the login session whose token has this hash from the cache.
func (r *Resolver) ForgetLogin(hash []byte) {
	if len(hash) == sha256.Size {
		r.logins.forget([sha256.Size]byte(hash))
	}
}

// ForgetUser drops all login sessions and keys of a user from the cache. It is called after the
// user's rights have changed. Other processes notice the change when their entries expire.
func (r *Resolver) ForgetUser(userID string) {
	// The caches are not indexed by user, so all of their entries are searched.
	theirs := func(cred *accountdb.Credential) bool { return cred.UserID == userID }
	r.keys.forgetWhere(theirs)
	r.logins.forgetWhere(theirs)
}

// Person returns the owner of the request's login session, for endpoints that require no
// credential. The identity is empty if the request presents no credential or an API key. It is also
// empty if the cookie has expired, because browsers keep sending such a cookie. Any other invalid
// credential is an error.
func (r *Resolver) Person(req *http.Request) (Identity, error) {
	ident, err := r.Resolve(req, NeedPublic)
	if err == nil && ident.Via != ViaCookie && ident.Via != ViaBearer {
		return Identity{}, nil
	}
	_, explicit := req.Header[headerAuthorization]
	_, key := req.Header[headerKey]
	if apierr.CodeFor(err) == apierr.Unauthenticated && !explicit && !key {
		return Identity{}, nil
	}
	return ident, err
}
