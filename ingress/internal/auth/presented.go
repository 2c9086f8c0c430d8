package auth

import (
	"net/http"
	"strings"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// Via is the way in which a request presented its credential.
type Via string

// The ways in which a request can present its credential.
const (
	ViaNothing Via = ""
	ViaCookie  Via = "cookie"
	ViaBearer  Via = "bearer"
	ViaKey     Via = "key"
	ViaWidget  Via = "widget"
	ViaSecret  Via = "client secret" // accepted at /v1/realtime only
)

// CookieName is the name of the session cookie.
const CookieName = "parley_session"

// The headers that identify the caller, in the canonical form of net/http.
const (
	headerKey           = "X-Api-Key"
	headerAuthorization = "Authorization"
	headerOrganization  = "X-Organization-Id"
	// headerTenant is the header that selects demo mode. Its only valid value is domain.DemoTenant.
	headerTenant = "X-Tenant-Id"
)

// presented contains the unverified data with which a request identifies itself: at most one
// credential, the name of an organization, and whether the request is in demo mode. The function
// read creates it. The data is never logged.
type presented struct {
	via   Via
	token string
	org   string // empty if the header is missing
	demo  bool
}

// read extracts the credentials of a request. It reads the session cookie only if the argument
// cookies is set. A malformed credential is an error and is never ignored. Errors have the codes
// invalid_request, conflicting_credentials and unauthenticated. read accesses no database.
func read(req *http.Request, cookies bool) (presented, error) {
	var p presented

	// Malformed headers are rejected even if no credential is needed. Otherwise the request would
	// be treated as anonymous because of a typing error.
	tenant, err := single(req, headerTenant, "x-tenant-id")
	if err != nil {
		return p, err
	}
	if tenant != "" && tenant != domain.DemoTenant {
		return p, apierr.Invalid("x-tenant-id", "invalid_value", "must be %s, the only supported value", domain.DemoTenant)
	}
	p.demo = tenant != ""
	if p.org, err = single(req, headerOrganization, "x-organization-id"); err != nil {
		return p, err
	}

	key, bearer, err := explicit(req)
	if err != nil {
		return p, err
	}

	// An explicit credential takes precedence over the cookie, which browsers send automatically.
	switch {
	case key != "":
		p.via, p.token = ViaKey, key
	case bearer != "":
		p.via, p.token = bearing(bearer), bearer
	case cookies:
		p.token, err = cookieToken(req)
		if p.token != "" {
			p.via = ViaCookie
		}
	}
	return p, err
}

// explicit returns the credential of the headers: an API key or a bearer token. Both headers may
// contain the same credential, because clients that support several protocols send the credential
// in both. The error for a malformed header names the header.
func explicit(req *http.Request) (key, bearer string, err error) {
	if key, err = single(req, headerKey, "x-api-key"); err != nil {
		return "", "", err
	}
	bearer, err = bearerToken(req)
	_, both := req.Header[headerAuthorization]
	switch {
	case !both || key == "":
		return key, bearer, err
	case err != nil || bearer != key:
		return "", "", apierr.New(apierr.ConflictingCredentials, "x-api-key and authorization differ: send one of them, or the same key in both")
	}
	return key, "", nil
}

// bearing returns the kind of a bearer token according to the token's prefix.
func bearing(token string) Via {
	switch {
	case secrets.IsAPIKey(token):
		return ViaKey
	case secrets.IsWidgetToken(token):
		return ViaWidget
	default:
		return ViaBearer
	}
}

// single returns the value of a header that may occur at most once, or "" if it is absent. It
// returns an error if the header is repeated, or if its value is empty or contains a comma or a
// space. Proxies might interpret such headers differently from the service. header is the name in
// canonical form, and field the name in errors.
func single(req *http.Request, header, field string) (string, error) {
	// Read the map directly, because Header.Get ignores all but the first of repeated headers.
	values, present := req.Header[header]
	switch {
	case !present:
		return "", nil
	case len(values) != 1:
		return "", apierr.Invalid(field, "duplicate", "must be sent only once")
	case values[0] == "":
		return "", apierr.Invalid(field, "required", "must not be empty")
	case !isVisible(values[0]) || strings.ContainsRune(values[0], ','):
		return "", apierr.Invalid(field, "invalid_value", "must be one value without spaces or commas")
	}
	return values[0], nil
}

// isVisible reports whether s consists of printable ASCII without spaces.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// bearerToken returns the token of the Authorization header, or "" if the header is absent. It
// returns an error for a scheme other than Bearer. The scheme is not case-sensitive.
func bearerToken(req *http.Request) (string, error) {
	const field = "authorization"
	values, present := req.Header[headerAuthorization]
	if !present {
		return "", nil
	}
	if len(values) != 1 {
		return "", apierr.Invalid(field, "duplicate", "must be sent only once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if scheme == "" {
		return "", apierr.Invalid(field, "required", "must not be empty")
	}
	if strings.ContainsRune(values[0], ',') || !isVisible(token) {
		return "", apierr.Invalid(field, "invalid_value", "must be \"Bearer\", one space and one token")
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return "", apierr.New(apierr.Unauthenticated, "unsupported authorization scheme: use Bearer")
	}
	if token == "" {
		return "", apierr.Invalid(field, "required", "the token is empty")
	}
	return token, nil
}

// cookieToken returns the token of the session cookie, or "" if the cookie is absent.
func cookieToken(req *http.Request) (string, error) {
	cookies := req.CookiesNamed(CookieName)
	switch {
	case len(cookies) == 0:
		return "", nil
	case len(cookies) > 1:
		return "", apierr.Invalid("cookie", "duplicate", "the session cookie must be sent only once")
	case cookies[0].Value == "":
		return "", apierr.Invalid("cookie", "required", "the session cookie is empty")
	case !isVisible(cookies[0].Value): // net/http accepts spaces in cookies, Parley does not
		return "", apierr.Invalid("cookie", "invalid_value", "the session cookie must not contain spaces")
	}
	return cookies[0].Value, nil
}

// SaysDemo reports whether a request has the demo header, even with an invalid value. Every request
// with this header counts against the rate limit of the demo. A repeated header counts if one of
// its values names the demo.
func SaysDemo(req *http.Request) bool {
	for _, value := range req.Header[headerTenant] {
		if strings.Contains(value, domain.DemoTenant) {
			return true
		}
	}
	return false
}
