package domain

import "strings"

// User is a person with an account.
type User struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
}

// Organization is a tenant: everything else belongs to exactly one.
type Organization struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
}

// Membership is a user's role in an organization.
type Membership struct {
	Organization
	Role Role `json:"role"`
}

// KeyScope says whether an API key stands for one organization or for its owner in all of theirs.
type KeyScope string

// The two scopes of an API key.
const (
	KeyScopeOrganization KeyScope = "organization"
	KeyScopeUser         KeyScope = "user"
)

// APIKey is a key as lists show it; its secret is shown once, on creation.
type APIKey struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Scope      KeyScope `json:"scope"`
	Prefix     string   `json:"prefix"`
	LastFour   string   `json:"lastFour"`
	CreatedAt  Time     `json:"createdAt"`
	ExpiresAt  *Time    `json:"expiresAt"`
	LastUsedAt *Time    `json:"lastUsedAt"`
}

// KeyPrefix is the part of the key with this id that is no secret: "ak_" and the id's own characters.
func KeyPrefix(keyID string) string {
	_, public, _ := strings.Cut(keyID, "_")
	return "ak_" + public
}
