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

// Need says which callers an endpoint lets in.
type Need int

// The needs of endpoints.
const (
	NeedUser    Need = iota // a person or a key
	NeedDemo                // the same, or a visitor: of the demo, or of an agent's widget
	NeedPublic              // anybody, but no broken credential
	NeedNobody              // credentials are not looked at: signing up and logging in
	NeedKey                 // an API key, and no browser: the caller is a system
	NeedUserKey             // an API key, on behalf of the person who uses it
	NeedPage                // as NeedNobody: what counts is the page that sends the request
	NeedVoice               // a person or a key, but by no cookie; or who was given a client secret
)

// ofKeys reports whether nothing but an API key will do.
func (n Need) ofKeys() bool { return n == NeedKey || n == NeedUserKey }

// Lookup reads credentials; the store does.
type Lookup interface {
	KeyCredentials(ctx context.Context, keyIDs []string) (map[string]*accountdb.Credential, error)
	LoginCredentials(ctx context.Context, hashes [][]byte) (map[string]*accountdb.Credential, error)
	Touch(ctx context.Context, used map[string]time.Time) error
}

// Resolver tells who calls. Its Run must be running for it to answer.
type Resolver struct {
	proxies Proxies
	now     func() time.Time
	keys    *cache[string, accountdb.Credential]
	logins  *cache[[32]byte, accountdb.Credential]
	touches *touches
	widgets *Widgets
}

// New makes a resolver that reads credentials from l, widget tokens with w (which may be nil: then none is good), and
// believes forwarded addresses from proxies only.
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

// Run reads credentials and writes down their use until ctx ends.
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

// Identity is who calls: Caller as the service sees them, Via how they showed it, Token the login
// session's token (empty for others), and Organizations where their credential is good, oldest first. What lasts
// longer than a request must resolve it again at Until, when that is set: others may have changed or revoked it.
type Identity struct {
	Until         time.Time
	Caller        domain.Caller
	Via           Via
	Token         string
	Organizations []accountdb.Standing
	Secret        *ClientSecret // what was shown, when it is one
}

// Resolve tells who sends req to an endpoint of that need. Its errors are coded.
func (r *Resolver) Resolve(req *http.Request, need Need) (Identity, error) {
	ident, err := r.resolve(req, need)
	if need == NeedKey && fromBrowser(req) { // whatever came along; the identity only tells whose limit to show
		return ident, apierr.New(apierr.ServerToServerOnly, "this endpoint must not be called from a browser")
	}
	return ident, err
}

func (r *Resolver) resolve(req *http.Request, need Need) (Identity, error) {
	if need == NeedVoice {
		return r.voice(req, false)
	}
	anybody := need == NeedNobody || need == NeedPage
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

// fromBrowser reports whether a browser says that it sends the request; servers have no reason to.
func fromBrowser(req *http.Request) bool {
	_, origin := req.Header["Origin"]
	_, fetch := req.Header["Sec-Fetch-Site"]
	return origin || fetch
}

func keyRequired() error {
	return apierr.New(apierr.APIKeyRequired, "this endpoint takes an API key, in x-api-key or as a bearer token, and nothing else")
}

// noKey is the refusal of a credential where an API key is needed. A bearer token that is nothing of ours was meant as one.
func noKey(p presented) error {
	if p.via == ViaBearer && !secrets.IsSessionToken(p.token) {
		return apierr.New(apierr.APIKeyRequired, "the bearer token is no API key of Parley: they begin with ak_")
	}
	return keyRequired()
}

func nobody(need Need) (Identity, error) {
	switch need {
	case NeedPublic:
		return Identity{}, nil
	case NeedKey, NeedUserKey:
		return Identity{}, keyRequired()
	default:
		return Identity{}, apierr.New(apierr.Unauthenticated, "send an API key in x-api-key or log in")
	}
}

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

// DemoRestricted is the refusal of whatever is not open to demo visitors.
func DemoRestricted() error {
	return apierr.New(apierr.DemoRestricted, "demo mode may list templates and chat with them, nothing else")
}

// known checks a shown credential and chooses the organization.
func (r *Resolver) known(ctx context.Context, p presented, need Need) (Identity, error) {
	found, err := r.credential(ctx, p)
	if err != nil {
		return Identity{}, err
	}
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
	if err != nil && need != NeedPublic { // what is public needs no organization
		return Identity{Caller: ident.Caller}, err // whose limit it counts against is known
	}
	ident.Caller.OrganizationID, ident.Caller.Role = standing.OrganizationID, standing.Role
	return ident, nil
}

// credential finds what was shown; unauthenticated when it is unknown, revoked or over.
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

// lasting gives what was found, if it is of that hash and good still.
func (r *Resolver) lasting(found entry[accountdb.Credential], sum [32]byte) (entry[accountdb.Credential], error) {
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

// Used notes that a request entered as a key whose secret it did not bring, such as a hook's delivery.
func (r *Resolver) Used(keyID string) { r.touches.note(keyID, r.now()) }

func ended() error { return unauthenticated("the credential is unknown, was revoked or has ended") }

// malformed says what a credential should look like. Clients that were made for other services send those services' keys.
func malformed(p presented) error {
	switch {
	case p.via == ViaCookie:
		return unauthenticated("the session token is malformed")
	case p.via == ViaBearer && secrets.IsClientSecret(p.token):
		return unauthenticated("a client secret is for voice connections at /v1/realtime, nothing else")
	case p.via == ViaBearer:
		return unauthenticated("the bearer token is neither an API key of Parley, which begins with ak_, nor the token of a login session")
	case secrets.IsAPIKey(p.token):
		return unauthenticated("the API key is malformed")
	default:
		return unauthenticated("this is no API key of Parley: they begin with ak_")
	}
}

func unauthenticated(detail string) error { return apierr.New(apierr.Unauthenticated, "%s", detail) }

// organization chooses where a request acts: an organization's key in its own, a user's key where
// the header says, a login session there too or else in the oldest membership.
func organization(cred *accountdb.Credential, p presented) (accountdb.Standing, error) {
	if cred.OrganizationID != "" {
		if p.org != "" && p.org != cred.OrganizationID {
			return accountdb.Standing{}, apierr.New(apierr.OrganizationMismatch, "x-organization-id names another organization than the API key's")
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

// DemoClient names the demo visitor behind a request: the client's address, its /64 for IPv6.
func (r *Resolver) DemoClient(req *http.Request) string { return ClientName(r.proxies.ClientAddr(req)) }

// ClientAddr gives the address of the client behind a request.
func (r *Resolver) ClientAddr(req *http.Request) netip.Addr { return r.proxies.ClientAddr(req) }

// ForgetKey drops what is remembered of a key, so that its revocation holds here at once.
func (r *Resolver) ForgetKey(keyID string) { r.keys.forget(keyID) }

// ForgetToken drops what is remembered of a login session's token.
func (r *Resolver) ForgetToken(token string) { r.logins.forget(hashed(token)) }

// ForgetLogin is ForgetToken by the hash of the token.
func (r *Resolver) ForgetLogin(hash []byte) {
	if len(hash) == sha256.Size {
		r.logins.forget([sha256.Size]byte(hash))
	}
}

// ForgetUser drops what is remembered of all login sessions and keys of a user: what they may do has changed.
func (r *Resolver) ForgetUser(userID string) {
	theirs := func(cred *accountdb.Credential) bool { return cred.UserID == userID }
	r.keys.forgetWhere(theirs)
	r.logins.forgetWhere(theirs)
}

// Person tells whose login session a request shows at an endpoint that takes none: nobody when it shows none, a
// key, or a cookie that is no longer good, which the browser sends whether it is wanted or not. Any other broken
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
