package domain

import "strings"

// User is a person with an account.
type User struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
}

// Organization is a tenant. A user may belong to several organizations; every other resource
// belongs to exactly one.
type Organization struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
}

// OrganizationName is the part of an organization that an invited person may see.
type OrganizationName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Membership is a user's role in an organization. Its JSON form is the organization with the
// additional field role.
type Membership struct {
	Organization
	Role Role `json:"role"`
}

// MemberStatus is the status of an entry in an organization's list of members.
type MemberStatus string

// The statuses of members.
const (
	MemberActive  MemberStatus = "active"
	MemberInvited MemberStatus = "invited"
)

// Member is a member of an organization (ID is usr_…), or an invited address (inv_…).
type Member struct {
	ID        string       `json:"id"`
	Email     string       `json:"email"`
	Name      *string      `json:"name"` // null for an invitation
	Role      Role         `json:"role"`
	Status    MemberStatus `json:"status"`
	CreatedAt Time         `json:"createdAt"`
}

// Invitation is the invitation to which a link leads. It is not a resource of the HTTP API, so it
// has no JSON form.
type Invitation struct {
	ID             string
	OrganizationID string
	Organization   string // name of the organization
	Email          string
	Role           Role
}

// LoginSession is the login of a user in a browser.
type LoginSession struct {
	ID         string `json:"id"`
	CreatedAt  Time   `json:"createdAt"`
	LastUsedAt *Time  `json:"lastUsedAt,omitempty"`
	ExpiresAt  Time   `json:"expiresAt"`
	Current    bool   `json:"current"`
	UserAgent  string `json:"userAgent"`
	Address    string `json:"address"`
}

// KeyScope is the scope of an API key: one organization, or all organizations of its owner.
type KeyScope string

// The two scopes of an API key.
const (
	KeyScopeOrganization KeyScope = "organization"
	KeyScopeUser         KeyScope = "user"
)

// APIKey is a key as lists show it. Its secret is shown once, on creation. Prefix and LastFour let
// a person recognize the key.
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

// KeyPrefix is the public part of the key with this id: "ak_" and the random part of the id. The
// key itself continues with its secret part.
func KeyPrefix(keyID string) string {
	_, public, _ := strings.Cut(keyID, "_")
	return "ak_" + public
}
