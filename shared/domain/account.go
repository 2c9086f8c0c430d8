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

// OrganizationName is what somebody who is invited sees of an organization.
type OrganizationName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Membership is a user's role in an organization.
type Membership struct {
	Organization
	Role Role `json:"role"`
}

// MemberStatus says whether somebody belongs to an organization or may.
type MemberStatus string

// The two standings of an entry in an organization's list of members.
const (
	MemberActive  MemberStatus = "active"
	MemberInvited MemberStatus = "invited"
)

// Member is a person who belongs to an organization (ID is usr_…), or whose address is invited to (inv_…).
type Member struct {
	ID        string       `json:"id"`
	Email     string       `json:"email"`
	Name      *string      `json:"name"` // null of somebody invited
	Role      Role         `json:"role"`
	Status    MemberStatus `json:"status"`
	CreatedAt Time         `json:"createdAt"`
}

// Invitation is what a link to an organization stands for.
type Invitation struct {
	ID             string
	OrganizationID string
	Organization   string // its name
	Email          string
	Role           Role
}

// LoginSession is a place where a person is logged in.
type LoginSession struct {
	ID         string `json:"id"`
	CreatedAt  Time   `json:"createdAt"`
	LastUsedAt *Time  `json:"lastUsedAt,omitempty"`
	ExpiresAt  Time   `json:"expiresAt"`
	Current    bool   `json:"current"`
	UserAgent  string `json:"userAgent"`
	Address    string `json:"address"`
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
