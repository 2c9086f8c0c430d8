// Package openid logs people in by an OpenID Connect provider: the authorization code flow with PKCE. What the
// provider says is checked by go-oidc (signature, issuer, audience, expiry); state and nonce tie it to the browser
// that began.
//
//	Begin ──► browser goes to the provider ──► comes back with a code ──► Finish: tokens ──► Person
//
// The provider is asked for its addresses at the first login, and again after a failure: the service starts
// although the provider is down.
package openid
