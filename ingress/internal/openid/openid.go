package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"parley/shared/apierr"
)

const (
	callTime   = 5 * time.Second // timeout of one request to the provider
	giveUpTime = 2 * time.Second // pause after a failed discovery; no request is sent during the pause
)

// Settings identify the provider and this service's client. ClientSecret may be empty.
type Settings struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	RedirectURL  string // URL to which the provider redirects the browser
}

// Provider is an OpenID provider. It is safe for concurrent use. A process uses a single provider.
type Provider struct {
	settings Settings
	client   *http.Client
	now      func() time.Time

	mu    sync.Mutex
	known *oidc.Provider // nil until the provider's endpoints are discovered
	// Error of the last discovery; used until retryAt.
	failed  error
	retryAt time.Time
}

// New returns a Provider. It sends no request before the first login.
func New(s Settings) *Provider {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: callTime, MaxIdleConnsPerHost: 4}
	return &Provider{settings: s, client: &http.Client{Transport: bounded{transport}, Timeout: callTime}, now: time.Now}
}

// Attempt is the state of a login in progress, which the browser must present when it returns from
// the provider. It must be kept secret from other browsers. It is used for one login.
type Attempt struct {
	// Returned by the provider in the URL.
	State string `json:"state"`
	// Contained in the ID token.
	Nonce string `json:"nonce"`
	// PKCE verifier, sent with the code.
	Verifier string `json:"verifier"`
}

// Person is an authenticated person. Issuer and Subject identify the person permanently. Email may
// change, and may be used only if it is verified.
type Person struct {
	Issuer, Subject string
	Email           string
	Verified        bool
	Name            string
}

// Begin returns the URL to which the browser must be redirected, and the state of the login. It
// returns an error with the code unavailable if the provider cannot be reached. Begin changes
// nothing, so an abandoned login leaves no trace.
func (p *Provider) Begin(ctx context.Context) (string, Attempt, error) {
	known, err := p.discovered(ctx)
	if err != nil {
		return "", Attempt{}, err
	}
	a := Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.config(known).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Matches reports whether the returned state belongs to this attempt. The comparison takes constant
// time.
func (a Attempt) Matches(state string) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

// Finish exchanges the returned code and returns the authenticated person. It returns the error
// unauthenticated if the provider does not authenticate a person, or if the code belongs to another
// attempt. The caller must have checked the state with Matches. If the provider does not respond,
// the error has the code unavailable.
func (p *Provider) Finish(ctx context.Context, a Attempt, code string) (Person, error) {
	known, err := p.discovered(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)

	// The code can be exchanged only once, and only with the PKCE verifier of this attempt.
	token, err := p.config(known).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refusal.Response.StatusCode < http.StatusInternalServerError {
		return Person{}, unauthenticated(fmt.Errorf("exchanging code: %w", err))
	}
	// The provider did not respond, so the error lets the person try again.
	if err != nil {
		return Person{}, away(fmt.Errorf("exchanging code: %w", err))
	}
	raw, _ := token.Extra("id_token").(string)
	idToken, err := known.Verifier(&oidc.Config{ClientID: p.settings.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return Person{}, unauthenticated(fmt.Errorf("verifying ID token: %w", err))
	}
	if a.Nonce == "" || subtle.ConstantTimeCompare([]byte(idToken.Nonce), []byte(a.Nonce)) != 1 {
		return Person{}, unauthenticated(errors.New("the ID token belongs to another login attempt"))
	}

	// The hash binds the access token to the ID token.
	if idToken.AccessTokenHash != "" {
		if err := idToken.VerifyAccessToken(token.AccessToken); err != nil {
			return Person{}, unauthenticated(fmt.Errorf("verifying access token: %w", err))
		}
	}
	return p.person(ctx, known, idToken, token)
}

// claims are the claims of an ID token that the service uses.
type claims struct {
	Email    string  `json:"email"`
	Verified boolean `json:"email_verified"`
	Name     string  `json:"name"`
}

// boolean accepts both true and "true", because some providers send a string.
type boolean bool

// UnmarshalJSON implements json.Unmarshaler. Any value other than true and "true" is false.
func (b *boolean) UnmarshalJSON(raw []byte) error {
	*b = string(raw) == "true" || string(raw) == `"true"`
	return nil
}

// person reads the claims of the ID token. If the email address is missing, it requests the address
// from the provider. A name or an address may be missing.
func (p *Provider) person(ctx context.Context, known *oidc.Provider, idToken *oidc.IDToken, token *oauth2.Token) (Person, error) {
	var c claims
	if err := idToken.Claims(&c); err != nil {
		return Person{}, unauthenticated(fmt.Errorf("reading ID token: %w", err))
	}
	if c.Email == "" && known.UserInfoEndpoint() != "" {
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return Person{}, away(fmt.Errorf("reading email address: %w", err))
		}
		// The standard requires the subject of the response to equal that of the ID token.
		// Otherwise the response could describe another person.
		if info.Subject != idToken.Subject {
			return Person{}, unauthenticated(errors.New("the email address belongs to another subject"))
		}
		if err := info.Claims(&c); err != nil {
			return Person{}, unauthenticated(fmt.Errorf("reading address: %w", err))
		}
	}
	return Person{Issuer: idToken.Issuer, Subject: idToken.Subject, Email: c.Email, Verified: bool(c.Verified), Name: c.Name}, nil
}

// config returns the configuration of the OAuth client. It is the same for all logins.
func (p *Provider) config(known *oidc.Provider) *oauth2.Config {
	endpoint := known.Endpoint()
	endpoint.AuthStyle = p.authStyle(known)
	return &oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret, RedirectURL: p.settings.RedirectURL,
		Endpoint: endpoint, Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
}

// authStyle returns how the provider expects the client secret. Without this information, oauth2
// would try both ways, and the first attempt might use up the code.
func (p *Provider) authStyle(known *oidc.Provider) oauth2.AuthStyle {
	var metadata struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	err := known.Claims(&metadata)
	basic := err != nil || len(metadata.Methods) == 0 || slices.Contains(metadata.Methods, "client_secret_basic")
	if p.settings.ClientSecret != "" && basic {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// discovered returns the provider's endpoints, which it requests at the first call. Concurrent
// callers share one request, so that they do not wait one after another for a provider that is
// down. After a failure, calls within giveUpTime return the same error without a request.
func (p *Provider) discovered(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	if p.now().Before(p.retryAt) {
		return nil, away(p.failed)
	}
	// The request must continue when the login that started it is canceled, because other logins
	// may wait for its result.
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), p.client), callTime)
	defer cancel()
	known, err := oidc.NewProvider(ctx, p.settings.Issuer)
	if err != nil {
		p.failed, p.retryAt = fmt.Errorf("discovering provider: %w", err), p.now().Add(giveUpTime)
		return nil, away(p.failed)
	}
	p.known = known
	return known, nil
}

// unauthenticated returns the error for a login that the provider rejects.
func unauthenticated(cause error) error {
	return apierr.Wrap(apierr.Unauthenticated, withoutTokens(cause), "the identity provider did not confirm your identity; log in again")
}

// withoutTokens removes the provider's response from an error, so that tokens in the response are
// not logged.
func withoutTokens(cause error) error {
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](cause); ok {
		return fmt.Errorf("exchanging code: status %d, error %q", refusal.Response.StatusCode, refusal.ErrorCode)
	}
	return cause
}

// away returns the error for a provider that does not respond. The client may retry after
// giveUpTime.
func away(cause error) error {
	e := apierr.Wrap(apierr.Unavailable, withoutTokens(cause), "the identity provider is unreachable; try again shortly")
	e.RetryAfter = giveUpTime
	return e
}
