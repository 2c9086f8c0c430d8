package account

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/accountdb"
)

// ownInvitation is an invitation in the response to the invited person. It does not contain the
// token of the invitation's link. Only a person who has the link knows the token.
type ownInvitation struct {
	ID           string                  `json:"id"`
	Organization domain.OrganizationName `json:"organization"`
	Role         domain.Role             `json:"role"`
	ExpiresAt    domain.Time             `json:"expiresAt"`
}

// invitationView returns an invitation in the form for the response to the invited person. It
// contains the role that the person gets by accepting the invitation.
func invitationView(i accountdb.OwnInvitation) ownInvitation {
	return ownInvitation{i.ID, i.Organization, i.Role, i.ExpiresAt}
}

// listInvitations handles GET /api/auth/invitations: it lists the open invitations to the caller's
// email address, newest first. If the caller has not proven the address, the list is empty.
// Otherwise a person could sign up with another person's address and read the invitations to it.
func (h *Handler) listInvitations(c *gin.Context) error {
	p, err := httpx.ReadTimePage(c, id.Invitation)
	if err != nil {
		return err
	}

	invitations, err := h.OrganizationsDB.OwnInvitations(c.Request.Context(), httpx.Caller(c).UserID, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewTimeList(invitations, p, func(i accountdb.OwnInvitation) (ownInvitation, accountdb.After) {
		return invitationView(i), accountdb.After{At: i.At, ID: i.ID}
	}))
}

// readInvitation returns one of the invitations to the caller's proven email address, or the error
// not_found. Routes uses it as the finder for invitations.
func (h *Handler) readInvitation(c *gin.Context, invitationID string) (ownInvitation, error) {
	found, err := h.OrganizationsDB.OwnInvitation(c.Request.Context(), httpx.Caller(c).UserID, invitationID)
	return invitationView(found), err
}

// Actions of a request for an invitation.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
)

// answeredInvitation is an invitation and its outcome. The client shows the outcome, because the
// invitation no longer exists.
type answeredInvitation struct {
	ownInvitation
	Status string `json:"status"` // accepted or declined
}

// answerInvitation handles POST /api/auth/invitations?id=&action=accept|decline: it accepts or
// declines an invitation to the caller's proven email address. If the caller becomes a member, the
// caller's login session is recorded with the membership. Errors: not_found for an invitation that
// was used, has expired, or is for another address.
func (h *Handler) answerInvitation(c *gin.Context) error {
	invitationID, err := httpx.RequiredID(c, id.Invitation)
	if err != nil {
		return err
	}

	found := &httpx.Problems{}
	action, _ := httpx.QueryValue(c, "action", found)
	if action != actionAccept && action != actionDecline {
		found.Add("action", httpx.CodeInvalidValue, "must be accept or decline")
	}
	if err := found.Err(); err != nil {
		return err
	}

	who, accept := httpx.Caller(c), action == actionAccept
	answered, err := h.OrganizationsDB.AnswerInvitation(c.Request.Context(), who.UserID, who.Credential, invitationID, accept)
	if err != nil {
		return err
	}

	status := "declined"
	if accept {
		// The cached memberships lack the new one.
		h.Auth.ForgetUser(who.UserID)
		status = "accepted"
	}

	return httpx.JSON(c, http.StatusOK, answeredInvitation{invitationView(answered), status})
}
