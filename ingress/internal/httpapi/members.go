package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
)

// How long links last.
const (
	invitationLife = 7 * 24 * time.Hour
	resetLife      = 24 * time.Hour
)

// listMembers is GET /api/organizations/members: people and open invitations of the organization that the
// request acts in, newest first.
func (a *api) listMembers(c *gin.Context) {
	p, err := timePageOf(c, id.User, id.Invitation)
	if err != nil {
		fail(c, err)
		return
	}
	members, err := a.Store.Members(c.Request.Context(), caller(c).OrganizationID, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, timeListOf(members, p, func(m store.Member) (domain.Member, store.After) {
		return m.Member, store.After{At: m.At, ID: m.ID}
	}))
}

type memberBody struct {
	Email string      `json:"email" need:"yes"`
	Role  domain.Role `json:"role" need:"yes"`
}

func (b *memberBody) Check(p *problems) {
	checkEmail(p, b.Email)
	if b.Role != domain.RoleOwner && b.Role != domain.RoleAdmin && b.Role != domain.RoleMember {
		p.add("role", codeInvalidValue, "must be %s, %s or %s", domain.RoleOwner, domain.RoleAdmin, domain.RoleMember)
	}
}

// invitedView is an invitation with what is shown once.
type invitedView struct {
	domain.Member
	URL       string      `json:"url"`
	ExpiresAt domain.Time `json:"expiresAt"`
}

// addMember is POST /api/organizations/members: it invites an address by a link, whether or not it has an account, and
// changes the role of a member.
func (a *api) addMember(c *gin.Context) {
	body, err := bind[memberBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	token, ends := secrets.NewInvitationToken(), domain.At(time.Now().Add(invitationLife))
	link := store.NewInvitation{TokenHash: secrets.Hash(token), ExpiresAt: ends.Time}
	added, err := a.Store.AddMember(c.Request.Context(), actor(c), body.Email, body.Role, link)
	switch {
	case err != nil:
		fail(c, err)
	case added.Status == domain.MemberInvited:
		writeJSON(c, http.StatusCreated, invitedView{added.Member, a.PublicURL + acceptPath + "?token=" + token, ends})
	default:
		a.Auth.ForgetUser(added.ID)
		writeJSON(c, http.StatusOK, added.Member)
	}
}

// removeMember is DELETE /api/organizations/members?id=: owners remove people and take back invitations, and
// everybody may leave.
func (a *api) removeMember(c *gin.Context) {
	entry, err := memberOf(c)
	if err != nil {
		fail(c, err)
		return
	}
	if err := a.Store.RemoveMember(c.Request.Context(), actor(c), entry); err != nil {
		fail(c, err)
		return
	}
	a.Auth.ForgetUser(entry)
	writeJSON(c, http.StatusOK, deleted(entry))
}

// memberOf gives the id of the query, of a person or an invitation.
func memberOf(c *gin.Context) (string, error) {
	entry, err := requiredID(c, id.User)
	if apierr.CodeOf(err) == apierr.NotFound {
		return requiredID(c, id.Invitation)
	}
	return entry, err
}

type resetView struct {
	URL       string      `json:"url"`
	ExpiresAt domain.Time `json:"expiresAt"`
}

// resetMember is POST /api/organizations/members?id=&action=reset: a link by which a member sets a new password.
func (a *api) resetMember(c *gin.Context) {
	userID, err := requiredID(c, id.User)
	if err != nil {
		fail(c, err)
		return
	}
	token, ends := secrets.NewResetToken(), domain.At(time.Now().Add(resetLife))
	if err := a.Store.CreateMemberReset(c.Request.Context(), actor(c), userID, secrets.Hash(token), ends.Time); err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusCreated, resetView{a.PublicURL + resetPath + "?token=" + token, ends})
}
