// Package account handles the requests and pages for accounts: sign-up, logins, login sessions,
// links, and invitations to the caller.
//
// A person logs in with a password, with a one-time link, or through an OpenID provider. Each way
// ends in the same two steps: newLogin creates a session token, and a method of accountdb stores
// its hash together with the change. Responses contain the token, and browsers get it as a cookie.
//
//	POST /api/auth/... ─► Handler ─┐
//	POST /login, ...   ─► Pages ───┴─► check limits ─► accountdb ─► session token, cookie
//
// The type Handler handles the requests of the API. The type Pages offers the same actions as HTML
// forms, which work without scripts. Each ingress process limits wrong passwords and sign-ups
// separately, with counts in its memory. A login does not reveal whether an email address has an
// account. A sign-up reveals it with the error email_taken. This is one reason for the limit on
// sign-ups.
//
// Passwords are hashed by package auth. The roles of members and the sending of invitations belong
// to package organization.
package account
