// Package account handles the requests and pages for accounts: sign-up, logins, login sessions,
// links, and invitations to the caller.
package account
