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
	callTime   = 5 * time.Second // of one request to the provider
	giveUpTime = 2 * time.Second // after a failure nobody asks again for so long
)

// Settings name the provider, and what the service is called there.
type Settings struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	RedirectURL  string // where the provider sends browsers back to
}

// Provider is an OpenID provider. It is safe for concurrent use.
type Provider struct {
	settings Settings
	client   *http.Client
	now      func() time.Time

	mu      sync.Mutex
	known   *oidc.Provider // nil until it has told its addresses
	failed  error
	retryAt time.Time
}

// New prepares to log people in by a provider. It does not call it.
func New(s Settings) *Provider {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: callTime, MaxIdleConnsPerHost: 4}
	return &Provider{settings: s, client: &http.Client{Transport: bounded{transport}, Timeout: callTime}, now: time.Now}
}

// Attempt is what a browser that begins to log in must come back with. It is secret to that browser.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Person is whom the provider vouches for. Issuer and Subject name them for ever; Email may change, and counts
// only when it is verified.
type Person struct {
	Issuer, Subject string
	Email           string
	Verified        bool
	Name            string
}

// Begin gives the address to send a browser to. unavailable when the provider cannot be reached.
func (p *Provider) Begin(ctx context.Context) (string, Attempt, error) {
	known, err := p.discovered(ctx)
	if err != nil {
		return "", Attempt{}, err
	}
	a := Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.config(known).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Matches reports whether a state that came back is the attempt's.
func (a Attempt) Matches(state string) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

// Finish exchanges the code that a browser came back with for whom the provider vouches for: unauthenticated when
// it vouches for nobody, or for somebody in another attempt.
func (p *Provider) Finish(ctx context.Context, a Attempt, code string) (Person, error) {
	known, err := p.discovered(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.config(known).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refusal.Response.StatusCode < http.StatusInternalServerError {
		return Person{}, unauthenticated(fmt.Errorf("exchanging code: %w", err))
	}
	if err != nil {
		return Person{}, away(fmt.Errorf("exchanging code: %w", err))
	}
	raw, _ := token.Extra("id_token").(string)
	idToken, err := known.Verifier(&oidc.Config{ClientID: p.settings.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return Person{}, unauthenticated(fmt.Errorf("verifying ID token: %w", err))
	}
	if a.Nonce == "" || subtle.ConstantTimeCompare([]byte(idToken.Nonce), []byte(a.Nonce)) != 1 {
		return Person{}, unauthenticated(errors.New("the ID token is of another attempt"))
	}
	if idToken.AccessTokenHash != "" {
		if err := idToken.VerifyAccessToken(token.AccessToken); err != nil {
			return Person{}, unauthenticated(fmt.Errorf("verifying access token: %w", err))
		}
	}
	return p.person(ctx, known, idToken, token)
}

// claims are what the service reads of a person.
type claims struct {
	Email    string  `json:"email"`
	Verified boolean `json:"email_verified"`
	Name     string  `json:"name"`
}

// boolean is true or "true": some providers write it as text.
type boolean bool

func (b *boolean) UnmarshalJSON(raw []byte) error {
	*b = string(raw) == "true" || string(raw) == `"true"`
	return nil
}

// person reads the ID token, and asks the provider for an address that the token does not hold.
func (p *Provider) person(ctx context.Context, known *oidc.Provider, idToken *oidc.IDToken, token *oauth2.Token) (Person, error) {
	var c claims
	if err := idToken.Claims(&c); err != nil {
		return Person{}, unauthenticated(fmt.Errorf("reading ID token: %w", err))
	}
	if c.Email == "" && known.UserInfoEndpoint() != "" {
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return Person{}, away(fmt.Errorf("asking for address: %w", err))
		}
		if info.Subject != idToken.Subject {
			return Person{}, unauthenticated(errors.New("the address is another subject's"))
		}
		if err := info.Claims(&c); err != nil {
			return Person{}, unauthenticated(fmt.Errorf("reading address: %w", err))
		}
	}
	return Person{Issuer: idToken.Issuer, Subject: idToken.Subject, Email: c.Email, Verified: bool(c.Verified), Name: c.Name}, nil
}

func (p *Provider) config(known *oidc.Provider) *oauth2.Config {
	endpoint := known.Endpoint()
	endpoint.AuthStyle = p.authStyle(known)
	return &oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret, RedirectURL: p.settings.RedirectURL,
		Endpoint: endpoint, Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
}

// authStyle is how the provider wants to be shown the client's secret. Trying both ways in turn, as oauth2 does by
// itself, may use up the code.
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

// discovered gives the provider's addresses, asked for once it can be reached. Those who come while somebody asks
// wait for the answer, and so do not ask a dead provider one after another.
func (p *Provider) discovered(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	if p.now().Before(p.retryAt) {
		return nil, away(p.failed)
	}
	// Whoever asked first may go away, and the others waiting here still want an answer.
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

func unauthenticated(cause error) error {
	return apierr.Wrap(apierr.Unauthenticated, withoutTokens(cause), "the provider did not confirm who you are; begin again")
}

// withoutTokens keeps what a provider answered out of the log: it may hold tokens.
func withoutTokens(cause error) error {
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](cause); ok {
		return fmt.Errorf("exchanging code: status %d, error %q", refusal.Response.StatusCode, refusal.ErrorCode)
	}
	return cause
}

func away(cause error) error {
	e := apierr.Wrap(apierr.Unavailable, withoutTokens(cause), "the provider that logs people in cannot be reached; try again shortly")
	e.RetryAfter = giveUpTime
	return e
}
