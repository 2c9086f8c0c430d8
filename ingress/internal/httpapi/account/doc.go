// Package account serves the endpoints and pages of accounts: sign-up, logins, sessions, links, and invitations to the caller.
package account
