// Package account answers what people and their organizations are: logins, invitations, members and keys.
package account
