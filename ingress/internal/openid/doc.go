// Package openid logs people in with an OpenID Connect provider, by the authorization code flow
// with PKCE. go-oidc checks the ID token (signature, issuer, audience, expiry). State and nonce
// bind the login to the browser that began it.
//
//	Begin ──► browser goes to the provider ──► comes back with a code ──► Finish: tokens ──► Person
//
// The provider's endpoints are discovered at the first login, and again after a failure, so the
// service starts even if the provider is down. Package httpapi/account keeps the [Attempt] for the
// browser and creates the session of the person. This package stores nothing.
package openid
