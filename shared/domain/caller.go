package domain

import "slices"

// CallerKind is the kind of caller of an agent.
type CallerKind string

// The kinds of caller. An agent's field allowedCallers may contain only the first two.
const (
	CallerUser   CallerKind = "user"
	CallerSystem CallerKind = "system"
	CallerDemo   CallerKind = "demo"
)

// Role is the role of a member in an organization.
type Role string

// Roles in ascending order.
const (
	RoleMember Role = "member"
	RoleAdmin  Role = "admin"
	RoleOwner  Role = "owner"
)

// AtLeast reports whether the role includes all permissions of the role want.
func (r Role) AtLeast(want Role) bool { return r.rank() >= want.rank() }

// rank returns the position of a role in ascending order. An unknown role has no permissions.
func (r Role) rank() int {
	switch r {
	case RoleOwner:
		return 3
	case RoleAdmin:
		return 2
	case RoleMember:
		return 1
	default:
		return 0
	}
}

// DemoTenant is the value of x-tenant-id that selects demo mode.
const DemoTenant = "tenant_demo"

// DemoOrganization is the organization of demo runs. It has no members.
const DemoOrganization = "org_00000000000000000000000000"

// Caller is an authenticated caller and the organization of the request.
type Caller struct {
	Kind           CallerKind
	OrganizationID string
	UserID         string // empty for an organization's key and for demo callers
	KeyID          string // empty unless an API key was used
	Lineage        string // the first key in the chain of rotations; if empty, KeyID is used instead
	Credential     string // identifies the credential in rate limits: the id of the API key, or an id of the login session
	Client         string // the client's IP address (/64 for IPv6) during a request
	DemoClient     string // the client's IP address (/64 for IPv6), only for demo callers
	Role           Role
	Visitor        Visitor // set if the caller is a visitor of an agent's widget
}

// Visitor is a user of an agent's widget, and the restrictions of their token.
type Visitor struct {
	ID      string // "anonymous:" and a random name, or "id:" and the website's name for the visitor
	AgentID string // the only agent with which the visitor may chat
	Origin  string // the only origin from which pages may send the token
	Client  string // the client address, /64 for IPv6

	Attachments bool // the widget takes files from its visitors
}

// WidgetPrincipal is the prefix of the principals of visitors.
const WidgetPrincipal = "widget:"

// Prefixes of visitors' ids. They distinguish names chosen by websites from generated names.
const (
	VisitorAnonymous = "anonymous:"
	VisitorKnown     = "id:"
)

// Principal returns the owner of sessions and chat idempotency keys: the API key if the caller used
// one, otherwise the user, the widget's visitor, or the demo client. All keys in a chain of
// rotations have the same principal, so a rotation does not hide the sessions of the previous key.
func (c Caller) Principal() string {
	switch {
	case c.Lineage != "":
		return c.Lineage
	case c.KeyID != "":
		return c.KeyID
	case c.UserID != "":
		return c.UserID
	case c.Visitor.ID != "":
		return WidgetPrincipal + c.Visitor.ID
	default:
		return "demo:" + c.DemoClient
	}
}

// SystemPrincipal is the principal of an organization's automations. It does not depend on the key
// that triggers them.
const SystemPrincipal = "system"

// AutomationPrincipal returns the principal of the runs that a member triggers. It does not depend
// on the member's key.
func (c Caller) AutomationPrincipal() string { return SystemPrincipal + ":" + c.UserID }

// Readable returns the principals whose sessions and runs the caller may read. It returns nil for
// admins, who may read all sessions and runs of their organization. All keys and login sessions of
// a member may read the runs that any of them has triggered.
func (c Caller) Readable() []string {
	switch {
	case c.Role.AtLeast(RoleAdmin):
		return nil
	case c.UserID != "":
		return []string{c.Principal(), c.AutomationPrincipal()}
	default:
		return []string{c.Principal()}
	}
}

// MayRead reports whether the caller may read the sessions and runs of a principal.
func (c Caller) MayRead(principal string) bool {
	reads := c.Readable()
	return reads == nil || slices.Contains(reads, principal)
}
