package organization

import (
	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/accountdb"
)

// findOrganization returns the error not_found unless the caller is a member of the organization.
// The error does not reveal whether the organization exists.
func (h *Handler) findOrganization(c *gin.Context, org string) error {
	_, err := h.readOrganization(c, org)
	return err
}

// readOrganization reads an organization of which the caller is a member. For any other
// organization, the error is not_found.
func (h *Handler) readOrganization(c *gin.Context, org string) (domain.Membership, error) {
	found, err := h.organizations(c, httpx.Page{Limit: 1}, org)
	if err == nil && len(found) == 0 {
		err = httpx.NotFound()
	}
	if err != nil {
		return domain.Membership{}, err
	}
	return found[0], nil
}

// readKey reads an API key that the caller may list. A user's keys can be listed only by the user,
// in any organization; see keysFor.
func (h *Handler) readKey(c *gin.Context, keyID string) (domain.APIKey, error) {
	return h.Organizations.Key(c.Request.Context(), keysFor(c), keyID)
}

// readMember reads a member or an open invitation of the organization in which the request acts.
// entry is the id of a user or of an invitation.
func (h *Handler) readMember(c *gin.Context, entry string) (domain.Member, error) {
	member, err := h.Organizations.Member(c.Request.Context(), httpx.Caller(c).OrganizationID, entry)
	return member.Member, err
}

// The following finders also check permissions that depend on the resource. If another check
// rejects a request, the Finder is called first. Therefore a caller without permission gets
// permission_denied, whatever else is wrong with the request. If no other check rejects the
// request, the store checks the permission.

// mayRename is the Finder for organizations that the caller owns. Members who are not owners get
// permission_denied. Callers who are not members get not_found.
func (h *Handler) mayRename(c *gin.Context, org string) error {
	known, err := h.readOrganization(c, org)
	if err == nil && !known.Role.AtLeast(domain.RoleOwner) {
		err = apierr.New(apierr.PermissionDenied, "only an owner may rename an organization")
	}
	return err
}

// mayRemove is the Finder for members and invitations that the caller may remove. Members may
// remove themselves. An invitation's id never equals a user's id.
func (h *Handler) mayRemove(c *gin.Context, entry string) error {
	who := httpx.Caller(c)
	_, err := h.readMember(c, entry)
	if err == nil && entry != who.UserID && !who.Role.AtLeast(domain.RoleOwner) {
		err = apierr.New(apierr.PermissionDenied, "only an owner may remove other members")
	}
	return err
}

// mayReset is the Finder for members whose password the caller may reset, because their role is not
// higher than the caller's. An invitation has no password; it is not found, because the route
// accepts only ids of users.
func (h *Handler) mayReset(c *gin.Context, userID string) error {
	member, err := h.readMember(c, userID)
	if err == nil && !httpx.Caller(c).Role.AtLeast(member.Role) {
		err = apierr.New(apierr.PermissionDenied, "only an admin may reset a member's password, and only an owner may reset an owner's")
	}
	return err
}

// mayChangeKey is the Finder for the caller's own keys and, if the caller is an admin, for the
// organization's keys. Unlike readKey, it lets members see that a key of the organization exists,
// so that they get permission_denied.
func (h *Handler) mayChangeKey(c *gin.Context, keyID string) error {
	who := httpx.Caller(c)
	key, err := h.Organizations.Key(c.Request.Context(), accountdb.KeyFilter{OrganizationID: who.OrganizationID, UserID: who.UserID}, keyID)
	if err == nil && key.Scope == domain.KeyScopeOrganization && !who.Role.AtLeast(domain.RoleAdmin) {
		err = apierr.New(apierr.PermissionDenied, "only an admin may change an organization's key")
	}
	return err
}
