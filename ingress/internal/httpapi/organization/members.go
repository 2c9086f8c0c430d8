package organization

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// Lifetimes of links. The tokens in the links expire after these times.
const (
	invitationLife = 7 * 24 * time.Hour
	resetLife      = 24 * time.Hour
)

// listMembers handles GET /api/organizations/members: it lists the members and open invitations of
// the organization in which the request acts, newest first. The cursor consists of a time and an
// id, because members and invitations have different ids.
func (h *Handler) listMembers(c *gin.Context) error {
	p, err := httpx.ReadTimePage(c, id.User, id.Invitation)
	if err != nil {
		return err
	}

	members, err := h.Organizations.Members(c.Request.Context(), httpx.Caller(c).OrganizationID, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewTimeList(members, p, func(m accountdb.Member) (domain.Member, accountdb.After) {
		return m.Member, accountdb.After{At: m.At, ID: m.ID}
	}))
}

// memberBody is the body of POST /api/organizations/members. The role applies to the invited person
// as well as to an existing member.
type memberBody struct {
	Email string      `json:"email" required:"true"`
	Role  domain.Role `json:"role" required:"true"`
}

// Check checks the fields. The caller's permission is checked later. The address is not verified,
// because possession of the link proves the right to accept the invitation.
func (b *memberBody) Check(p *httpx.Problems) {
	p.Email("email", b.Email)
	if b.Role != domain.RoleOwner && b.Role != domain.RoleAdmin && b.Role != domain.RoleMember {
		p.Add("role", httpx.CodeInvalidValue, "must be %s, %s or %s", domain.RoleOwner, domain.RoleAdmin, domain.RoleMember)
	}
}

// invitedView is the response to an invitation. Only this response shows the link. The service
// sends no email, so the caller must pass on the link.
type invitedView struct {
	domain.Member
	URL       string      `json:"url"`
	ExpiresAt domain.Time `json:"expiresAt"`
}

// addMember handles POST /api/organizations/members. It creates an invitation link for an email
// address, whether or not the address has an account. If the address belongs to a member, addMember
// changes the member's role instead. A repeated invitation of the same address replaces the earlier
// invitation. The error is last_owner if the change would leave no owner. The route requires an
// owner.
func (h *Handler) addMember(c *gin.Context) error {
	body, err := httpx.Bind[memberBody](c)
	if err != nil {
		return err
	}

	// The token is created even if it is not needed, because only the transaction knows whether the
	// address belongs to a member.
	token, ends := secrets.NewInvitationToken(), domain.At(time.Now().Add(invitationLife))
	link := accountdb.NewInvitation{TokenHash: secrets.Hash(token), ExpiresAt: ends.Time}
	added, err := h.Organizations.AddMember(c.Request.Context(), actor(c), body.Email, body.Role, link)
	switch {
	case err != nil:
		return err
	case added.Status == domain.MemberInvited:
		return httpx.JSON(c, http.StatusCreated, invitedView{added.Member, h.PublicURL + httpx.AcceptPath + "?token=" + token, ends})
	default:
		// The cached role of the member is outdated.
		h.Auth.ForgetUser(added.ID)
		return httpx.JSON(c, http.StatusOK, added.Member)
	}
}

// removeMember handles DELETE /api/organizations/members?id=. Owners may remove members and
// invitations. Every member may leave the organization. The errors are last_owner if no owner would
// be left, and last_organization if the user would have no organization.
func (h *Handler) removeMember(c *gin.Context) error {
	entry, err := memberFor(c)
	if err != nil {
		return err
	}
	if err := h.Organizations.RemoveMember(c.Request.Context(), actor(c), entry); err != nil {
		return err
	}

	// For an invitation, this has no effect.
	h.Auth.ForgetUser(entry)
	return httpx.JSON(c, http.StatusOK, httpx.Deleted(entry))
}

// memberFor returns the query's id, which must be the id of a user or of an invitation. The error
// is not_found for any other id.
func memberFor(c *gin.Context) (string, error) {
	entry, err := httpx.RequiredID(c, id.User)
	if apierr.CodeFor(err) == apierr.NotFound {
		return httpx.RequiredID(c, id.Invitation)
	}
	return entry, err
}

// resetView is the response with a reset link, which only this response shows. The caller passes it
// on to the member.
type resetView struct {
	URL       string      `json:"url"`
	ExpiresAt domain.Time `json:"expiresAt"`
}

// resetMember handles POST /api/organizations/members?id=&action=reset: it creates a link with
// which a member sets a new password. The status is 201.
func (h *Handler) resetMember(c *gin.Context) error {
	userID, err := httpx.RequiredID(c, id.User)
	if err != nil {
		return err
	}

	token, ends := secrets.NewResetToken(), domain.At(time.Now().Add(resetLife))
	if err := h.Organizations.CreateMemberReset(c.Request.Context(), actor(c), userID, secrets.Hash(token), ends.Time); err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusCreated, resetView{h.PublicURL + httpx.ResetPath + "?token=" + token, ends})
}
