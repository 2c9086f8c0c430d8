package httpapi

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

const clientSecret = "client-secret"

// openIDProvider is an OpenID provider on the loopback interface. It logs in the configured person
// immediately. It follows the protocol unless a test changes its behavior.
type openIDProvider struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any              // claims of new ID tokens
	info   map[string]any              // claims of new userinfo responses
	bend   func(claims map[string]any) // changes the claims of an ID token before it is signed
	alg    string                      // algorithm of ID tokens: RS256, none, HS256
	down   bool
	calls  map[string]int
	codes  map[string]url.Values // parameters of authorization requests, by code
}

func newOpenIDProvider(t *testing.T) *openIDProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p := &openIDProvider{t: t, key: key, alg: "RS256", calls: map[string]int{}, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /jwks", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) { p.write(w, http.StatusOK, p.info) })
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls[req.URL.Path]++
		if p.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, req)
	}))
	t.Cleanup(p.Close)
	return p
}

// set changes the provider's behavior.
func (p *openIDProvider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *openIDProvider) write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		p.t.Errorf("provider: %v", err)
	}
}

func (p *openIDProvider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.write(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri": p.URL + "/jwks", "userinfo_endpoint": p.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *openIDProvider) keys(w http.ResponseWriter, _ *http.Request) {
	p.write(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256",
		"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize redirects the browser to the service with a code, as if the person had logged in.
func (p *openIDProvider) authorize(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": "parley", "code_challenge_method": "S256"} {
		if q.Get(name) != want {
			p.t.Errorf("authorize: %s is %q", name, q.Get(name))
		}
	}
	if !strings.Contains(q.Get("scope"), "openid") || !strings.Contains(q.Get("scope"), "email") || q.Get("state") == "" || q.Get("nonce") == "" {
		p.t.Errorf("authorize: %v", q)
	}
	code := rand.Text()
	p.codes[code] = q
	http.Redirect(w, req, q.Get("redirect_uri")+"?code="+code+"&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
}

// token exchanges a code for an ID token, once for each code. The verifier and the client secret
// must be correct.
func (p *openIDProvider) token(w http.ResponseWriter, req *http.Request) {
	must(p.t, req.ParseForm())
	q, known := p.codes[req.PostForm.Get("code")]
	delete(p.codes, req.PostForm.Get("code"))
	client, secret, _ := req.BasicAuth()
	challenge := sha256.Sum256([]byte(req.PostForm.Get("code_verifier")))
	if !known || client != "parley" || secret != clientSecret || req.PostForm.Get("redirect_uri") != q.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != q.Get("code_challenge") {
		p.write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": "parley", "nonce": q.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, p.claims)
	if p.bend != nil {
		p.bend(claims)
	}
	p.write(w, http.StatusOK, map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": p.sign(claims)})
}

func (p *openIDProvider) sign(claims map[string]any) string {
	part := func(value any) string {
		raw, err := json.Marshal(value)
		must(p.t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	signed := part(map[string]any{"alg": p.alg, "typ": "JWT", "kid": "k1"}) + "." + part(claims)
	if p.alg == "none" {
		return signed + "."
	}
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	must(p.t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
