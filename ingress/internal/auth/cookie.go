package auth

import (
	"net/http"
	"time"
)

// SessionLife is the lifetime of a login session.
const SessionLife = 30 * 24 * time.Hour

// SetCookie sets the browser's session cookie. secure must be set if the client uses HTTPS.
func SetCookie(w http.ResponseWriter, token string, expires time.Time, secure bool) {
	http.SetCookie(w, sessionCookie(token, expires, int(SessionLife/time.Second), secure))
}

// ClearCookie deletes the browser's session cookie. secure must have the value with which the
// cookie was set.
func ClearCookie(w http.ResponseWriter, secure bool) {
	http.SetCookie(w, sessionCookie("", time.Unix(1, 0), -1, secure))
}

// sessionCookie returns the cookie. A negative maxAge (seconds) deletes it. With SameSite=Lax,
// browsers do not send the cookie with requests from other sites, except when a person follows a
// link.
func sessionCookie(token string, expires time.Time, maxAge int, secure bool) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // G124: Secure depends on the scheme, because development servers have no TLS
		Name: CookieName, Value: token, Path: "/", Expires: expires, MaxAge: maxAge,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}

// CookieToken returns the token in a request's session cookie, or "" if the request has no
// well-formed session cookie. It does not check whether the token is valid.
func CookieToken(req *http.Request) string {
	token, err := cookieToken(req)
	if err != nil {
		return ""
	}
	return token
}
