package domain

import "slices"

// CallerKind says in which capacity a request runs an agent.
type CallerKind string

// The kinds of caller; an agent's allowedCallers lists the first two.
const (
	CallerUser   CallerKind = "user"
	CallerSystem CallerKind = "system"
	CallerDemo   CallerKind = "demo"
)

// Role is what a member may do in an organization.
type Role string

// Roles, from the least to the most.
const (
	RoleMember Role = "member"
	RoleAdmin  Role = "admin"
	RoleOwner  Role = "owner"
)

// AtLeast reports whether the role includes everything that want may do.
func (r Role) AtLeast(want Role) bool { return r.rank() >= want.rank() }

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

// DemoTenant is the value of x-tenant-id that enters demo mode.
const DemoTenant = "tenant_demo"

// DemoOrganization is the organization that demo runs are stored under; nobody is a member of it.
const DemoOrganization = "org_00000000000000000000000000"

// Caller is an authenticated caller, with the organization that the request acts in.
type Caller struct {
	Kind           CallerKind
	OrganizationID string
	UserID         string // empty for an organization's key and for demo callers
	KeyID          string // empty unless an API key was used
	Lineage        string // the first key of the rotations that led to KeyID; empty: KeyID itself
	Credential     string // what limits per credential count by: the key's id, or a name of the login session
	Client         string // the client's address (/64 for IPv6), when a request of theirs is carried out
	DemoClient     string // the demo visitor's client address (/64 for IPv6), for demo callers only
	Role           Role
	Visitor        Visitor // of an agent's widget; the zero value for everybody else
}

// Visitor is who chats through an agent's widget, and what their token is bound to.
type Visitor struct {
	ID      string // "anonymous:" and a random name, or "id:" and what the site calls them
	AgentID string // the only agent that they may chat with
	Origin  string // the only one whose pages may send the token
	Client  string // the client address, /64 for IPv6
}

// The beginnings of visitors' ids: a site can name nobody as the service names those whom no site has named.
const (
	VisitorAnonymous = "anonymous:"
	VisitorKnown     = "id:"
)

// Principal names whom sessions and chat idempotency keys belong to: the key if one was used,
// else the user, else the widget's visitor, else the demo client. Keys that succeeded each other by rotation are one principal.
func (c Caller) Principal() string {
	switch {
	case c.Lineage != "":
		return c.Lineage
	case c.KeyID != "":
		return c.KeyID
	case c.UserID != "":
		return c.UserID
	case c.Visitor.ID != "":
		return "widget:" + c.Visitor.ID
	default:
		return "demo:" + c.DemoClient
	}
}

// SystemPrincipal is the principal of an organization's automations, whichever of its keys triggers them.
const SystemPrincipal = "system"

// AutomationPrincipal returns the principal of the runs that a member triggers, whichever of the member's keys triggers them.
func (c Caller) AutomationPrincipal() string { return SystemPrincipal + ":" + c.UserID }

// Readable returns the principals whose sessions and runs the caller may read. It returns nil for admins, who may read all of their
// organization's. The keys and login sessions of a member share what any of them triggered.
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
